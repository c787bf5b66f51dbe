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
    scores, marks, mixed = np.empty(slots, np.float32), np.empty(slots, np.int64), np.empty(slots, np.float32)
    hidden, bits = np.empty(dimension, np.float32), np.empty(max(dimension, slots), np.int32)
    by_mark = np.empty(MARKS + 1, np.float32)
    for row in range(batch):
        filled, tokens = given.filled[row], given.tokens[row]
        for hypothesis in range(hypotheses):
            if not filled.any():  # exactly the model's
                new_offset[row, hypothesis] = offset[row, hypothesis]
                continue
            is_open = _mark(
                given.first[row], given.running[row, hypothesis], given.done[row, hypothesis], filled, marks
            )
            _attend(queries[row, hypothesis], given.keys[row], weights, filled, marks, is_open, scores, bits)
            by_mark[:] = 0
            by_mark[MARKS] = is_open
            for slot in range(slots):
                by_mark[marks[slot]] += scores[slot]
            gate = _gate(from_state[row, hypothesis], given.context[row], weights, scores, by_mark, hidden, bits)
            rest = max(1 - gate * scores.sum(), smallest)
            base = offset[row, hypothesis] + np.float32(log(rest))
            new_offset[row, hypothesis] = base
            own = values[row, hypothesis]
            for slot in range(slots):
                if filled[slot]:
                    mixed[slot] = _with_copied(own[tokens[slot]] + base, slot, gate, tokens, scores, smallest) - base
            for slot in range(slots):
                if filled[slot]:
                    own[tokens[slot]] = mixed[slot]


@numba.njit(nogil=True, cache=True)
def _mark(first: Array, running: Array, done: Array, filled: Array, marks: Array) -> bool:
    """`Slots.marks`; is any constraint open?"""
    is_open = False
    for slot in range(len(marks)):
        if done[slot]:
            marks[slot] = DONE
        elif first[slot] == slot:
            marks[slot] = START
        else:
            marks[slot] = NEXT if running[slot - 1] else LATER
        is_open |= filled[slot] and not done[slot]
    return is_open


@numba.njit(nogil=True, cache=True)
def _attend(
    query: Array, keys: Array, weights: Weights, filled: Array, marks: Array, is_open: bool, scores: Array, bits: Array
) -> None:
    """Into `scores`: how much attention each slot gets, beside the null slot; none if it is empty."""
    dimension, slots = len(query), len(scores)
    scale = np.float32(1 / sqrt(dimension))
    null = dot(query, weights.null[1 if is_open else 0], dimension) * scale
    highest = null
    by_mark = np.empty(MARKS, np.float32)  # many slots share a mark
    for mark in range(MARKS):
        by_mark[mark] = dot(query, weights.mark_keys[mark], dimension)
    for slot in range(slots):
        if filled[slot]:
            scores[slot] = (dot(query, keys[slot], dimension) + by_mark[marks[slot]]) * scale
            highest = max(highest, scores[slot])
    for slot in range(slots):
        scores[slot] = scores[slot] - highest if filled[slot] else np.float32(0)
    exponentiate(scores, bits, slots)
    total = np.float32(np.exp(null - highest))
    for slot in range(slots):
        if not filled[slot]:
            scores[slot] = 0
        total += scores[slot]
    for slot in range(slots):
        scores[slot] /= total


@numba.njit(nogil=True, cache=True, fastmath=True)
def _gate(
    from_state: Array,
    context: Array,
    weights: Weights,
    attention: Array,
    by_mark: Array,
    hidden: Array,
    bits: Array,
) -> np.float32:
    dimension = len(hidden)
    for at in range(dimension):
        hidden[at] = from_state[at] + weights.context_bias[at]
    for slot in range(len(attention)):
        share, seen = attention[slot], context[slot]
        if share > 0:
            for at in range(dimension):
                hidden[at] += share * seen[at]
    for mark in range(MARKS + 1):
        share, said = by_mark[mark], weights.marks[mark]
        if share > 0:
            for at in range(dimension):
                hidden[at] += share * said[at]
    # tanh is symmetrical: of |x| it is (1 − power) / (1 + power), where the power exp(−2 |x|) is no more than 1.
    gates = weights.gate[0]
    signed = np.float32(0)
    powers = np.empty(dimension, np.float32)
    for at in range(dimension):
        powers[at] = -2 * abs(hidden[at])
    exponentiate(powers, bits, dimension)
    for at in range(dimension):
        size = (1 - powers[at]) / (1 + powers[at])
        signed += gates[at] * (size if hidden[at] >= 0 else -size)
    return np.float32(1 / (1 + np.exp(-(signed + weights.gate_bias[0]))))


@numba.njit(nogil=True, cache=True)
def _with_copied(
    own: np.float32, slot: int, gate: np.float32, tokens: Array, attention: Array, smallest: np.float32
) -> np.float32:
    """log P of a slot's token. One that stands in several slots gets the sum of their shares, in each of them."""
    copied = np.float32(0)
    for other in range(len(tokens)):
        if tokens[other] == tokens[slot]:
            copied += gate * attention[other]
    copied = np.float32(log(max(copied, smallest)))
    return np.float32(max(own, copied) + log1p(np.exp(-abs(own - copied))))
