"""Whole-word comparison."""

from __future__ import annotations

import pytest

from termweave.constraints.occurrences import comparable, count_occurrences


@pytest.mark.parametrize(
    ("text", "phrase", "language", "count"),
    [
        ("the party began", "art", "en", 0),
        ("art, and more art", "art", "en", 2),
        ("The house", "the house", "en", 0),
        ("a a a", "a a", "en", 1),
        ("the  big\u00a0house.", "big house", "en", 1),
        ("cafe\u0301", "caf\u00e9", "en", 1),
        ("use C++ (now)", "C++", "en", 1),
        ("a.b", "a.b", "en", 1),
        ("a-b", "a.b", "en", 0),
        ("the well-known text", "well-known", "en", 1),
        ("Europe's aim", "Europe", "en", 1),
        ("don't go", "don't", "en", 1),
        ("don't go", "don", "en", 0),
        ("人工智能很好", "人工 智能", "zh", 1),
        ("人工智能很好", "工智", "zh", 1),
        ("使用Linux系统", "Linux", "zh", 1),
        ("使用Linuxes系统", "Linux", "zh", 0),
        ("\uff08系统\uff09", "(系统)", "zh", 0),
        ("", "a", "en", 0),
        ("a", "", "en", 0),
    ],
)
def test_count(text: str, phrase: str, language: str, count: int) -> None:
    assert count_occurrences(comparable(text, language), comparable(phrase, language)) == count
