"""Words as spans, normalisation, and joining tokenised text."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.text.words import join_tokens, normalise, split_words

LANGUAGES = st.sampled_from(["de", "en", "fr", "zh", "ja", "hi"])
TEXT = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="aZß 3.,'’-_\"我们在机器翻译のカタ,。e\u0301\u200d👩", max_size=60),
)


def words_of(text: str, language: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text, language)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("  two\t words\n", "two words"),
        ("no\u00a0break\u3000wide\u2028line\x85next", "no break wide line next"),
        ("\ufeffbyte order", "byte order"),
        ("zero\u200bwidth so\u00adft", "zerowidth soft"),
        ("nul\x00 bell\x07", "nul bell"),
        ("e\u0301", "é"),
        ("full，width１", "full，width１"),
        ("a\u2581b", "a_b"),
        ("lone\ud800surrogate", "lonesurrogate"),
        ("👩\u200d🔬", "👩\u200d🔬"),
    ],
)
def test_normalise(raw: str, expected: str) -> None:
    assert normalise(raw) == expected


@given(st.text())
def test_normalise_is_idempotent_and_nfc(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    once.encode()


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Hello, world!", "en", ["Hello", ",", "world", "!"]),
        ("The dog's bowl isn't 'full'.", "en", ["The", "dog", "'s", "bowl", "isn't", "'", "full", "'", "."]),
        ("They’re O’Hara’s", "en", ["They", "’re", "O’Hara", "’s"]),
        ("Wie geht's?", "de", ["Wie", "geht", "'s", "?"]),
        ("l'eau d’été", "fr", ["l'", "eau", "d’", "été"]),
        ("3.5 or 1,000 or 5th", "en", ["3.5", "or", "1,000", "or", "5th"]),
        ("well-known snake_case", "en", ["well", "-", "known", "snake", "_", "case"]),
        ("e\u0301te\u0301", "en", ["e\u0301te\u0301"]),
        ("हिन्दी में", "hi", ["हिन्दी", "में"]),
        ("...", "en", [".", ".", "."]),
        ("", "en", []),
        ("我们使用 Python 3.5。", "zh", ["我们", "使用", "Python", "3.5", "。"]),
        ("東京タワーです", "ja", ["東京", "タワー", "です"]),
    ],
)
def test_split_words(text: str, language: str, expected: list[str]) -> None:
    assert words_of(text, language) == expected


@given(TEXT, LANGUAGES)
def test_words_cover_all_visible_characters_in_order(text: str, language: str) -> None:
    spans = split_words(text, language)
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    covered = {position for start, end in spans for position in range(start, end)}
    visible = {position for position, character in enumerate(text) if not character.isspace()}
    assert covered == visible


@pytest.mark.parametrize(
    ("tokens", "language", "expected"),
    [
        ('Yes , ( he said ) : " go " .', "en", 'Yes, (he said): "go".'),
        ("the dog 's bowl is n't full", "en", "the dog's bowl isn't full"),
        ("the dogs ' bowl ' is ' full", "en", "the dogs' bowl 'is' full"),
        ("it costs $ 5 or 7 %", "en", "it costs $5 or 7%"),
        ("das sind 7 %", "de", "das sind 7 %"),
        ("sie rief : „ halt “ !", "de", "sie rief: „halt“!"),
        ("red - not blue", "en", "red - not blue"),
        ("A4-0001 / 99", "en", "A4-0001/99"),
        ("我们 使用 new python 3 版 。", "zh", "我们使用new python 3版。"),
    ],
)
def test_join_tokens(tokens: str, language: str, expected: str) -> None:
    text, spans = join_tokens(tokens.split(), language)
    assert text == expected
    assert [text[start:end] for start, end in spans] == tokens.split()


@given(st.lists(st.text(min_size=1, max_size=6).filter(lambda token: token.split() == [token])), LANGUAGES)
def test_joined_spans_are_the_tokens(tokens: list[str], language: str) -> None:
    text, spans = join_tokens(tokens, language)
    assert [text[start:end] for start, end in spans] == tokens
    assert text.replace(" ", "") == "".join(tokens)
