"""The output layer `copy` on a CPU while decoding: one compiled loop instead of some forty small operations.

`output.py` says what is to be done, in tensor operations that run anywhere and can be trained.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.accelerators import laid_out
from termweave.model.coverage import DONE, LATER, MARKS, NEXT, START
from termweave.model.loop_math import dot, exponential, exponentiate, halves, logarithm, single
from termweave.model.score_loops import CHUNK
from termweave.storage import Array

if TYPE_CHECKING:
    from termweave.model.coverage import Progress
    from termweave.model.output import CopyOutput, OutputMemory, Scores


NEGLIGIBLE = np.float32(1e-6)  # of the attention: what gets less says nothing to the gate
NOTHING = np.float32(2**-25)  # so much of a number added to it leaves it as it is


class Weights(NamedTuple):
    """Those of the layer that have to do with marks and the gate."""

    mark_keys: Array  # (marks, d)
    null: Array  # (2, d)
    context_bias: Array  # (d,)
    marks: Array  # (marks + 1, d)
    gate: Array  # (1, d)
    gate_bias: Array  # (1,)


class Given(NamedTuple):
    """The constraints, (batch, slots, …), and what hypotheses have produced of them, (batch, hypotheses, slots)."""

    keys: Array  # see `halves`, as the context
    context: Array
    tokens: Array
    filled: Array
    first: Array
    running: Array
    done: Array


def mix(
    layer: CopyOutput, states: Tensor, model: Scores, memory: OutputMemory, progress: Progress, smallest: float
) -> Tensor:
    """Change the values of `model` in place, and the maxima with them; returns the new offset, (batch, hypotheses)."""
    assert memory.keys is not None and memory.context is not None and memory.slots is not None
    queries, from_state = laid_out(*layer.from_states(states))
    weights = (layer.mark_keys, layer.null, layer.context.bias, layer.mark_weights, layer.gate.weight, layer.gate.bias)
    given = (memory.tokens, memory.filled, memory.slots.first)
    offset = torch.empty(states.shape[:2])
    maxima = model.values.new_empty(*states.shape[:2], 0) if model.maxima is None else model.maxima
    _mix(
        Weights(*_arrays(*weights)),
        Given(halves(memory.keys), halves(memory.context), *_arrays(*given, progress.running, progress.done)),
        queries.numpy(),
        from_state.numpy(),
        (model.values.numpy(), maxima.numpy()),
        model.offset.contiguous().numpy(),
        offset.numpy(),
        np.float32(smallest),
    )
    return offset


def _arrays(*tensors: Tensor) -> tuple[Array, ...]:
    return tuple(tensor.detach().numpy() for tensor in laid_out(*tensors))


@numba.njit(nogil=True, cache=True)
def _mix(
    weights: Weights,
    given: Given,
    queries: Array,
    from_state: Array,
    changed: tuple[Array, Array],
    offset: Array,
    new_offset: Array,
    smallest: np.float32,
) -> None:
    values, maxima = changed
    batch, hypotheses, dimension = queries.shape
    slots = given.tokens.shape[1]
    all_shares, own = np.empty((hypotheses, slots), np.float32), np.empty(slots, np.float32)
    all_by_mark, nulls = np.empty((hypotheses, MARKS + 1), np.float32), np.empty((hypotheses, 2), np.float32)
    marks, leaders = np.empty(slots, np.int64), np.empty(slots, np.int64)
    room = np.empty(dimension, np.float32), np.empty(dimension, np.float32), np.empty(slots, np.int64)
    for row in range(batch):
        # Slots are filled from the first on, as many as the sentence needs; there is room for the one with the most.
        count = _filled(given.filled[row])
        if not count:  # exactly the model's
            new_offset[row] = offset[row]
            continue
        tokens, own_marks = given.tokens[row, :count], marks[:count]
        _find_leaders(tokens, leaders)
        _compare(queries[row], given.keys[row], count, all_shares)
        _compare(queries[row], weights.mark_keys, MARKS, all_by_mark)
        _compare(queries[row], weights.null, 2, nulls)
        for hypothesis in range(hypotheses):
            shares, by_mark = all_shares[hypothesis, :count], all_by_mark[hypothesis]
            # Read now: the scores of a step are megabytes, and memory answers while the rest is computed.
            for slot in range(count):
                own[slot] = values[row, hypothesis, tokens[slot]]
            is_open = _mark(given.first[row], given.running[row, hypothesis], given.done[row, hypothesis], own_marks)
            _share_out(own_marks, is_open, nulls[hypothesis, 1 if is_open else 0], dimension, shares, by_mark)
            gate = _gate(from_state[row, hypothesis], given.context[row], weights, shares, by_mark, room)
            rest = max(1 - gate * shares.sum(), smallest)
            base = offset[row, hypothesis] + np.float32(log(rest))
            new_offset[row, hypothesis] = base
            _add_copied(own, base, gate, leaders, shares, smallest)
            for slot in range(count):
                values[row, hypothesis, tokens[slot]] = own[leaders[slot]]
            _raise(maxima[row, hypothesis], tokens, own, leaders)


@numba.njit(nogil=True, cache=True)
def _filled(filled: Array) -> int:
    """How many slots there are up to the last that is filled."""
    count = len(filled)
    while count and not filled[count - 1]:
        count -= 1
    return count


@numba.njit(nogil=True, cache=True)
def _find_leaders(tokens: Array, leaders: Array) -> None:
    """The first slot of each slot's token."""
    for slot in range(len(tokens)):
        leader = 0
        while tokens[leader] != tokens[slot]:
            leader += 1
        leaders[slot] = leader


