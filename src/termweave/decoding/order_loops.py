"""`vdba.climb` and `vdba.allocate` as compiled loops: which candidates to take, in which order."""

from __future__ import annotations

import numba
import numpy as np

from termweave.decoding.missing_loops import FAR
from termweave.storage import Array

IMPOSSIBLE = np.float32(-np.inf)
TAKEN = -1  # instead of how many tokens are missing


@numba.njit(nogil=True, cache=True)
def climb(scores: Array, missing: Array, leaders: Array, order: Array) -> int:
    """`vdba.climb`: which to take, in that order; returns how many.

    leaders: room for the best of each bank, as many as what is missing can be.
    """
    leaders[:] = -1
    for index in range(len(scores)):
        if scores[index] > IMPOSSIBLE:
            leader = leaders[missing[index]]
            if leader < 0 or scores[index] > scores[leader]:
                leaders[missing[index]] = index
    # Ahead of all that score better are leaders that come before those of all fuller banks.
    ahead = 0
    for fewest in range(len(leaders)):
        leader, last = leaders[fewest], leaders[max(ahead - 1, 0)]
        if leader >= 0 and (
            ahead == 0 or scores[leader] > scores[last] or (scores[leader] == scores[last] and leader < last)
        ):
            leaders[ahead] = leader
            ahead += 1
    listed, taken = best_of(scores, order), min(ahead, len(order))
    for place in range(ahead - taken, ahead):
        missing[leaders[place]] = TAKEN
    rest = 0
    for place in range(listed):
        if missing[order[place]] != TAKEN:
            order[rest] = order[place]
            rest += 1
    count = min(taken + rest, len(order))
    for place in range(count - 1, taken - 1, -1):
        order[place] = order[place - taken]
    for place in range(taken):
        order[place] = leaders[ahead - 1 - place]
    return count


@numba.njit(nogil=True, cache=True)
def allocate(scores: Array, missing: Array, order: Array) -> int:
    """`vdba.allocate`: which to take, in that order; returns how many. Banks go round, from the fullest down."""
    cursor = -1
    for place in range(len(order)):
        found, first = -1, 0
        for index in range(len(scores)):
            if scores[index] == IMPOSSIBLE or missing[index] == TAKEN:
                continue
            turn = missing[index] if missing[index] > cursor else missing[index] + FAR
            if found < 0 or turn < first or (turn == first and scores[index] > scores[found]):
                found, first = index, turn
        if found < 0:
            return place
        order[place], cursor, missing[found] = found, missing[found], TAKEN
    return len(order)


@numba.njit(nogil=True, cache=True)
def best_of(scores: Array, best: Array) -> int:
    """Where the best are, the first of equal ones first; returns how many they are."""
    listed, room = 0, len(best)
    last = IMPOSSIBLE
    for index in range(len(scores)):
        score = scores[index]
        if score > last:
            at = min(listed, room - 1)
            while at and score > scores[best[at - 1]]:
                best[at] = best[at - 1]
                at -= 1
            best[at] = index
            listed = min(listed + 1, room)
            if listed == room:
                last = scores[best[room - 1]]
    return listed
