"""Reading parallel text, and what is said when it cannot be read."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from termweave.data.readers import read_lines, read_tmx, read_together
from termweave.errors import DataError

LINES = ["first line", "zweite Zeile mit ß", "第三行", ""]


def write(path: Path, data: bytes) -> Path:
    openers = {".gz": gzip.open, ".xz": lzma.open}
    with openers.get(path.suffix, open)(path, "wb") as file:  # type: ignore[operator]
        file.write(data)
    return path


@pytest.mark.parametrize("name", ["text", "text.txt", "text.gz", "text.xz"])
def test_plain_and_compressed(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "\n".join(LINES).encode() + b"\n")
    assert list(read_lines(path)) == LINES


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    path = write(tmp_path / "text", "a\u2028b\x85c\x0cd\re\r\nf\n\ng".encode())
    assert list(read_lines(path)) == ["a\u2028b\x85c\x0cd\re", "f", "", "g"]


def test_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path / "text", b"\xef\xbb\xbfa\nb\n"))) == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"fine\nbad \xff\n", r"text, line 2: invalid UTF-8 at byte 5 of the line \(0xff\)"),
        ("Grüße\n".encode("latin-1"), "line 1: invalid UTF-8"),
        (b"a\nb\0c\n", "line 2: NUL byte"),
        ("a\n".encode("utf-16-be"), "line 1: NUL byte"),
        (b"", "text is empty"),
    ],
)
def test_bad_text(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_lines(write(tmp_path / "text", data)))


@pytest.mark.parametrize("name", ["text.gz", "text.xz"])
def test_cut_off_compressed_file(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "".join(f"line {number * 7919 % 100003}\n" for number in range(50000)).encode())
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=rf"{name}: the compressed file is cut off or damaged after line \d+"):
        list(read_lines(path))


@pytest.mark.parametrize("name", ["text.gz", "text.xz"])
def test_file_that_is_not_compressed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"plain text\n")
    with pytest.raises(DataError, match="cut off or damaged"):
        list(read_lines(tmp_path / name))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="is a folder"):
        list(read_lines(tmp_path))


def test_unequal_line_counts_name_both(tmp_path: Path) -> None:
    first = write(tmp_path / "a.de", b"1\n2\n3\n4\n")
    second = write(tmp_path / "a.en", b"1\n2\n")
    read = []
    with pytest.raises(DataError, match=r"not parallel: .*a\.de has 4 lines, .*a\.en has 2 lines"):
        read.extend(read_together(first, second))
    with pytest.raises(DataError, match=r"a\.en has 2 lines, .*a\.de has 4 lines"):
        list(read_together(second, first))


def test_last_line_without_end_counts(tmp_path: Path) -> None:
    pair = write(tmp_path / "a", b"1\n2"), write(tmp_path / "b", b"x\ny\n")
    assert list(read_together(*pair)) == [("1", "x"), ("2", "y")]


TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>Press <hi>the <ph>&lt;b&gt;</ph>red</hi> button</seg></tuv>
    <tuv xml:lang="de"><seg>Drück den <bpt i="1">{\\b</bpt>roten<ept i="1">}</ept> Knopf</seg></tuv></tu>
<tu><tuv lang="EN_gb"><seg>colour</seg></tuv><tuv xml:lang="de-AT"><seg>Farbe</seg></tuv>
    <tuv xml:lang="en-US"><seg>color</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>no German</seg></tuv><tuv xml:lang="fr"><seg>rien</seg></tuv></tu>
</body></tmx>
"""


@pytest.mark.parametrize("name", ["memory.tmx", "memory.tmx.gz"])
def test_tmx(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, TMX.encode())
    assert list(read_tmx(path, "de", "en")) == [
        ("Drück den roten Knopf", "Press the red button"),
        ("Farbe", "colour"),
    ]


def test_tmx_in_utf16(tmp_path: Path) -> None:
    path = write(tmp_path / "memory.tmx", TMX.replace("UTF-8", "UTF-16").encode("utf-16"))
    assert len(list(read_tmx(path, "de", "en"))) == 2


def test_tmx_without_the_languages(tmp_path: Path) -> None:
    path = write(tmp_path / "memory.tmx", TMX.encode())
    with pytest.raises(DataError, match="no unit with both de and it; it holds: de, en, fr"):
        list(read_tmx(path, "de", "it"))


def test_broken_tmx_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "memory.tmx", TMX.replace("</tuv></tu>", "</tu>", 1).encode())
    with pytest.raises(DataError, match=r"memory.tmx is not well-formed XML: .*line 5"):
        list(read_tmx(path, "de", "en"))


def test_tmx_with_entities_is_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE tmx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><tmx><body><tu>&b;</tu></body></tmx>'
    with pytest.raises(DataError, match="entities"):
        list(read_tmx(write(tmp_path / "memory.tmx", bomb.encode()), "de", "en"))


@pytest.mark.parametrize("encoding", ["GB18030", "EUC-JP", "no-such-encoding"])
def test_tmx_in_an_encoding_the_parser_does_not_know(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "memory.tmx", TMX.replace("UTF-8", encoding).encode())
    with pytest.raises(DataError, match=r"memory\.tmx .*convert the file to UTF-8"):
        list(read_tmx(path, "de", "en"))


def test_tmx_nested_too_deeply(tmp_path: Path) -> None:
    text = TMX.replace("colour", "<hi>" * 5000 + "colour" + "</hi>" * 5000)
    with pytest.raises(DataError, match=r"memory\.tmx: .*after unit 1 is nested too deeply"):
        list(read_tmx(write(tmp_path / "memory.tmx", text.encode()), "de", "en"))