@numba.njit(nogil=True, cache=True)
def _mark(first: Array, running: Array, done: Array, marks: Array) -> bool:
    """`Slots.marks`; is any constraint open?"""
    is_open = False
    for slot in range(len(marks)):
        if done[slot]:
            marks[slot] = DONE
        elif first[slot] == slot:
            marks[slot] = START
        else:
            marks[slot] = NEXT if running[slot - 1] else LATER
        is_open |= not done[slot]
    return is_open


@numba.njit(nogil=True, cache=True, fastmath=True)
def _compare(queries: Array, keys: Array, count: int, products: Array) -> None:
    """Of each query with the first keys. A key is read for four queries at once."""
    hypotheses, dimension = queries.shape
    together = hypotheses - hypotheses % 4
    for first in range(0, together, 4):
        one, two, three, four = queries[first], queries[first + 1], queries[first + 2], queries[first + 3]
        for slot in range(count):
            key = keys[slot]
            of_one, of_two, of_three, of_four = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for at in range(dimension):
                number = single(key[at])
                of_one += one[at] * number
                of_two += two[at] * number
                of_three += three[at] * number
                of_four += four[at] * number
            products[first, slot], products[first + 1, slot] = of_one, of_two
            products[first + 2, slot], products[first + 3, slot] = of_three, of_four
    for hypothesis in range(together, hypotheses):
        for slot in range(count):
            products[hypothesis, slot] = dot(queries[hypothesis], keys[slot], dimension)


@numba.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _share_out(marks: Array, is_open: bool, null: np.float32, dimension: int, shares: Array, by_mark: Array) -> None:
    """How much attention each slot gets, beside the null slot; the slots of each mark; and whether one is open.

    shares, by_mark, null: products of the query with the keys of the slots, with those of the marks, with the null's.
    """
    count, scale = len(shares), np.float32(1 / sqrt(dimension))
    null *= scale
    highest = null
    for slot in range(count):
        shares[slot] = (shares[slot] + by_mark[marks[slot]]) * scale
        highest = max(highest, shares[slot])
    for slot in range(count):
        shares[slot] -= highest
    exponentiate(shares, count)
    total = exponential(null - highest)
    for slot in range(count):
        total += shares[slot]
    by_mark[:] = 0
    by_mark[MARKS] = is_open
    for slot in range(count):
        shares[slot] /= total
        by_mark[marks[slot]] += shares[slot]


@numba.njit(nogil=True, cache=True, fastmath=True)
def _add_four(to: Array, shares: tuple[np.float32, ...], one: Array, two: Array, three: Array, four: Array) -> None:
    """So much of each: four at a time read and write what they are added to once."""
    of_one, of_two, of_three, of_four = shares
    for at in range(len(to)):
        these = of_one * single(one[at]) + of_two * single(two[at])
        to[at] += these + of_three * single(three[at]) + of_four * single(four[at])


@numba.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _gate(
    from_state: Array,
    context: Array,
    weights: Weights,
    shares: Array,
    by_mark: Array,
    room: tuple[Array, Array, Array],  # (d,) twice and (slots,) to work in
) -> np.float32:
    hidden, powers, listed = room
    dimension = len(hidden)
    for at in range(dimension):
        hidden[at] = from_state[at] + weights.context_bias[at]
    count = 0
    for slot in range(len(shares)):
        if shares[slot] > NEGLIGIBLE:
            listed[count] = slot
            count += 1
    together = count - count % 4
    for first in range(0, together, 4):
        a, b, c, d = listed[first], listed[first + 1], listed[first + 2], listed[first + 3]
        _add_four(hidden, (shares[a], shares[b], shares[c], shares[d]), context[a], context[b], context[c], context[d])
    for index in range(together, count):
        share, seen = shares[listed[index]], context[listed[index]]
        for at in range(dimension):
            hidden[at] += share * single(seen[at])
    for mark in range(MARKS + 1):
        share, said = by_mark[mark], weights.marks[mark]
        if share > NEGLIGIBLE:
            for at in range(dimension):
                hidden[at] += share * said[at]
    # tanh is symmetrical: of |x| it is (1 − power) / (1 + power), where the power exp(−2 |x|) is no more than 1.
    gates = weights.gate[0]
    for at in range(dimension):
        powers[at] = -2 * abs(hidden[at])
    exponentiate(powers, dimension)
    signed = np.float32(0)
    for at in range(dimension):
        size = gates[at] * ((1 - powers[at]) / (1 + powers[at]))
        signed += size if hidden[at] >= 0 else -size
    return np.float32(1 / (1 + np.exp(-(signed + weights.gate_bias[0]))))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _add_copied(
    own: Array,  # scores of the slots' tokens without `base`; changed for the leaders
    base: np.float32,
    gate: np.float32,
    leaders: Array,
    shares: Array,  # used up
    smallest: np.float32,
) -> None:
    """A token that stands in several slots gets the sum of their shares."""
    for slot in range(len(shares)):
        if leaders[slot] < slot:
            shares[leaders[slot]] += shares[slot]
    for slot in range(len(shares)):
        score, copied = own[slot] + base, max(gate * shares[slot], smallest)
        power = exponential(score)
        if copied > NOTHING * power:
            own[slot] = max(own[slot], logarithm(power + copied) - base)  # never less, not even by the last bit


@numba.njit(nogil=True, cache=True)
def _raise(maxima: Array, tokens: Array, scores: Array, leaders: Array) -> None:
    """Those of the chunks in which tokens got more: there are none that got less."""
    for slot in range(len(tokens) if len(maxima) else 0):
        chunk = tokens[slot] // CHUNK
        maxima[chunk] = max(maxima[chunk], scores[leaders[slot]])
