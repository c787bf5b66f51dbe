"""Outputs that repeat themselves: found, searched for again without that, and taken only if there is nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave import Constraint, Translator
from termweave.decoding.beam import Hypothesis
from termweave.decoding.stutter import LONGEST, REPEATS, repetitions

UNITS = st.lists(st.integers(0, 3), min_size=1, max_size=LONGEST).map(tuple)
TOKENS = st.lists(st.integers(0, 3), max_size=40).map(tuple)
HOUSE = [Constraint("Haus", "house")]


def begun_anywhere(unit: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [unit[start:] + unit[:start] for start in range(len(unit))]


@given(TOKENS, UNITS, TOKENS)
def test_what_stands_often_enough_in_a_row_is_found(before, unit, after):
    found = repetitions(before + unit * REPEATS + after)
    shortest = next(unit[:size] for size in range(1, len(unit) + 1) if unit[:size] * (len(unit) // size) == unit)
    assert any(own in found for own in begun_anywhere(shortest))


@given(TOKENS)
def test_what_is_found_does_stand_there(tokens):
    for unit in repetitions(tokens):
        size = len(unit) * REPEATS
        places = [tokens[start : start + size] for start in range(len(tokens) - size + 1)]
        assert any(own * REPEATS in places for own in begun_anywhere(unit))


def test_three_times_is_no_stutter():
    assert repetitions((1, 2, 3) * (REPEATS - 1)) == set()
    assert repetitions(tuple(range(60))) == set()


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en"), "cpu")


class Stuttering:
    """A search that finds "the river" over and over where something is required; it may obey what is forbidden."""

    def __init__(self, translator: Translator, obeys: bool, plain: str = "the river") -> None:
        self.encode, self.obeys, self.plain = translator.subwords.target.encode, obeys, plain
        self.forbidden: list[tuple[str, ...]] = []  # in each search

    def __call__(self, batch, options, meanwhile=None):
        wishes = [request.wishes for request in batch.requests]
        self.forbidden += [own.forbidden for own in wishes]
        return [[Hypothesis(tuple(self.encode(self.text(own))), -1.0, -5.0)] for own in wishes]

    def text(self, wishes) -> str:
        if not wishes.required:
            return self.plain
        target = wishes.required[0].target
        return f"the river {target}" if self.obeys and wishes.forbidden else "the river " * REPEATS + target


def test_a_repetition_is_forbidden_in_the_next_search(translator, monkeypatch):
    search = Stuttering(translator, obeys=True)
    monkeypatch.setattr(translator._searcher, "search", search)
    [result] = translator.translate(["das Haus"], [HOUSE])
    assert result.text == "the river house"
    assert search.forbidden == [(), (), ("the river the river",)]


def test_where_nothing_else_is_found_it_is_taken(translator, monkeypatch):
    search = Stuttering(translator, obeys=False)
    monkeypatch.setattr(translator._searcher, "search", search)
    [result] = translator.translate(["das Haus"], [HOUSE])
    assert result.text == "the river " * REPEATS + "house"
    assert search.forbidden == [(), (), ("the river the river",)]  # nothing new could be forbidden after that


@pytest.mark.parametrize("constraints", [HOUSE, [*HOUSE, Constraint("Fluss", "bank"), Constraint("alt", "old")]])
def test_what_nothing_can_be_ruled_out_of_is_not_searched_again(translator, monkeypatch, constraints):
    """A stutter inside a word has no phrase that could be forbidden; the best output without it is taken, if any is."""
    targets = " ".join(own.target for own in constraints)
    searched: list[object] = []

    def search(batch, options, meanwhile=None):
        searched.append(batch)
        texts = (f"{targets} {'_' * 9}", f"{targets} by", f"the {targets}")
        hypotheses = [tuple(translator.subwords.target.encode(text)) for text in texts]
        return [[Hypothesis(own, -1.0 - place, -5.0) for place, own in enumerate(hypotheses)]]

    monkeypatch.setattr(translator._searcher, "search", search)
    [result] = translator.translate(["das alte Haus am Fluss"], [constraints])
    assert repetitions(translator.subwords.target.encode("_" * 9))
    assert (result.text, len(searched)) == (f"{targets} by", 1)


REPETITIVE = " ".join(["Fluss"] * REPEATS) + " Haus"


def test_a_source_that_repeats_itself_may_be_translated_so(translator, monkeypatch):
    search = Stuttering(translator, obeys=True, plain="the river " * REPEATS)
    monkeypatch.setattr(translator._searcher, "search", search)
    [result] = translator.translate([REPETITIVE], [HOUSE])
    assert result.text == "the river " * REPEATS + "house"
    assert not any(search.forbidden)


def test_but_not_with_something_else_over_and_over(translator, monkeypatch):
    search = Stuttering(translator, obeys=True, plain="the old " * REPEATS)
    monkeypatch.setattr(translator._searcher, "search", search)
    [result] = translator.translate([REPETITIVE], [HOUSE])
    assert result.text == "the river house"


def test_plain_search_may_stutter_as_well(translator, monkeypatch):
    search = Stuttering(translator, obeys=True, plain="the river " * REPEATS + "house")
    monkeypatch.setattr(translator._searcher, "search", search)
    [result] = translator.translate(["das Haus"], [HOUSE])
    assert result.text == "the river house"


def test_a_target_that_repeats_itself_is_no_stutter(translator, monkeypatch):
    class Obliging(Stuttering):
        def text(self, wishes) -> str:
            return "the " + wishes.required[0].target if wishes.required else self.plain

    search = Obliging(translator, obeys=True)
    monkeypatch.setattr(translator._searcher, "search", search)
    [result] = translator.translate(["das Haus"], [[Constraint("Haus", "old old old old house")]])
    assert result.text == "the old old old old house"
    assert len(search.forbidden) == 2


def test_random_models_keep_their_promise_while_they_stutter(translator):
    """Random weights stutter more than any others."""
    sentences = ["das Haus", "ein Haus am Fluss", "der alte Müller verkauft ein Haus"]
    results = translator.translate(sentences, [HOUSE] * 3, beam=2)
    assert all("house" in result.text.split() for result in results)
    assert all(first != second for first, second in pairwise(results))
