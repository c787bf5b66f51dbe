"""The passes over the text, compiled: expected counts under the current model, and decisions under the final one.

Both directions are computed together, from one look-up of the word pairs of a sentence.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from termweave.alignment.hmm import Floats, hmm_posteriors
from termweave.alignment.model import (
    MAX_WORDS,
    Counts,
    DoubleArray,
    FloatArray,
    IntArray,
    Jumps,
    Lexicon,
    PairTable,
    Stage,
    Text,
    Workspace,
)

# A row of the table up to this many times the length of the sentence is read through rather than searched.
_SCAN_FACTOR = 32
# A pair this unlikely in a sentence is not counted: most are, and writing to the large table is what costs.
_NEGLIGIBLE = np.float32(1e-5)
# A word is linked to its likeliest origin if the two directions together believe in it at least so much.
_LINK_ABOVE = 0.35
_HALF = np.float32(0.5)
# Jumps have few parameters; every so many sentences is enough to estimate them.
_COUNT_JUMPS_EVERY = 8


@numba.njit(nogil=True, cache=True)
def expect(
    text: Text, begin: int, end: int, table: PairTable, lexicon: Lexicon, jumps: Jumps, stage: Stage,
    counts: Counts, space: Workspace,
) -> None:  # fmt: skip
    """Add the expected counts of sentence pairs begin … end to `counts`."""
    for row in range(begin, end):
        source, target = _sentence(text, row)
        if len(source) == 0 or len(target) == 0:
            continue
        cells = _find_cells(source, target, table, space)
        counted = counts.jumps if row % _COUNT_JUMPS_EVERY == 0 else space.no_jumps
        of_target, of_source = _posteriors(cells, source, target, lexicon, jumps, stage, counted, space)
        for i in range(len(source)):
            counts.null_backward[source[i]] += space.source_nulls[i]
            for j in range(len(target)):
                if stage.agree:
                    share = of_target[j, i] * of_source[i, j]
                else:
                    share = _HALF * (of_target[j, i] + of_source[i, j])
                if share > _NEGLIGIBLE:
                    counts.pairs[cells[i, j]] += share
        for j in range(len(target)):
            counts.null_forward[target[j]] += space.target_nulls[j]


@numba.njit(nogil=True, cache=True)
def decide(
    text: Text, begin: int, end: int, table: PairTable, lexicon: Lexicon, jumps: Jumps, stage: Stage,
    space: Workspace, forward: IntArray, backward: IntArray,
) -> None:  # fmt: skip
    """The likeliest origin of every word of sentence pairs begin … end, or -1.

    forward (target words of these sentences) holds source positions, backward (source words) target positions.
    """
    forward[:] = -1
    backward[:] = -1
    for row in range(begin, end):
        source, target = _sentence(text, row)
        if len(source) == 0 or len(target) == 0:
            continue
        cells = _find_cells(source, target, table, space)
        of_target, of_source = _posteriors(cells, source, target, lexicon, jumps, stage, space.no_jumps, space)
        _average(of_target, of_source)
        _choose(of_target, forward[text.target_offsets[row] - text.target_offsets[begin] :])
        _choose(of_source, backward[text.source_offsets[row] - text.source_offsets[begin] :])


@numba.njit(nogil=True, cache=True)
def _average(of_target: FloatArray, of_source: FloatArray) -> None:
    """Give both directions the mean of what they believe; each covers for the blind spots of the other."""
    rows, columns = of_source.shape
    for i in range(rows):
        for j in range(columns):
            of_source[i, j] = of_target[j, i] = _HALF * (of_source[i, j] + of_target[j, i])


@numba.njit(nogil=True, cache=True)
def _choose(posteriors: FloatArray, chosen: IntArray) -> None:
    for time in range(len(posteriors)):
        best = np.argmax(posteriors[time])
        if posteriors[time, best] > _LINK_ABOVE:
            chosen[time] = best


@numba.njit(nogil=True, cache=True)
def _sentence(text: Text, row: int) -> tuple[IntArray, IntArray]:
    source_first, target_first = text.source_offsets[row], text.target_offsets[row]
    source_last = min(text.source_offsets[row + 1], source_first + MAX_WORDS)
    target_last = min(text.target_offsets[row + 1], target_first + MAX_WORDS)
    return text.source[source_first:source_last], text.target[target_first:target_last]


@numba.njit(nogil=True, cache=True)
def _find_cells(source: IntArray, target: IntArray, table: PairTable, space: Workspace) -> IntArray:
    """(source, target) matrix: 1 + place of each word pair in the table, or 0.

    Reading a short row and asking of each column whether it stands in the sentence is many times cheaper than
    searching the row for each word. `slots` has the place of each word in the sentence, and is all -1 between calls;
    `chain` leads on to the next place of the same word.
    """
    slots, chain = space.slots, space.chain
    cells = space.cells[: len(source) * len(target)].reshape(len(source), len(target))
    for j in range(len(target)):
        chain[j] = slots[target[j]]
        slots[target[j]] = j
    for i in range(len(source)):
        cells[i, :] = 0
        first, last = table.starts[source[i]], table.starts[source[i] + 1]
        if last - first <= _SCAN_FACTOR * len(target):
            for pair in range(first, last):
                j = slots[table.columns[pair]]
                while j >= 0:
                    cells[i, j] = pair + 1
                    j = chain[j]
        else:
            for j in range(len(target)):
                cells[i, j] = _search(table.columns, first, last, target[j])
    for j in range(len(target)):
        slots[target[j]] = -1
    return cells


@numba.njit(nogil=True, cache=True)
def _search(columns: IntArray, first: int, last: int, word: int) -> int:
    """1 + place of `word` among the ascending columns first … last, or 0."""
    end = last
    while first < last:
        middle = (first + last) >> 1
        if columns[middle] < word:
            first = middle + 1
        else:
            last = middle
    return first + 1 if first < end and columns[first] == word else 0


@numba.njit(nogil=True, cache=True)
def _posteriors(
    cells: IntArray, source: IntArray, target: IntArray, lexicon: Lexicon, jumps: Jumps, stage: Stage,
    jump_counts: DoubleArray, space: Workspace,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """(target, source) posteriors of where each target word comes from, and (source, target) ones of the reverse."""
    rows, columns = cells.shape
    emissions = space.emissions[: cells.size].reshape(columns, rows)
    for i in range(rows):
        floor = lexicon.floor_forward[source[i]]
        for j in range(columns):
            emissions[j, i] = lexicon.forward[cells[i, j]] if cells[i, j] else floor
    for j in range(columns):
        space.null_emissions[j] = lexicon.null_forward[target[j]]
    of_target = space.target_posteriors[: cells.size].reshape(columns, rows)
    _one_direction(emissions, jumps.near[0], jumps.far[0], stage, of_target, space.target_nulls, jump_counts[0], space)
    emissions = space.emissions[: cells.size].reshape(rows, columns)
    for i in range(rows):
        space.null_emissions[i] = lexicon.null_backward[source[i]]
        for j in range(columns):
            emissions[i, j] = lexicon.backward[cells[i, j]] if cells[i, j] else lexicon.floor_backward[target[j]]
    of_source = space.source_posteriors[: cells.size].reshape(rows, columns)
    _one_direction(emissions, jumps.near[1], jumps.far[1], stage, of_source, space.source_nulls, jump_counts[1], space)
    return of_target, of_source


@numba.njit(nogil=True, cache=True)
def _one_direction(
    emissions: FloatArray, near: FloatArray, far: float, stage: Stage, posteriors: FloatArray, nulls: FloatArray,
    jump_counts: DoubleArray, space: Workspace,
) -> None:  # fmt: skip
    null: Any = np.float32(stage.null)  # a double here would make the whole computation double
    if stage.tension >= 0:
        _diagonal_posteriors(emissions, space.null_emissions, stage.tension, null, posteriors, nulls)
        return
    observations, states = emissions.shape
    size = (observations + 4) * (states + len(near))
    work = space.moves[:size].reshape(observations + 4, states + len(near))
    hmm_posteriors(emissions, space.null_emissions, near, far, null, posteriors, nulls, jump_counts, work)


@numba.njit(nogil=True, cache=True, fastmath=True)
def _diagonal_posteriors(
    emissions: Floats, null_emissions: Floats, tension: float, null: float, posteriors: Floats, null_posteriors: Floats
) -> None:
    """Posteriors when words are independent of each other and favour their own relative place (Dyer et al. 2013)."""
    observations, states = emissions.shape
    for time in range(observations):
        place = np.float32((time + 0.5) / observations)
        step = np.float32(1 / states)
        total = np.float32(0)
        prior_sum = np.float32(0)
        for state in range(states):
            prior = np.exp(np.float32(-tension) * abs((np.float32(state) + np.float32(0.5)) * step - place))
            prior_sum += prior
            posteriors[time, state] = prior * emissions[time, state]
            total += posteriors[time, state]
        unlinked = np.float32(null) * null_emissions[time]
        scale = np.float32(1 - null) / prior_sum
        norm = 1 / (unlinked + total * scale)
        for state in range(states):
            posteriors[time, state] *= scale * norm
        null_posteriors[time] = unlinked * norm
