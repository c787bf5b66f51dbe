"""Probabilities in receipts: those of the subwords a term stands in."""

from __future__ import annotations

import pytest

from termweave import Constraint, Glossary, GlossaryEntry, Translator
from termweave.decoding.confidence import span_probability, with_probabilities
from termweave.decoding.forced import ScoredOutput

TEXT = ["ab", " c", "d", " e"]


def decode(tokens) -> str:
    return "".join(TEXT[token] for token in tokens)


@pytest.mark.parametrize(
    ("span", "probability"), [((0, 2), 0.5), ((3, 5), 0.1 * 0.4), ((1, 4), 0.5 * 0.1), ((6, 7), 0.8)]
)
def test_the_subwords_of_a_span_are_multiplied(span, probability):
    output = ScoredOutput((0, 1, 2, 3), tuple(TEXT), (0.5, 0.1, 0.4, 0.8), 0.9)
    assert span_probability(output, span, decode) == pytest.approx(probability)


def test_receipts_are_completed(make_folder):
    translator = Translator.load(make_folder("de-en"), "cpu")
    sentences, given = ["ein Haus am Fluss", "Mehl"], [[Constraint("Fluss", "river")], []]
    glossary = Glossary.of([GlossaryEntry("Haus", ("house",))], "de-en")
    results = translator.translate(sentences, given, terminology=glossary)
    completed = with_probabilities(translator, sentences, results, given)
    assert [result.text for result in completed] == [result.text for result in results]
    (receipt,) = completed[0].receipts
    assert 0 < receipt.probability < 1
    assert receipt.to_json()["probability"] == round(receipt.probability, 4)
    assert completed[1].receipts == ()
