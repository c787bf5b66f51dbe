"""Paired marks of a sentence: taken out, and put back where the attention says."""

from __future__ import annotations

import pytest
import torch

from termweave import Translation, Translator
from termweave.decoding.marked import MarkedSentence, Pair, certain, place_marks, word_attention
from termweave.decoding.terminology import Receipt


@pytest.mark.parametrize(
    ("line", "text", "pairs"),
    [
        ("ein <1>altes Haus</1> am Fluss", "ein altes Haus am Fluss", [("1", (4, 14))]),
        ("<1>ein <2>Haus</2></1>", "ein Haus", [("1", (0, 8)), ("2", (4, 8))]),
        ("ein <7/> und <1>Haus</1>", "ein <7/> und Haus", [("1", (13, 17))]),
        ("ein <2>Haus", "ein Haus", [("2", (4, 8), True, False)]),
        ("ein</2> Haus", "ein Haus", [("2", (0, 3), False, True)]),
        ("<1>Haus</1><2>Schiff</2>", "Haus Schiff", [("1", (0, 4)), ("2", (4, 11))]),
        ("Haus<1>2</1> brennt", "Haus 2 brennt", [("1", (4, 6))]),
        ("<1>H</1>aus", "Haus", [("1", (0, 1))]),
        ("<1></1> Haus", "Haus", [("1", (0, 0), True, True, True)]),
    ],
)
def test_pairs_are_taken_out(line, text, pairs):
    assert MarkedSentence.of(line) == MarkedSentence(text, tuple(Pair(*pair) for pair in pairs))


@pytest.mark.parametrize(
    "line", ["ein Haus", "</1>ein</1> Haus", "<1>ein<1> Haus", "<1>ein</1> <1>Haus</1>", "a < b > c"]
)
def test_other_lines_are_left_alone(line):
    assert MarkedSentence.of(line) is None


def attention(*aligned: int, source: int) -> torch.Tensor:
    """Each output word looks at one source word, and a little at the others."""
    rows = torch.full((len(aligned), source), 0.1 / source)
    rows[range(len(aligned)), aligned] += 0.9
    return rows


def spans(text: str) -> list[tuple[int, int]]:
    found, position = [], 0
    for word in text.split():
        start = text.index(word, position)
        position = start + len(word)
        found.append((start, position))
    return found


@pytest.mark.parametrize(
    ("line", "output", "aligned", "expected"),
    [
        ("a <1>b c</1> d", "D B C A", (3, 1, 2, 0), "D <1>B C</1> A"),
        ("a <1>b</1> <2>c</2>", "C A B", (2, 0, 1), "<2>C</2> A <1>B</1>"),
        ("<1>a <2>b</2></1> c", "C B A", (2, 1, 0), "C <1><2>B</2> A</1>"),
        ("<1><2>a</2></1> b", "A B", (0, 1), "<1><2>A</2></1> B"),
        ("<1>a</1> b", "A x A B", (0, 1, 0, 1), "<1>A</1> x A B"),
        ("a <1>b c", "A B C", (0, 1, 2), "A <1>B C"),
        ("a b</1> c", "C A B", (2, 0, 1), "C A B</1>"),
        ("a</1> <2>b</2> <3>c", "A B C", (0, 1, 2), "A</1> <2>B</2> <3>C"),
        ("a <1>b <2>c</2>", "A C B", (0, 2, 1), "A <1><2>C</2> B"),
        ("a <1></1>b c", "C A B", (2, 0, 1), "C A<1></1> B"),
        ("<1></1> a b", "B A", (1, 0), "<1></1> B A"),
    ],
)
def test_marks_go_where_the_words_went(line, output, aligned, expected):
    marked = MarkedSentence.of(line)
    source = spans(marked.text)
    assert marked.with_marks(output, spans(output), attention(*aligned, source=len(source)), source) == expected


def test_marks_that_would_cross_get_what_is_left():
    marked = MarkedSentence.of("<1>a</1> <2>b</2>")
    both = attention(0, source=2)
    assert marked.with_marks("AB", [(0, 2)], both, spans(marked.text)) == "<1>AB</1><2></2>"
    assert marked.with_marks("", [], both[:0], spans(marked.text)) is None
    split = MarkedSentence.of("<1>turns</1> it <2>down</2>")
    refuses = attention(0, 1, source=3)
    refuses[0] = torch.tensor([0.5, 0.0, 0.5])
    placed = split.with_marks("refuses it", spans("refuses it"), refuses, spans(split.text))
    assert placed.replace("<1>", "").replace("</1>", "").replace("<2>", "").replace("</2>", "") == "refuses it"


def test_a_receipt_is_certain():
    receipt = Receipt("b", (2, 3), "B", "must", "met", (0, 1), "B")
    corrected = certain(attention(0, 0, source=2), spans("B A"), spans("a b"), [receipt])
    assert corrected[0].tolist() == [0, 1]
    assert corrected[1].tolist() == attention(0, source=2)[0].tolist()


def test_pieces_are_summed_to_words():
    pieces = [(0, 2), (2, 4), (5, 6)]
    words, summed = word_attention(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), pieces, "abcd e", "en")
    assert words == [(0, 4), (5, 6)]
    assert summed.tolist() == [[0.5, 0.5], [0.0, 1.0]]


def test_what_is_kept_is_one_word():
    """No mark may go between the sign and the letter of a placeholder, nor into an address."""
    text = "ab %s https://x.example/y."
    pieces = [(0, 2), (3, 4), (4, 5), (6, 15), (15, 25), (25, 26)]
    words, summed = word_attention(torch.eye(6), pieces, text, "en")
    assert [text[start:end] for start, end in words] == ["ab", "%s", "https://x.example/y", "."]
    assert summed[1].tolist() == [0, 0.5, 0.5, 0, 0, 0]


def test_a_translator_places_marks(make_folder):
    """Whatever a model of random weights looks at, the receipt of the term tells where its mark belongs."""
    translator = Translator.load(make_folder("de-en", "en-de"), "cpu")
    marked = MarkedSentence.of("<1>Haus</1> am Fluss")
    receipt = Receipt("Haus", (0, 4), "house", "must", "met", (2, 7), "house")
    result = Translation("a house river", -1.0, receipts=(receipt,))
    placed = place_marks(translator, marked, result, "de-en")
    assert placed.replace("<1>", "").replace("</1>", "") == result.text
    assert "house" in placed[placed.index("<1>") : placed.index("</1>")]
    assert place_marks(translator, marked, Translation("a\x00b", -1.0), "de-en") is None
