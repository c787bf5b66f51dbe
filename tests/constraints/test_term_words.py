"""Comparable words and their places in the text as written."""

from __future__ import annotations

import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.constraints.term_words import _STEMMERS, WordSplitter, composed
from termweave.errors import ConfigError
from termweave.text.words import normalise


@pytest.mark.parametrize(
    ("text", "language", "words", "keys"),
    [
        ("The OLD house.", "en", ["The", "OLD", "house", "."], ["the", "old", "house", "."]),
        ("Straße STRASSE", "de-AT", ["Straße", "STRASSE"], ["strasse", "strasse"]),
        ("cafe\u0301 a", "en", ["cafe\u0301", "a"], ["caf\u00e9", "a"]),
        ("ha\u00adus\u200bboot da", "de", ["ha\u00adus\u200bboot", "da"], ["hausboot", "da"]),
        ("don’t a\u2011b", "en", ["don’t", "a", "\u2011", "b"], ["don't", "a", "-", "b"]),
        ("用Linux系统", "zh", ["用", "Linux", "系", "统"], ["用", "linux", "系", "统"]),
        ("", "en", [], []),
    ],
)
def test_split(text: str, language: str, words: list[str], keys: list[str]) -> None:
    found = WordSplitter(language).split(text)
    assert [text[start:end] for start, end in found.spans] == words
    assert found.keys == keys


def test_stems() -> None:
    splitter = WordSplitter("en", inflection=True)
    assert splitter.split("Opened windows").keys == splitter.split("opening WINDOW").keys
    assert splitter.split("3.5 B2B").keys == ["3.5", "b2b"]


def test_every_stemmer_exists() -> None:
    for language in _STEMMERS:
        assert WordSplitter(language, inflection=True).split("a").keys


def test_no_stemmer() -> None:
    with pytest.raises(ConfigError, match=r"no stemmer for the language 'zh'.*turn inflection off"):
        WordSplitter("zh", inflection=True)


marked = st.text(
    st.one_of(st.characters(), st.sampled_from("e\u0301\u0327\u200b\u1100\u1161\u11a8\u0958 \u09c7\u09be"))
)


@given(marked)
def test_composed_agrees_with_normalise_and_covers_the_text(text: str) -> None:
    plain, origins = composed(text)
    visible = text.replace("\u2581", "_")
    assert normalise(plain.replace("\u2581", "_")) == normalise(visible)
    assert len(origins) == len(plain)
    for (start, end), (following, _) in itertools.pairwise(origins):
        assert start < end
        assert following == start or following >= end
    for place, (start, end) in enumerate(origins):
        same = [other for other in range(len(plain)) if origins[other] == (start, end)]
        cluster = "".join(plain[other] for other in same)
        assert plain[place] in cluster
        if text[start:end].isprintable():
            assert cluster == unicodedata.normalize("NFC", text[start:end])
