"""Code-switching on text and on token ids."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.constraints.code_switching import (
    WordMarks,
    code_switch_tokens,
    replace_spans,
    switched_constraints,
)
from termweave.constraints.phrases import PHRASE
from termweave.storage import RaggedArray

SPACE = 9
EVERY_TOKEN_STARTS_A_WORD = WordMarks(np.ones(300, dtype=np.bool_), SPACE)

Row = list[tuple[int, int, int, int, int, int]]


def switch(
    source: list[list[int]],
    target: list[list[int]],
    phrases: list[Row],
    probability: float,
    marks: WordMarks = EVERY_TOKEN_STARTS_A_WORD,
    rows: list[int] | None = None,
    seed: int = 1,
    epoch: int = 0,
) -> tuple[list[list[int]], list[Row]]:
    ids, moved = code_switch_tokens(
        RaggedArray.from_rows(source, np.uint16),
        RaggedArray.from_rows(target, np.uint16),
        RaggedArray.from_rows(phrases, PHRASE),
        np.arange(len(source)) if rows is None else np.array(rows),
        seed,
        epoch,
        probability,
        marks,
    )
    return [ids[k].tolist() for k in range(len(ids))], [moved[k].tolist() for k in range(len(moved))]


def test_text_spans_are_replaced() -> None:
    text = "the old house burns"
    assert replace_spans(text, [(14, 19), (4, 7)], ["brennt", "alte"]) == "the alte house brennt"
    assert replace_spans(text, [(4, 7), (8, 13)], [None, "Haus"]) == "the old Haus burns"
    assert replace_spans(text, [], []) == text


def test_replacements_do_not_grow_together() -> None:
    assert replace_spans("国王解散议会", [(0, 2), (2, 4)], ["king", "dissolved"]) == "king dissolved议会"
    assert replace_spans("德里5月", [(0, 2)], ["Delhi"]) == "Delhi 5月"
    assert replace_spans("5德里", [(1, 3)], ["Delhi"]) == "5 Delhi"
    assert replace_spans("the (house)", [(5, 10)], ["房子"]) == "the (房子)"


def test_tokens_are_replaced_and_spans_move() -> None:
    source, target = [[11, 12, 13, 14]], [[21, 22, 23, 24, 25]]
    phrases = [[(3, 3, 1, 2, 1, 0), (0, 1, 2, 1, 2, 0)]]  # 14 → 24 25 and 11 12 → 22, in no particular order
    ids, moved = switch(source, target, phrases, 1.0)
    assert ids == [[21, 11, 12, 23, 14]]
    assert moved == [[(3, 4, 1, 1, 1, 0), (0, 1, 2, 2, 2, 0)]]


def test_probability_zero_changes_nothing() -> None:
    source, target, phrases = [[11], [12]], [[21, 22], [23]], [[(0, 1, 1, 1, 1, 0)], []]
    assert switch(source, target, phrases, 0.0) == (target, phrases)


def test_a_phrase_without_space_mark_gets_one() -> None:
    starts = np.ones(300, dtype=np.bool_)
    starts[11] = False  # it followed a bracket
    ids, moved = switch([[11]], [[21, 22, 23]], [[(0, 1, 1, 1, 1, 0)]], 1.0, WordMarks(starts, SPACE))
    assert ids == [[21, SPACE, 11, 23]]
    assert moved == [[(0, 1, 1, 2, 1, 0)]]
    unchanged = switch([[11]], [[21, 22, 23]], [[(0, 1, 1, 1, 1, 0)]], 1.0, WordMarks(starts, -1))
    assert unchanged == ([[21, 22, 23]], [[(0, 1, 1, 1, 1, 0)]])


def test_depends_on_seed_epoch_and_row_only() -> None:
    count = 200
    source, target, phrases = [[11]] * count, [[21]] * count, [[(0, 0, 1, 1, 1, 0)]] * count
    whole, _ = switch(source, target, phrases, 0.5)
    switched = sum(ids == [11] for ids in whole)
    assert 70 < switched < 130
    order = list(reversed(range(count)))
    assert switch(source, target, phrases, 0.5, rows=order)[0] == whole[::-1]
    assert switch(source, target, phrases, 0.5, seed=2)[0] != whole
    assert switch(source, target, phrases, 0.5, epoch=1)[0] != whole


def test_evaluation_sets_draw_the_same_way() -> None:
    flags = [flag for row in range(400) for flag in switched_constraints(3, row, 3, 0.5)]
    assert 0.45 < np.mean(flags) < 0.55
    assert switched_constraints(3, 7, 3, 0.5) == switched_constraints(3, 7, 3, 0.5)
    assert switched_constraints(3, 7, 2, 1.0) == [True, True]
    assert switched_constraints(3, 7, 2, 0.0) == [False, False]


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[int], list[int], Row]:
    source = draw(st.lists(st.integers(100, 199), min_size=1, max_size=10))
    target = draw(st.lists(st.integers(200, 299), min_size=1, max_size=10))
    cuts = sorted(draw(st.sets(st.integers(0, len(target)), max_size=6)))
    row: Row = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        source_start = draw(st.integers(0, len(source) - 1))
        length = draw(st.integers(1, len(source) - source_start))
        row.append((source_start, start, length, end - start, 1, 0))
    return source, target, draw(st.permutations(row))


@settings(max_examples=200, deadline=None)
@given(st.lists(sentences(), min_size=1, max_size=4), st.integers(0, 1000))
def test_spans_point_at_source_or_old_target(batch: list[tuple[list[int], list[int], Row]], seed: int) -> None:
    source, target, phrases = (list(column) for column in zip(*batch, strict=True))
    ids, moved = switch(source, target, phrases, 0.5, seed=seed)
    for index, (old, new) in enumerate(zip(phrases, moved, strict=True)):
        rest = list(ids[index])
        old_rest = list(target[index])
        for before, after in sorted(zip(old, new, strict=True), key=lambda pair: -pair[0][1]):
            now = rest[after[1] : after[1] + after[3]]
            same = old_rest[before[1] : before[1] + before[3]]
            assert now in (same, source[index][before[0] : before[0] + before[2]])
            assert (after[0], after[2], after[4]) == (before[0], before[2], before[4])
            del rest[after[1] : after[1] + after[3]], old_rest[before[1] : before[1] + before[3]]
        assert rest == old_rest  # nothing outside the constraints is touched
