"""Sentences of a corpus and the constraints drawn for them, laid out as a batch by a few compiled passes.

While one batch is being trained on, a thread builds the next ones. The training thread needs the interpreter's lock for
every piece of work it hands to the GPU, so the builder must hardly ever have it: the passes go over the whole batch
without the lock, and read the memory-mapped corpus inside, where a page that is not in memory yet stops nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.constraints.phrases import PHRASE
from termweave.data.batches import (
    FLAT_MULTIPLE,
    SENTENCE_MULTIPLE,
    WIDTH_MULTIPLE,
    Batch,
    ConstraintSide,
    ConstraintTensors,
    Rows,
    Side,
    Spans,
    fill_side,
    fill_target_tokens,
    measure_side,
    put,
    round_up,
)
from termweave.storage import Array, RaggedArray

NO_PHRASES = np.empty(0, dtype=PHRASE)


@dataclass(frozen=True)
class Markers:
    """Ids that are no words."""

    padding: int
    begin: int
    end: int
    tag: int | None  # leads the source if the model has several directions


@dataclass(frozen=True)
class Drawn:
    """The constraints of a batch."""

    phrases: Array  # PHRASE, end to end
    counts: Array  # how many of them each sentence has, int64


def rows_of(ragged: RaggedArray, rows: Array | None = None) -> Rows:
    """Some rows of a ragged array, or all of them."""
    chosen = np.arange(len(ragged)) if rows is None else np.ascontiguousarray(rows, dtype=np.int64)
    return np.asarray(ragged.values), np.asarray(ragged.offsets), chosen


def gather(chosen: Rows) -> RaggedArray:
    """The chosen rows as a ragged array of their own."""
    values, offsets, rows = chosen
    ends = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(offsets[rows + 1] - offsets[rows], out=ends[1:])
    gathered = np.empty(int(ends[-1]), dtype=values.dtype)
    _gather(chosen, ends, gathered)
    return RaggedArray(gathered, ends)


def lay_out(
    source: Rows,
    target: Rows,
    markers: Markers,
    *,
    beta: float = 1.0,
    drawn: Drawn | None = None,
    alpha: float = 1.0,
    pinned: bool = False,
) -> Batch:
    """One batch; target tokens weigh `alpha` inside the drawn constraints and `beta` elsewhere.

    pinned: into memory from which copies to a GPU overlap with its work.
    """
    rows = len(source[2])
    found = drawn if drawn is not None else Drawn(NO_PHRASES, np.zeros(rows, dtype=np.int64))
    lengths, sides = _measure(source, target, found.phrases, found.counts)
    source_width = round_up(lengths[0] + 1 + (markers.tag is not None), SENTENCE_MULTIPLE)
    width = round_up(lengths[1] + 1, SENTENCE_MULTIPLE)
    padded = _empty((rows, source_width), pinned)
    given, expected = _empty((rows, width), pinned), _empty((rows, width), pinned)
    weights = torch.empty((rows, width), dtype=torch.float32, pin_memory=pinned)
    constraints = _empty_constraints(rows, *sides, pinned and drawn is not None)
    weight = _fill(
        (source, target),
        (found.phrases, found.counts),
        (markers.padding, markers.begin, markers.end, -1 if markers.tag is None else markers.tag),
        (alpha, beta),
        (padded.numpy(), given.numpy(), expected.numpy(), weights.numpy()),
        (_arrays(constraints.source), _arrays(constraints.target), constraints.target_tokens.numpy()),
    )
    return Batch(
        source=padded,
        target_input=given,
        target=expected,
        weights=weights,
        constraints=None if drawn is None else constraints,
        tokens=lengths[2] + rows,
        weight=weight,
    )


def _empty_constraints(rows: int, source: tuple[int, int], target: tuple[int, int], pinned: bool) -> ConstraintTensors:
    """source, target: most tokens of a sentence, tokens of all sentences."""
    sides = []
    for longest, total in (source, target):
        flat = (round_up(max(total, 1), FLAT_MULTIPLE),)
        number = _empty((rows, round_up(max(longest, 1), WIDTH_MULTIPLE)), pinned)
        sides.append(ConstraintSide(_empty(flat, pinned), _empty(flat, pinned), _empty(flat, pinned), number))
    return ConstraintTensors(sides[0], sides[1], _empty(tuple(sides[1].number.shape), pinned))


def _empty(shape: tuple[int, ...], pinned: bool) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, pin_memory=pinned)


def _arrays(side: ConstraintSide) -> Side:
    return side.ids.numpy(), side.positions.numpy(), side.home.numpy(), side.number.numpy()


@numba.njit(nogil=True, cache=True)
def _measure(
    source: Rows, target: Rows, phrases: Array, counts: Array
) -> tuple[tuple[int, int, int], tuple[tuple[int, int], tuple[int, int]]]:
    """Longest source, longest target, target tokens; then of each side of the constraints as `measure_side`."""
    source_longest, target_longest, total = 0, 0, 0
    for index in range(len(counts)):
        source_longest = max(source_longest, _length(source, index))
        length = _length(target, index)
        target_longest = max(target_longest, length)
        total += length
    sides = measure_side(phrases["source_tokens"], counts), measure_side(phrases["target_tokens"], counts)
    return (source_longest, target_longest, total), sides


@numba.njit(nogil=True, cache=True)
def _length(chosen: Rows, index: int) -> int:
    _, offsets, rows = chosen
    length: int = offsets[rows[index] + 1] - offsets[rows[index]]
    return length


@numba.njit(nogil=True, cache=True)
def _gather(chosen: Rows, ends: Array, gathered: Array) -> None:
    values, offsets, rows = chosen
    for index in range(len(rows)):
        first = offsets[rows[index]]
        for place in range(ends[index], ends[index + 1]):
            gathered[place] = values[first + place - ends[index]]


@numba.njit(nogil=True, cache=True)
def _fill(
    text: tuple[Rows, Rows],
    drawn: tuple[Array, Array],
    special: tuple[int, int, int, int],
    weighing: tuple[float, float],
    sentences: tuple[Array, Array, Array, Array],
    constraints: tuple[Side, Side, Array],
) -> float:
    """All of a batch in one call, for after each the builder must wait for its turn; returns the sum of weights."""
    phrases, counts = drawn
    source_spans = (phrases["source_start"], phrases["source_tokens"])
    target_spans = (phrases["target_start"], phrases["target_tokens"])
    alpha, beta = weighing
    padded, given, expected, weights = sentences
    source_side, target_side, target_tokens = constraints
    _fill_sentences(text, special, padded, given, expected)
    total = _fill_weights(text[1], target_spans, counts, alpha, beta, weights)
    fill_side(text[0], source_spans, counts, source_side)
    tokens = fill_side(text[1], target_spans, counts, target_side)
    fill_target_tokens(target_side, tokens, special[0], target_tokens)
    return total


@numba.njit(nogil=True, cache=True)
def _fill_sentences(
    text: tuple[Rows, Rows], special: tuple[int, int, int, int], padded: Array, given: Array, expected: Array
) -> None:
    padding, begin, end, tag = special
    for row in range(len(padded)):
        lead = 0
        if tag >= 0:
            padded[row, 0] = tag
            lead = 1
        padded[row, _fill_row(text[0], row, lead, padding, padded[row])] = end
        given[row, 0] = begin
        _fill_row(text[1], row, 1, padding, given[row])
        expected[row, _fill_row(text[1], row, 0, padding, expected[row])] = end


@numba.njit(nogil=True, cache=True)
def _fill_row(chosen: Rows, index: int, lead: int, padding: int, filled: Array) -> int:
    """Write one sentence from `lead` on, and padding behind it; returns where it ends."""
    values, offsets, rows = chosen
    first, last = offsets[rows[index]], offsets[rows[index] + 1]
    end: int = lead + last - first
    for place in range(lead, end):
        filled[place] = values[first + place - lead]
    put(filled, end, len(filled), padding)
    return end


@numba.njit(nogil=True, cache=True)
def _fill_weights(target: Rows, spans: Spans, counts: Array, alpha: float, beta: float, weights: Array) -> float:
    starts, lengths = spans
    total, constraint = 0.0, 0
    for sentence in range(len(counts)):
        end = _length(target, sentence) + 1
        put(weights[sentence], 0, end, beta)
        put(weights[sentence], end, weights.shape[1], 0.0)
        for _ in range(counts[sentence]):
            first: Any = np.int64(starts[constraint])
            put(weights[sentence], first, first + lengths[constraint], alpha)
            constraint += 1
        for place in range(end):
            total += weights[sentence, place]
    return total
