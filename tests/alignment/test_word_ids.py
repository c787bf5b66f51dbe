"""Word strings into numbers."""

from pathlib import Path

import numpy as np

from termweave.alignment import WordIds, identical_words


def test_ids_ignore_letter_case(tmp_path: Path) -> None:
    with WordIds(tmp_path / "words") as words:
        words.extend([["Der", "Wald", "der"], []])
        words.extend([["STRASSE", "straße", "wald"]])
    assert words.size == 3
    rows = words.open()
    assert [rows[row].tolist() for row in range(len(rows))] == [[0, 1, 0], [], [2, 2, 1]]
    assert rows.values.dtype == np.int32


def test_identical_words(tmp_path: Path) -> None:
    with WordIds(tmp_path / "source") as source, WordIds(tmp_path / "target") as target:
        source.extend([["Berlin", "ist", "1989"]])
        target.extend([["in", "1989", ",", "berlin"]])
    assert identical_words(source, target).tolist() == [3, -1, 1]


def test_nothing(tmp_path: Path) -> None:
    with WordIds(tmp_path / "source") as source, WordIds(tmp_path / "target") as target:
        source.extend([])
        target.extend([[]])
    assert (source.size, len(source.open()), len(target.open())) == (0, 0, 1)
    assert len(identical_words(source, target)) == 0
