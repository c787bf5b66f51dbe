"""`Translator` with a model whose constraints stand in its source: what it reads, and the guarantee on top."""

from __future__ import annotations

import pytest

from termweave import Constraint, Translator

HOUSE = [Constraint("Haus", "house")]


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en", variant="pointer"), "cpu")


def test_constraints_are_read_in_the_place_of_their_sources(translator):
    """With a constraint, the sentence is the one a person would have written with the target in its place."""
    [constrained] = translator.translate(["ein Haus am Fluss"], [HOUSE], search="beam")
    [written, plain] = translator.translate(["ein house am Fluss", "ein Haus am Fluss"], search="beam")
    assert constrained.text == written.text
    assert constrained.score == pytest.approx(written.score, abs=1e-4)
    assert constrained.score != pytest.approx(plain.score, abs=1e-4)


def test_the_search_still_guarantees_constraints(translator):
    wanted = [[Constraint("Haus", "old miller"), Constraint("Fluss", "river")], [Constraint("Mehl", "flour")], []]
    results = translator.translate(["ein Haus am Fluss", "der Fluss", "Mehl"], wanted)
    assert "old miller" in results[0].text and "river" in results[0].text
    assert "flour" in results[1].text  # although its source does not occur
    assert all(None not in result.spans for result in results)


def test_what_is_inspected_is_what_it_reads(translator):
    seen = translator.inspect("ein Haus am Fluss", "a house", HOUSE)
    assert seen.source_pieces[:-1] == tuple(
        translator.subwords.pieces(translator.subwords.encode("ein house am Fluss"))
    )
    assert seen.constraint_pieces == () and seen.constraints.shape[-1] == 0
    assert ((seen.gates > 0) & (seen.gates < 1)).all()
