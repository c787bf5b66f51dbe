"""Which words can carry a constraint."""

from __future__ import annotations

import pytest

from termweave.text.stopwords import STOP_WORDS, is_content, is_punctuation


@pytest.mark.parametrize(
    ("word", "language", "content"),
    [
        ("house", "en", True),
        ("The", "en", False),
        ("2nd", "en", False),
        ("--", "en", False),
        ("für", "de", False),
        ("DASS", "de", False),
        ("daß", "de", False),
        ("Häuser", "de", True),
        ("的", "zh", False),
        ("翻译", "zh", True),
        ("三千万", "zh", False),
        ("一般性", "zh", True),
        ("the", "sv", True),
    ],
)
def test_content(word: str, language: str, content: bool) -> None:
    assert is_content(word, language) is content


def test_punctuation() -> None:
    assert all(map(is_punctuation, [".", "--", "«", "。", "_"]))
    assert not any(map(is_punctuation, ["a", "1", "a.", "我"]))


def test_lists_hold_plain_words() -> None:
    for words in STOP_WORDS.values():
        assert len(words) > 100
        assert all(word == word.strip() and word for word in words)
