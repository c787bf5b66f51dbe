"""Constraints looked up in a training corpus of a few sentences, whose phrase pairs are known."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import ConstrainedSentence
from termweave.constraints.occurrences import comparable, count_occurrences
from termweave.constraints.phrases import PHRASE
from termweave.data.corpus import DirectionData, PreparedCorpus
from termweave.errors import DataError
from termweave.evaluation.overlap import Overlap, SplitSuccess, measure_overlap
from termweave.storage import RaggedArray
from termweave.text.subwords import Subwords

TEXT = [
    ("Das alte Haus brennt.", "The old house burns.", [("alte Haus", "old house"), ("Haus", "house")]),
    ("Ein Haus (Haus am Fluss).", "A building (house by the river).", [("Haus", "building"), ("Fluss", "river")]),
    ("Der Müller verkauft Mehl.", "The miller sells flour.", [("Müller", "miller")]),
    ("Häuser am Fluss.", "Houses by the river.", [("Häuser", "Houses")]),
]


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    lines = [line for source, target, _ in TEXT for line in (source, target)]
    return Subwords.train(lines * 10, tmp_path_factory.mktemp("subwords") / "tokenizer.model", size=330)


def place(subwords: Subwords, text: str, ids: list[int], phrase: str) -> tuple[int, int]:
    """The tokens of the last occurrence of a phrase."""
    start = text.rindex(phrase)
    inside = [
        index
        for index, (first, last) in enumerate(subwords.spans(text, ids))
        if start <= first and last <= start + len(phrase)
    ]
    return inside[0], len(inside)


@pytest.fixture(scope="module")
def corpus(subwords: Subwords) -> PreparedCorpus:
    source = [subwords.encode(line) for line, _, _ in TEXT]
    target = [subwords.encode(line) for _, line, _ in TEXT]
    phrases = []
    for row, (text, other, pairs) in enumerate(TEXT):
        found = []
        for one, two in pairs:
            start, length = place(subwords, text, source[row], one)
            other_start, other_length = place(subwords, other, target[row], two)
            found.append((start, other_start, length, other_length, 1, 0))
        phrases.append(np.array(found, dtype=PHRASE))
    arrays = (RaggedArray.from_rows(source, np.uint16), RaggedArray.from_rows(target, np.uint16))
    direction = DirectionData("de-en", *arrays, RaggedArray.from_rows(phrases, PHRASE), None)
    return PreparedCorpus(Path("prepared"), subwords, (direction,))


def row(*pairs: tuple[str, str]) -> ConstrainedSentence:
    return ConstrainedSentence("", "", tuple(Constraint(source, target) for source, target in pairs))


@pytest.mark.parametrize(
    ("source", "target", "phrase_pairs", "texts"),
    [
        pytest.param("Haus", "house", 1, 2, id="linked in one sentence, together in two"),
        pytest.param("Haus", "building", 1, 1, id="linked behind a bracket"),
        pytest.param("alte Haus", "old house", 1, 1, id="two words"),
        pytest.param("alte", "old", 0, 1, id="part of a phrase pair only"),
        pytest.param("Fluss", "river", 1, 2, id="linked once, together twice"),
        pytest.param("Müller", "river", 0, 0, id="never in one sentence"),
        pytest.param("Häus", "Hous", 0, 0, id="beginnings of words"),
        pytest.param("haus", "house", 0, 0, id="another case"),
        pytest.param("Katze", "cat", 0, 0, id="never seen"),
    ],
)
def test_by_hand(corpus, source, target, phrase_pairs, texts):
    overlap = measure_overlap([row((source, target))], corpus)
    assert (overlap.phrase_pairs, overlap.texts) == ((phrase_pairs,), (texts,))


def test_text_by_brute_force(corpus):
    """Random pairs of runs of words, all at once: found where both stand as whole words."""
    chance = random.Random(4)

    def run(text: str) -> str:
        words = text.replace(".", "").replace("(", "").replace(")", "").split()
        start = chance.randrange(len(words))
        return " ".join(words[start : start + chance.randint(1, 2)])

    pairs = [(run(chance.choice(TEXT)[0]), run(chance.choice(TEXT)[1])) for _ in range(200)]
    overlap = measure_overlap([row(*pairs)], corpus)
    assert len(overlap.pairs) == len(set(pairs)) < 200
    for (source, target), texts in zip(overlap.pairs, overlap.texts, strict=True):
        expected = sum(
            count_occurrences(comparable(line, "de"), comparable(source, "de")) > 0
            and count_occurrences(comparable(other, "en"), comparable(target, "en")) > 0
            for line, other, _ in TEXT
        )
        assert texts == expected, (source, target)
    linked = dict(zip(overlap.pairs, overlap.phrase_pairs, strict=True))
    known = {pair for _, _, found in TEXT for pair in found}
    assert {pair for pair, count in linked.items() if count} == known & set(pairs)


def test_shares_and_success(corpus):
    sentences = [
        row(("Haus", "house"), ("alte", "old")),
        row(("Haus", "house"), ("Katze", "cat")),
        row(),
    ]
    overlap = measure_overlap(sentences, corpus)
    assert overlap.constraints == ((0, 1), (0, 2), ())
    assert overlap.share_seen() == 50
    assert overlap.share_seen(distinct=True) == pytest.approx(100 / 3)
    assert overlap.share_seen(as_text=True) == 75
    assert overlap.share_seen(as_text=True, distinct=True) == pytest.approx(200 / 3)
    hypotheses = ["the old house", "a cat", ""]
    split = overlap.split(hypotheses, sentences, "en")
    assert split == SplitSuccess(seen_met=1, seen=2, unseen_met=2, unseen=2)
    assert (split.seen_rate, split.unseen_rate) == (50, 100)
    assert overlap.split(hypotheses, sentences, "en", as_text=True) == SplitSuccess(2, 3, 1, 1)
    assert overlap.to_json()["seen_as_text"] == 75
    assert split.to_json()["csr_unseen"] == 100


def test_a_set_without_constraints(corpus):
    overlap = measure_overlap([row()], corpus)
    assert overlap.share_seen() is None
    assert overlap.split(["a"], [row()], "en").seen_rate is None


def test_errors(corpus, subwords):
    with pytest.raises(DataError, match="was not prepared for en-de; choose one of: de-en"):
        measure_overlap([row()], corpus, "en-de")
    unfinished = DirectionData("de-en", corpus.directions[0].source, corpus.directions[0].target, None, None)
    with pytest.raises(DataError, match="has no phrase pairs yet"):
        measure_overlap([row()], PreparedCorpus(Path("prepared"), subwords, (unfinished,)))
    with pytest.raises(DataError, match="2 translations and 1 sentences"):
        Overlap((), (), (), ((),), 0).split(["a", "b"], [row()], "en")
