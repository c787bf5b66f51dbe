"""The output layer `copy` on a CPU while decoding: one compiled loop instead of some forty small operations.

`output.py` says what is to be done, in tensor operations that run anywhere and can be trained.
"""

from __future__ import annotations

from math import log, log1p, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.accelerators import laid_out
from termweave.model.coverage import DONE, LATER, MARKS, NEXT, START
from termweave.model.loop_math import dot, exponentiate
from termweave.storage import Array

if TYPE_CHECKING:
    from termweave.model.coverage import Progress
    from termweave.model.output import CopyOutput, OutputMemory, Scores


NEGLIGIBLE = np.float32(1e-6)  # of the attention: what gets less says nothing to the gate
FAR_APART = np.float32(18)  # logarithms of two numbers


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

    keys: Array
    context: Array
    tokens: Array
    filled: Array
    first: Array
    running: Array
    done: Array


def mix(
    layer: CopyOutput, states: Tensor, model: Scores, memory: OutputMemory, progress: Progress, smallest: float
) -> Tensor:
    """Change the values of `model` in place; returns the new offset, (batch, hypotheses)."""
    assert memory.keys is not None and memory.context is not None and memory.slots is not None
    queries, from_state = laid_out(*layer.from_states(states))
    weights = (layer.mark_keys, layer.null, layer.context.bias, layer.mark_weights, layer.gate.weight, layer.gate.bias)
    given = (memory.keys, memory.context, memory.tokens, memory.filled, memory.slots.first)
    offset = torch.empty(states.shape[:2])
    _mix(
        Weights(*_arrays(*weights)),
        Given(*_arrays(*given, progress.running, progress.done)),
        queries.numpy(),
        from_state.numpy(),
        model.values.numpy(),
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
    values: Array,
    offset: Array,
    new_offset: Array,
    smallest: np.float32,
) -> None:
    batch, hypotheses, dimension = queries.shape
    slots = given.tokens.shape[1]
    shares, own, by_mark = np.empty(slots, np.float32), np.empty(slots, np.float32), np.empty(MARKS + 1, np.float32)
    marks, leaders = np.empty(slots, np.int64), np.empty(slots, np.int64)
    room = np.empty(dimension, np.float32), np.empty(dimension, np.float32)
    for row in range(batch):
        # Slots are filled from the first on, as many as the sentence needs; there is room for the one with the most.
        count = _filled(given.filled[row])
        tokens, own_shares, own_marks = given.tokens[row, :count], shares[:count], marks[:count]
        _find_leaders(tokens, leaders)
        for hypothesis in range(hypotheses):
            if not count:  # exactly the model's
                new_offset[row, hypothesis] = offset[row, hypothesis]
                continue
            # Read now: the scores of a step are megabytes, and memory answers while the rest is computed.
            for slot in range(count):
                own[slot] = values[row, hypothesis, tokens[slot]]
            is_open = _mark(given.first[row], given.running[row, hypothesis], given.done[row, hypothesis], own_marks)
            _attend(queries[row, hypothesis], given.keys[row], weights, own_marks, is_open, own_shares, by_mark)
            gate = _gate(from_state[row, hypothesis], given.context[row], weights, own_shares, by_mark, room)
            rest = max(1 - gate * own_shares.sum(), smallest)
            base = offset[row, hypothesis] + np.float32(log(rest))
            new_offset[row, hypothesis] = base
            _add_copied(own, base, gate, leaders, own_shares, smallest)
            for slot in range(count):
                values[row, hypothesis, tokens[slot]] = own[leaders[slot]]


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


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _attend(
    query: Array,
    keys: Array,
    weights: Weights,
    marks: Array,
    is_open: bool,
    shares: Array,
    by_mark: Array,
) -> None:
    """How much attention each slot gets, beside the null slot; the slots of each mark; and whether one is open."""
    dimension, count = len(query), len(shares)
    scale = np.float32(1 / sqrt(dimension))
    null = dot(query, weights.null[1 if is_open else 0], dimension) * scale
    highest = null
    for mark in range(MARKS):  # many slots share one
        by_mark[mark] = dot(query, weights.mark_keys[mark], dimension)
    for slot in range(count):
        shares[slot] = (dot(query, keys[slot], dimension) + by_mark[marks[slot]]) * scale
        highest = max(highest, shares[slot])
    for slot in range(count):
        shares[slot] -= highest
    exponentiate(shares, count)
    total = np.float32(np.exp(null - highest))
    for slot in range(count):
        total += shares[slot]
    by_mark[:] = 0
    by_mark[MARKS] = is_open
    for slot in range(count):
        shares[slot] /= total
        by_mark[marks[slot]] += shares[slot]


@numba.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _gate(
    from_state: Array,
    context: Array,
    weights: Weights,
    shares: Array,
    by_mark: Array,
    room: tuple[Array, Array],  # (d,) to work in
) -> np.float32:
    hidden, powers = room
    dimension = len(hidden)
    for at in range(dimension):
        hidden[at] = from_state[at] + weights.context_bias[at]
    for slot in range(len(shares)):
        share, seen = shares[slot], context[slot]
        if share > NEGLIGIBLE:
            for at in range(dimension):
                hidden[at] += share * seen[at]
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


@numba.njit(nogil=True, cache=True)
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
        if leaders[slot] == slot:
            score, copied = own[slot] + base, np.float32(log(max(gate * shares[slot], smallest)))
            larger, apart = max(score, copied), abs(score - copied)
            # Far apart, the smaller one is less than the larger one's last bit.
            own[slot] = (np.float32(larger + log1p(np.exp(-apart))) if apart < FAR_APART else larger) - base
