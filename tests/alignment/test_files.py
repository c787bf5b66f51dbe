"""Text files in, Pharaoh file out."""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from termweave.alignment import GoldFiles, align_files, read_pharaoh
from termweave.errors import DataError


def sentence(prefix: str, words: list[int]) -> str:
    return " ".join(f"{prefix}{word}" for word in words) + "\n"


@pytest.fixture
def text(tmp_path: Path, invent_text: Callable[..., Any]) -> tuple[Path, Path, GoldFiles]:
    """400 pairs as a plain and an .xz file, in different letter case, and 50 more with their true links."""
    pairs = invent_text(450)
    names = ("text.s", "text.t.xz", "gold.s", "gold.t", "gold.links")
    source, target, gold_source, gold_target, gold_links = (tmp_path / name for name in names)
    source.write_text("".join(sentence("a", pair[0]) for pair in pairs[:400]))
    with lzma.open(target, "wt") as file:
        file.write("".join(sentence("b", pair[1]) for pair in pairs[:400]))
    gold_source.write_text("".join(sentence("A", pair[0]) for pair in pairs[400:]))
    gold_target.write_text("".join(sentence("B", pair[1]) for pair in pairs[400:]))
    gold_links.write_text(
        "".join(" ".join(f"{i + 1}-{j + 1}" for i, j in sorted(pair[2])) + "\n" for pair in pairs[400:])
    )
    return source, target, GoldFiles(gold_source, gold_target, gold_links, one_based=True)


def test_links_of_the_text_and_error_rate_of_the_gold_pairs(text: Any, tmp_path: Path) -> None:
    source, target, gold = text
    output = tmp_path / "new" / "links"
    report = align_files(source, target, output, gold=gold, threads=1)
    rows = read_pharaoh(output)
    assert len(rows) == report.sentences == 400
    assert sum(len(row.sure) for row in rows) == report.links
    assert report.error_rate is not None
    assert report.error_rate.sentences == 50
    assert report.error_rate.error_rate < 0.1, str(report.error_rate)
    assert report.source_words <= 205
    assert [path.name for path in output.parent.iterdir()] == ["links"]


def test_without_gold(text: Any, tmp_path: Path) -> None:
    assert align_files(*text[:2], tmp_path / "links", threads=1).error_rate is None


def test_files_of_different_length(text: Any, tmp_path: Path) -> None:
    source, _, gold = text
    with pytest.raises(DataError, match=r"differ in length: .*gold\.t has fewer lines"):
        align_files(source, gold.target, tmp_path / "links")
    assert not (tmp_path / "links").exists()


def test_gold_links_that_do_not_fit(text: Any, tmp_path: Path) -> None:
    source, target, gold = text
    gold.links.write_text("1-1\n" * 49 + "1-99\n")
    with pytest.raises(DataError, match=r"gold\.links, line 50: target position 98"):
        align_files(source, target, tmp_path / "links", gold=gold)


LATIN1 = "Müller\n".encode("latin-1")


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        ("", LATIN1, "is not UTF-8 text"),
        (".gz", gzip.compress(b"a b c\n" * 500)[:-12], "is damaged"),
        (".gz", gzip.compress(b"")[:10] + b"\xff" * 40, "is damaged"),
        (".gz", b"no gzip\n", "is damaged"),
        (".xz", b"no xz\n", "is damaged"),
        (".xz", lzma.compress(b"a b c\n" * 500)[:-30], "is damaged"),
    ],
    ids=["latin-1", "cut gz", "garbage in gz", "no gz", "no xz", "cut xz"],
)
def test_the_damaged_file_is_named(tmp_path: Path, damaged: int, suffix: str, content: bytes, message: str) -> None:
    paths = [tmp_path / "good", tmp_path / "good"]
    paths[0].write_text("a b c\n" * 500)
    paths[damaged] = tmp_path / f"bad{suffix}"
    paths[damaged].write_bytes(content)
    with pytest.raises(DataError, match=rf"/bad{suffix} {message}"):
        align_files(*paths, tmp_path / "links")
