"""Random numbers that depend on (seed, epoch, row) alone, for compiled code.

Constraints are drawn anew every epoch by whichever thread or process happens to build a batch. So that a run
can be resumed, split over machines or batched otherwise and still see the same constraints, no generator is
carried along: every sentence starts its own stream (splitmix64, Steele et al. 2014) from its own key.

A stream is one number: `state = advance(state)` steps it, `below(state, n)` and `unit(state)` read it.
"""

from __future__ import annotations

import numba
import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFT_30, _SHIFT_27, _SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)
_SHIFT_32, _SHIFT_11 = np.uint64(32), np.uint64(11)


@numba.njit(nogil=True, cache=True)
def scramble(state: np.uint64) -> np.uint64:
    """The output function of splitmix64: a bijection of 64-bit numbers that leaves no pattern."""
    mixed = (state ^ (state >> _SHIFT_30)) * _FIRST
    mixed = (mixed ^ (mixed >> _SHIFT_27)) * _SECOND
    return mixed ^ (mixed >> _SHIFT_31)


@numba.njit(nogil=True, cache=True)
def stream(seed: np.uint64, epoch: int, row: int, purpose: int) -> np.uint64:
    """The beginning of a sentence's stream; `purpose` keeps the uses of one sentence apart."""
    state = scramble(np.uint64(seed) + _GOLDEN)
    state = scramble(state ^ (np.uint64(epoch) + _GOLDEN))
    state = scramble(state ^ (np.uint64(row) + _GOLDEN))
    return scramble(state ^ (np.uint64(purpose) + _GOLDEN))


@numba.njit(nogil=True, cache=True)
def advance(state: np.uint64) -> np.uint64:
    return state + _GOLDEN


@numba.njit(nogil=True, cache=True)
def below(state: np.uint64, bound: int) -> int:
    """A number in 0..bound−1, bound < 2³²; the bias is below bound / 2³²."""
    high = scramble(state) >> _SHIFT_32
    return np.int64((high * np.uint64(bound)) >> _SHIFT_32)  # type: ignore[return-value]


@numba.njit(nogil=True, cache=True)
def unit(state: np.uint64) -> float:
    """A number in [0, 1)."""
    return np.float64(scramble(state) >> _SHIFT_11) * (1.0 / (1 << 53))


def seed_number(seed: int) -> np.uint64:
    """Any integer as the seed of a stream; negative ones and large ones wrap around."""
    return np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
