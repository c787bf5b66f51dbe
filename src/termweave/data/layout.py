"""Sentences of a corpus and the constraints drawn for them, laid out as a batch by a few compiled passes.

While one batch is being trained on, a thread builds the next ones. The training thread needs the interpreter's lock for
every piece of work it hands to the GPU, so the builder must hardly ever have it: the passes go over the whole batch
without the lock, and read the memory-mapped corpus inside, where a page that is not in memory yet stops nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.data.batches import (
    FLAT_MULTIPLE,
    WIDTH_MULTIPLE,
    Batch,
    ConstraintSide,
    ConstraintTensors,
    round_up,
)
from termweave.storage import Array, RaggedArray

Rows = tuple[Array, Array, Array]  # values and offsets of a ragged array, and which of its rows are meant
Spans = tuple[Array, Array]  # first token in its sentence and number of tokens of each constraint


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

    @property
    def source(self) -> Spans:
        return self.phrases["source_start"], self.phrases["source_tokens"]

    @property
    def target(self) -> Spans:
        return self.phrases["target_start"], self.phrases["target_tokens"]


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
    lead = 0 if markers.tag is None else 1
    (source_longest, _), (target_longest, target_tokens) = _measure(source), _measure(target)
    source_width = round_up(source_longest + 1 + lead, WIDTH_MULTIPLE)
    width = round_up(target_longest + 1, WIDTH_MULTIPLE)
    padded = _empty((rows, source_width), pinned)
    given, expected = _empty((rows, width), pinned), _empty((rows, width), pinned)
    weights = torch.empty((rows, width), dtype=torch.float32, pin_memory=pinned)
    special = (markers.padding, markers.begin, markers.end, -1 if markers.tag is None else markers.tag)
    _fill_sentences(source, target, special, beta, padded.numpy(), given.numpy(), expected.numpy(), weights.numpy())
    constraints = None
    if drawn is not None:
        constraints = _constraints(source, target, drawn, markers.padding, pinned)
        _weigh(*drawn.target, drawn.counts, alpha, weights.numpy())
    return Batch(
        source=padded,
        target_input=given,
        target=expected,
        weights=weights,
        constraints=constraints,
        tokens=target_tokens + rows,
        weight=float(weights.numpy().sum(dtype=np.float64)),
    )


def _constraints(source: Rows, target: Rows, drawn: Drawn, padding: int, pinned: bool) -> ConstraintTensors:
    source_side = _empty_side(drawn.source, drawn.counts, pinned)
    target_side = _empty_side(drawn.target, drawn.counts, pinned)
    tokens = _empty(tuple(target_side.number.shape), pinned)
    _fill_sides(
        source, target, drawn.source, drawn.target, drawn.counts, padding,
        _arrays(source_side), _arrays(target_side), tokens.numpy(),
    )  # fmt: skip
    return ConstraintTensors(source_side, target_side, tokens)


def _empty_side(spans: Spans, counts: Array, pinned: bool) -> ConstraintSide:
    longest, total = _measure_side(spans[1], counts)
    flat = (round_up(max(total, 1), FLAT_MULTIPLE),)
    width = round_up(max(longest, 1), WIDTH_MULTIPLE)
    return ConstraintSide(
        ids=_empty(flat, pinned),
        positions=_empty(flat, pinned),
        home=_empty(flat, pinned),
        number=_empty((len(counts), width), pinned),
    )


def _empty(shape: tuple[int, ...], pinned: bool) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, pin_memory=pinned)


def _arrays(side: ConstraintSide) -> tuple[Array, Array, Array, Array]:
    return side.ids.numpy(), side.positions.numpy(), side.home.numpy(), side.number.numpy()


@numba.njit(nogil=True, cache=True)
def _measure(chosen: Rows) -> tuple[int, int]:
    """Length of the longest row, and of all together."""
    _, offsets, rows = chosen
    longest, total = 0, 0
    for index in range(len(rows)):
        length = offsets[rows[index] + 1] - offsets[rows[index]]
        longest = max(longest, length)
        total += length
    return longest, total


@numba.njit(nogil=True, cache=True)
def _measure_side(lengths: Array, counts: Array) -> tuple[int, int]:
    """Tokens of the sentence with the most constraint tokens, and of all sentences together."""
    longest, total, constraint = 0, 0, 0
    for sentence in range(len(counts)):
        tokens = 0
        for _ in range(counts[sentence]):
            tokens += lengths[constraint]
            constraint += 1
        longest = max(longest, tokens)
        total += tokens
    return longest, total


@numba.njit(nogil=True, cache=True)
def _gather(chosen: Rows, ends: Array, gathered: Array) -> None:
    values, offsets, rows = chosen
    for index in range(len(rows)):
        row = rows[index]
        gathered[ends[index] : ends[index + 1]] = values[offsets[row] : offsets[row + 1]]


@numba.njit(nogil=True, cache=True)
def _fill_sentences(
    source: Rows,
    target: Rows,
    special: tuple[int, int, int, int],
    beta: float,
    padded: Array,
    given: Array,
    expected: Array,
    weights: Array,
) -> None:
    padding, begin, end, tag = special
    for row in range(len(padded)):
        lead = 0
        if tag >= 0:
            padded[row, 0] = tag
            lead = 1
        length = _fill_row(source, row, lead, padding, padded[row])
        padded[row, length] = end
        given[row, 0] = begin
        _fill_row(target, row, 1, padding, given[row])
        length = _fill_row(target, row, 0, padding, expected[row])
        expected[row, length] = end
        weights[row, : length + 1] = beta
        weights[row, length + 1 :] = 0


@numba.njit(nogil=True, cache=True)
def _fill_row(chosen: Rows, index: int, lead: int, padding: int, filled: Array) -> int:
    """Write one sentence from `lead` on, and padding behind it; returns where it ends."""
    values, offsets, rows = chosen
    first, last = offsets[rows[index]], offsets[rows[index] + 1]
    end: int = lead + last - first
    for place in range(lead, end):
        filled[place] = values[first + place - lead]
    filled[end:] = padding
    return end


@numba.njit(nogil=True, cache=True)
def _weigh(starts: Array, lengths: Array, counts: Array, alpha: float, weights: Array) -> None:
    constraint = 0
    for sentence in range(len(counts)):
        for _ in range(counts[sentence]):
            first = np.int64(starts[constraint])
            weights[sentence, first : first + lengths[constraint]] = alpha
            constraint += 1


@numba.njit(nogil=True, cache=True)
def _fill_sides(
    source: Rows,
    target: Rows,
    source_spans: Spans,
    target_spans: Spans,
    counts: Array,
    padding: int,
    source_side: tuple[Array, Array, Array, Array],
    target_side: tuple[Array, Array, Array, Array],
    target_tokens: Array,
) -> None:
    _fill_side(source, source_spans, counts, source_side)
    total = _fill_side(target, target_spans, counts, target_side)
    ids, _, home, _ = target_side
    flat = target_tokens.reshape(-1)
    flat[:] = padding
    for token in range(total):
        flat[home[token]] = ids[token]


@numba.njit(nogil=True, cache=True)
def _fill_side(text: Rows, spans: Spans, counts: Array, side: tuple[Array, Array, Array, Array]) -> int:
    """One side as `ConstraintSide` describes it; returns the number of tokens that are no filler."""
    values, offsets, rows = text
    starts, lengths = spans
    ids, positions, home, number = side
    width = number.shape[1]
    number[:] = 0
    token, constraint = 0, 0
    for sentence in range(len(counts)):
        slot = 0
        for place in range(counts[sentence]):
            first = offsets[rows[sentence]] + starts[constraint]
            for position in range(np.int64(lengths[constraint])):
                ids[token] = values[first + position]
                positions[token] = position
                home[token] = sentence * width + slot
                number[sentence, slot] = place + 1
                token += 1
                slot += 1
            constraint += 1
    ids[token:] = 0
    positions[token:] = 0
    home[token:] = number.size
    return token
