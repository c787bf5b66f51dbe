"""`candidates.best_candidates` on a CPU: a compiled loop that keeps the best in a short list.

Nothing else is sorted: most scores are compared with the last of the list alone.
"""

from __future__ import annotations

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.model.loop_math import largest_of
from termweave.model.score_loops import CHUNK
from termweave.storage import Array

IMPOSSIBLE = np.float32(-np.inf)


def correct_all(maxima: Tensor, values: Tensor, touched: Tensor) -> None:
    """The maxima of the chunks in which tokens were touched, (batch, n), after all that was done to the values."""
    _correct_all(maxima.numpy(), values.numpy(), touched.numpy())


@numba.njit(nogil=True, cache=True)
def _correct_all(maxima: Array, values: Array, touched: Array) -> None:
    batch, beam, chunks = maxima.shape
    is_touched = np.empty(chunks, np.bool_)
    for row in range(batch):
        is_touched[:] = False
        for token in touched[row]:
            is_touched[token // CHUNK] = True
        for number in range(chunks):
            if is_touched[number]:
                for parent in range(beam):
                    correct(maxima[row, parent], values[row, parent], number)


@numba.njit(nogil=True, cache=True)
def correct(maxima: Array, values: Array, number: int) -> None:
    """The maximum of one chunk."""
    own = values[number * CHUNK : (number + 1) * CHUNK]
    maxima[number] = largest_of(own, len(own))


def best(values: Tensor, base: Tensor, maxima: Tensor, count: int, chunk: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, parents and tokens of the best, (batch, count) each; where there are not so many, impossible ones.

    values: (batch, beam, vocabulary); base: (batch, beam) to be added; maxima: (batch, beam, chunks) of the values.
    """
    scores = values.new_full((len(values), count), float(IMPOSSIBLE))
    parents = torch.zeros(len(values), count, dtype=torch.long)
    tokens = torch.zeros_like(parents)
    _best(values.numpy(), base.numpy(), maxima.numpy(), chunk, (scores.numpy(), parents.numpy(), tokens.numpy()))
    return scores, parents, tokens


@numba.njit(nogil=True, cache=True)
def _best(values: Array, base: Array, maxima: Array, chunk: int, found: tuple[Array, Array, Array]) -> None:
    batch, beam, vocabulary = values.shape
    count, chunks = found[0].shape[1], maxima.shape[2]
    highest, places = np.empty(count, np.float32), np.empty(count, np.int64)
    for row in range(batch):
        listed = 0
        for parent in range(beam):
            for number in range(chunks):
                score = maxima[row, parent, number] + base[row, parent]
                listed = _insert(highest, places, listed, score, parent * chunks + number)
        most = listed
        scores, keys, listed = found[0][row], found[2][row], 0
        for _ in range(most):
            first = places[:most].argmin()  # in the order of their places, so that equal scores are too
            parent, start = places[first] // chunks, places[first] % chunks * chunk
            places[first] = beam * chunks  # behind all others
            own, added = values[row, parent, start : start + chunk], base[row, parent]
            for at in range(len(own)):
                listed = _insert(scores, keys, listed, own[at] + added, parent * vocabulary + start + at)
        for index in range(listed):
            found[1][row, index], keys[index] = keys[index] // vocabulary, keys[index] % vocabulary


@numba.njit(nogil=True, cache=True)
def _insert(scores: Array, places: Array, listed: int, score: np.float32, place: int) -> int:
    """Into a list, best first, that drops its last one when it is full; returns how many it holds.

    Of equal ones, the first that came stays before the others.
    """
    room = len(scores)
    if listed == room and not score > scores[room - 1]:
        return listed
    at = min(listed, room - 1)
    while at and score > scores[at - 1]:
        scores[at], places[at] = scores[at - 1], places[at - 1]
        at -= 1
    scores[at], places[at] = score, place
    return min(listed + 1, room)
