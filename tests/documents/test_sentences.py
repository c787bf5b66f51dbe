"""Text into sentences and back."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.documents import translate_text
from termweave.documents.sentences import Sentence, join_sentences, split_sentences

PIECES = [
    "Dr.",
    "z. B.",
    "A",
    "12",
    ".",
    "!",
    "?",
    "。",
    "！",
    " ",
    "\n\n",
    "\n",
    "\u00a0",
    "\u3000",
    "\u2028",
    "„",
    "“",
    "(",
    "é",
    "😀",
]


def texts(text: str, language: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text, language)]


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", "Mr. Hill paid $3.50. He left!", ["Mr. Hill paid $3.50.", "He left!"]),
        (
            "de",
            "Das kostet z. B. drei Euro. Herr Dr. Kern kam am 3. Mai.",
            ["Das kostet z. B. drei Euro.", "Herr Dr. Kern kam am 3. Mai."],
        ),
        ("de-AT", "Ist das so? Ja.", ["Ist das so?", "Ja."]),
        ("zh", "今天下雨。我们走吧！好吗？", ["今天下雨。", "我们走吧！", "好吗？"]),
        ("tlh", "One here. Two here.", ["One here.", "Two here."]),
        ("", "One here. Two here.", ["One here.", "Two here."]),
        ("de", "Kein Ende", ["Kein Ende"]),
    ],
)
def test_sentences(language: str, text: str, sentences: list[str]) -> None:
    assert texts(text, language) == sentences


def test_space_is_kept_where_it_was() -> None:
    assert split_sentences("  One here.\n\nTwo\there. \n") == [
        Sentence("  ", "One here.", "\n\n"),
        Sentence("", "Two\there.", " \n"),
    ]


def test_nothing_but_space() -> None:
    assert join_sentences(split_sentences(" \n ")) == " \n "
    assert split_sentences("") == []


@pytest.mark.parametrize("text", ["A\u3000.", "x. A\u2028.B", "A\u00a0. B"])
def test_space_the_library_cannot_count(text: str) -> None:
    """Version 1.0.32 dies on these."""
    assert join_sentences(split_sentences(text)) == text


def test_windows_do_not_change_sentences() -> None:
    """However long the text, its sentences end where they do in short text."""
    sentences = [f"Herr Dr. Kern zahlte am {number}. Mai z. B. {number},50 Euro.\n\n" for number in range(1, 2000)]
    assert list(map(str, split_sentences("".join(sentences), "de"))) == sentences


def test_a_sentence_longer_than_a_window_is_cut_between_words() -> None:
    words = "wort " * 4000
    found = split_sentences(words + "Ende. Neu.", "de")
    assert join_sentences(found) == words + "Ende. Neu."
    assert {word for sentence in found for word in sentence.text.split()} == {"wort", "Ende.", "Neu."}
    assert found[-1].text == "Neu."
    assert [len(piece.text) for piece in split_sentences("x" * 12000)] == [5000, 5000, 2000]


def test_space_longer_than_a_window_is_no_sentence() -> None:
    text = "One here." + " " * 20000 + "Two here."
    assert texts(text, "en") == ["One here.", "Two here."]
    assert join_sentences(split_sentences(text)) == text


@pytest.mark.parametrize("unit", ["“", "字。", " ", "a ", "\n", "x  ", "(", "A. "])
def test_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    text = (unit * 150_000)[:150_000] + "x"
    begin = time.process_time()
    assert join_sentences(split_sentences(text, "zh")) == text
    assert translate_text(text, lambda lines: lines, "zh") == text
    assert time.process_time() - begin < 20  # it took minutes; most of this is for slow machines


@settings(max_examples=300)
@given(
    st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)),
    st.sampled_from(["de", "en", "zh", "ru", "??"]),
)
def test_pieces_are_the_text(text: str, language: str) -> None:
    sentences = split_sentences(text, language)
    assert join_sentences(sentences) == text
    assert all(sentence.text == sentence.text.strip() for sentence in sentences)
