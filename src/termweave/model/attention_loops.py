"""Attention of a decoding step on a CPU: compiled loops over the keys that a hypothesis can see, and no others.

`attention.py` and `cache.py` say what is to be done. Torch's attention is made for many queries; here there are as many
as the beam has places, and over the cache, it reads the keys of all hypotheses for each of them. These loops follow the
ancestry to the keys of each, and write the heads side by side, as the product behind them wants it. A sentence gets the
same numbers in every batch.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.model.loop_math import dot, exponentiate, halves, largest_of, single, stored
from termweave.storage import Array

if TYPE_CHECKING:
    from termweave.model.attention import KeysValues

MOST_THREADS = 2  # torch shares its attention out among all it has; a loop runs on one


def can_attend(like: Tensor) -> bool:
    """like: a tensor of the type and on the device of the queries."""
    return like.device.type == "cpu" and like.dtype == torch.float32 and torch.get_num_threads() <= MOST_THREADS


def kept_kind(like: Tensor, rounded: bool) -> torch.dtype:
    """Of the keys and values that steps read: rounded, they take half the memory, which is what the loops wait for."""
    return torch.bfloat16 if rounded and can_attend(like) else like.dtype


def attend_past(queries: Tensor, own: KeysValues, past: KeysValues, ancestry: Tensor, length: int) -> Tensor:
    """`SelfAttentionCache.attend`, (batch, hypotheses, d); own keys and values are added to those of the past."""
    result = _room_for(queries)
    _attend_past(
        _by_hypothesis(queries),
        _by_hypothesis(own.keys),
        _by_hypothesis(own.values),
        halves(past.keys),
        halves(past.values),
        ancestry.numpy(),
        length,
        result.numpy(),
    )
    return result.flatten(2)


def attend_memory(queries: Tensor, memory: KeysValues, places: Tensor) -> Tensor:
    """`attention.attend_few`, (batch, hypotheses, d); places: see `Visible`."""
    result = _room_for(queries)
    _attend_memory(_by_hypothesis(queries), halves(memory.keys), halves(memory.values), places.numpy(), result.numpy())
    return result.flatten(2)


def _room_for(queries: Tensor) -> Tensor:
    batch, heads, hypotheses, width = queries.shape
    return queries.new_empty(batch, hypotheses, heads, width)


def _by_hypothesis(tensor: Tensor) -> Array:
    """(batch, heads, hypotheses, width) → (batch, hypotheses, heads, width), as projections give them."""
    array: Array = tensor.detach().transpose(1, 2).numpy()
    return array


@numba.njit(nogil=True, cache=True, fastmath=True)
def _attend_past(
    queries: Array,
    own_keys: Array,
    own_values: Array,
    keys: Array,
    values: Array,
    ancestry: Array,
    length: int,
    result: Array,
) -> None:
    batch, hypotheses, heads, width = queries.shape
    beam, count = ancestry.shape[1], length + 1
    rows = np.empty(count, np.int64)
    scores, vector = np.empty(count, np.float32), np.empty(width, np.float32)
    for sentence in range(batch):
        for head in range(heads):
            all_keys, all_values = keys[sentence, head], values[sentence, head]
            for hypothesis in range(hypotheses):
                for at in range(width):
                    key, value = own_keys[sentence, hypothesis, head, at], own_values[sentence, hypothesis, head, at]
                    all_keys[length * beam + hypothesis, at] = stored(key, all_keys[0, 0])
                    all_values[length * beam + hypothesis, at] = stored(value, all_keys[0, 0])
            for hypothesis in range(hypotheses):
                for step in range(count):
                    rows[step] = step * beam + ancestry[sentence, hypothesis, step]
                for at in range(width):
                    vector[at] = queries[sentence, hypothesis, head, at]
                _look(vector, all_keys, all_values, rows, count, scores, result[sentence, hypothesis, head])


@numba.njit(nogil=True, cache=True, fastmath=True)
def _attend_memory(queries: Array, keys: Array, values: Array, places: Array, result: Array) -> None:
    batch, hypotheses, heads, width = queries.shape
    most = places.shape[1]
    scores, vector = np.empty(most, np.float32), np.empty(width, np.float32)
    for sentence in range(batch):
        count, rows = places[sentence, 0], places[sentence, 1:]
        for head in range(heads):
            all_keys, all_values = keys[sentence, head], values[sentence, head]
            for hypothesis in range(hypotheses):
                for at in range(width):
                    vector[at] = queries[sentence, hypothesis, head, at]
                _look(vector, all_keys, all_values, rows, count, scores, result[sentence, hypothesis, head])


@numba.njit(nogil=True, cache=True, fastmath=True)
def _look(
    vector: Array,  # (width,) the query; used up
    keys: Array,
    values: Array,
    rows: Array,  # which of them are seen
    count: int,
    scores: Array,  # (count,) room to work in
    result: Array,  # (width,)
) -> None:
    width = len(vector)
    scale = np.float32(1 / sqrt(width))
    for index in range(count):
        scores[index] = dot(vector, keys[rows[index]], width) * scale
    share = np.float32(1) / _powers(scores, count)
    for at in range(width):
        vector[at] = 0
    for index in range(count):
        value, weight = values[rows[index]], scores[index] * share
        for at in range(width):
            vector[at] += weight * single(value[at])
    for at in range(width):
        result[at] = vector[at]


@numba.njit(nogil=True, cache=True, fastmath=True)
def _powers(scores: Array, count: int) -> np.float32:
    """exp(score − the highest), in place; their sum."""
    highest = largest_of(scores, count)
    for index in range(count):
        scores[index] -= highest
    exponentiate(scores, count)
    total = np.float32(0)
    for index in range(count):
        total += scores[index]
    return total
