"""Batches one after the other: laid out early, and found as if each came alone."""

from __future__ import annotations

import pytest

from termweave import Constraint, Translator
from termweave.decoding.beam import AHEAD
from termweave.decoding.searcher import Searcher

SENTENCES = ["der alte Müller verkauft Mehl", "ein Haus am Fluss", "Mehl", "der Fluss am Haus"]
CONSTRAINTS = [[Constraint("Mehl", "flour")], [Constraint("Haus", "house")], [], [Constraint("Haus", "building")]]


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en"), "cpu")


def test_the_next_batch_is_laid_out_while_this_one_is_searched(translator, monkeypatch):
    events: list[str] = []
    lay_out, search = Searcher.lay_out, Searcher.search

    def laying(self, batch, *given, **named):
        events.append("laid out")
        return lay_out(self, batch, *given, **named)

    def searching(self, *given, **named):
        events.append("begun")
        found = search(self, *given, **named)
        events.append("found")
        return found

    expected = [translator.translate([own], search="beam")[0] for own in SENTENCES]
    assert min(len(result.tokens) for result in expected) >= AHEAD  # each search goes on long enough
    monkeypatch.setattr(Searcher, "lay_out", laying)
    monkeypatch.setattr(Searcher, "search", searching)
    found = translator.translate(SENTENCES, search="beam", batch_tokens=1)
    assert events == ["laid out", *["begun", "laid out", "found"] * 3, "begun", "found"]
    assert [result.text for result in found] == [result.text for result in expected]


@pytest.mark.parametrize("search", ["beam", "vdba"])
def test_batches_do_not_touch_each_other(translator, search):
    """Constraints and automata of one batch are laid out in the middle of another's search."""
    alone = [
        translator.translate([sentence], [own], search=search)[0]
        for sentence, own in zip(SENTENCES, CONSTRAINTS, strict=True)
    ]
    together = translator.translate(SENTENCES, CONSTRAINTS, search=search, batch_tokens=1)
    assert [result.text for result in together] == [result.text for result in alone]
    assert [result.score for result in together] == pytest.approx([result.score for result in alone], abs=1e-5)
