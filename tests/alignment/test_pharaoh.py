"""Pharaoh files: what is written is read again, and what is wrong is named with its line."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.alignment import LINK, read_pharaoh, store_pharaoh, write_pharaoh
from termweave.errors import DataError
from termweave.storage import RaggedArray

position = st.integers(0, 65535)
rows_of_links = st.lists(st.lists(st.tuples(position, position), unique=True).map(sorted), max_size=6)


@settings(deadline=None, max_examples=60)
@given(rows_of_links)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[list[tuple[int, int]]]) -> None:
    folder = tmp_path_factory.mktemp("pharaoh")
    write_pharaoh(folder / "links", RaggedArray.from_rows(rows, LINK))
    text = (folder / "links").read_text()
    assert text == "".join(" ".join(f"{i}-{j}" for i, j in row) + "\n" for row in rows)
    stored = store_pharaoh(folder / "links", folder / "stored")
    assert [stored[row].tolist() for row in range(len(stored))] == rows
    assert [sorted(gold.sure) for gold in read_pharaoh(folder / "links")] == rows


def test_part_of_the_rows(tmp_path: Path) -> None:
    links = RaggedArray.from_rows([[(0, 0)], [], [(10, 9), (10, 11)], [(5, 5)]], LINK)
    write_pharaoh(tmp_path / "links", links, first=1, last=3)
    assert (tmp_path / "links").read_text() == "\n10-9 10-11\n"


def test_sure_and_possible(tmp_path: Path) -> None:
    (tmp_path / "links").write_text("0-0 1p2\n\n3-1\n")
    gold = read_pharaoh(tmp_path / "links")
    assert [(sorted(row.sure), sorted(row.possible)) for row in gold] == [
        ([(0, 0)], [(0, 0), (1, 2)]),
        ([], []),
        ([(3, 1)], [(3, 1)]),
    ]
    stored = store_pharaoh(tmp_path / "links", tmp_path / "stored")
    assert stored[0].tolist() == [(0, 0), (1, 2)]


def test_counting_from_one(tmp_path: Path) -> None:
    (tmp_path / "links").write_text("1-1 2-3\n")
    assert read_pharaoh(tmp_path / "links", one_based=True)[0].sure == {(0, 0), (1, 2)}
    (tmp_path / "links").write_text("1-1\n0-1\n")
    with pytest.raises(DataError, match="line 2: positions must lie between 1 and 65536"):
        read_pharaoh(tmp_path / "links", one_based=True)


def test_links_are_sorted_when_stored_and_compressed_files_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "links.gz", "wt") as file:
        file.write("2-1 0-3 0-1\n1-0")
    stored = store_pharaoh(tmp_path / "links.gz", tmp_path / "stored")
    assert [stored[0].tolist(), stored[1].tolist()] == [[(0, 1), (0, 3), (2, 1)], [(1, 0)]]


@pytest.mark.parametrize(
    "bad", ["0_0", "0-", "-1-2", "0-0-0", "a-b", "0-1x", "123456-0", "0-0,1-1", "\N{SUPERSCRIPT TWO}-1"]
)
def test_malformed_links_are_named(tmp_path: Path, bad: str) -> None:
    (tmp_path / "links").write_text(f"0-0\n1-1 {bad} 2-2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"links, line 2: .* is not a link; write links as 0-0 \(sure\)"):
        store_pharaoh(tmp_path / "links", tmp_path / "stored")
    assert not list(tmp_path.glob("stored*"))


@pytest.mark.parametrize(("line", "side", "words"), [("0-0 3-1", "source", 3), ("0-0 1-2", "target", 2)])
def test_links_outside_the_sentence(tmp_path: Path, line: str, side: str, words: int) -> None:
    (tmp_path / "links").write_text(f"0-0\n{line}\n")
    lengths = {"source_lengths": np.array([1, 3]), "target_lengths": np.array([1, 2])}
    with pytest.raises(DataError, match=f"line 2: {side} position {words}, but the sentence has {words} words"):
        read_pharaoh(tmp_path / "links", **lengths)


@pytest.mark.parametrize("text", ["0-0\n", "0-0\n0-0\n0-0\n"])
def test_wrong_number_of_lines(tmp_path: Path, text: str) -> None:
    (tmp_path / "links").write_text(text)
    with pytest.raises(DataError, match="they must match"):
        store_pharaoh(tmp_path / "links", tmp_path / "stored", source_lengths=np.array([1, 1]))


def test_missing_damaged_and_wrongly_encoded_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_pharaoh(tmp_path / "missing")
    (tmp_path / "links.gz").write_bytes(b"not compressed")
    with pytest.raises(DataError, match="damaged"):
        read_pharaoh(tmp_path / "links.gz")
    (tmp_path / "links").write_bytes(b"0-0\n\xff\xfe\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_pharaoh(tmp_path / "links")
