"""The hidden Markov alignment model: exact posteriors of one sentence, in one direction.

States are the positions of the words that generate ("states"), observations the words generated, in order. Between two
observations the state moves by a jump; jumps beyond ±width share one weight, so that a transition is a banded
convolution plus a constant and a step costs states × width, not states². Every position has a twin that generates a
word from nothing and remembers the position (Och and Ney 2003); a twin and its position have the same future, so the
backward pass needs one value for both.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


@numba.njit(nogil=True, cache=True, fastmath=True)
def hmm_posteriors(
    emissions: Floats, null_emissions: Floats, kernel: Floats, far: float, null: float,
    posteriors: Floats, null_posteriors: Floats, jump_counts: Floats, work: Floats,
) -> None:  # fmt: skip
    """Posterior of every state for every observation, by the scaled forward-backward algorithm.

    emissions (observations, states), null_emissions (observations), kernel (2·width+1) and far: weights of the jumps,
    null: probability of generating from nothing. Fills posteriors (observations, states) and null_posteriors
    (observations); adds expected jumps to jump_counts (2·width+2; the last for far jumps) unless that is empty.
    `work` holds at least observations + 4 rows of states + 2·width numbers.
    """
    observations, states = emissions.shape
    width = len(kernel) // 2
    inverse, moved, padded, totals = work[0], work[1], work[2], work[4:]
    _invert_sums(kernel, far, states, inverse)
    padded[:] = 0
    _start(kernel, far, states, moved)
    for time in range(observations):
        if time > 0:
            for state in range(states):
                padded[width + state] = totals[time - 1, state] * inverse[state]
            _move(padded, kernel, far, states, 1, moved)
        scale = emissions.dtype.type(0)
        for state in range(states):
            before = totals[time - 1, state] if time > 0 else moved[state]
            here = (1 - null) * moved[state] * emissions[time, state]
            posteriors[time, state] = here
            totals[time, state] = here + null * null_emissions[time] * before
            scale += totals[time, state]
        scale = 1 / scale
        null_posteriors[time] = scale  # kept here until the backward pass has used it
        for state in range(states):
            posteriors[time, state] *= scale
            totals[time, state] *= scale
    _go_back(emissions, null_emissions, kernel, far, null, posteriors, null_posteriors, jump_counts, work)


@numba.njit(nogil=True, cache=True, fastmath=True)
def _go_back(
    emissions: Floats, null_emissions: Floats, kernel: Floats, far: float, null: float,
    posteriors: Floats, null_posteriors: Floats, jump_counts: Floats, work: Floats,
) -> None:  # fmt: skip
    """The backward pass: turns forward weights into posteriors, in place."""
    observations, states = emissions.shape
    width = len(kernel) // 2
    inverse, moved, padded, future, totals = work[0], work[1], work[2], work[3], work[4:]
    padded[:] = 0
    future[:states] = 1
    for time in range(observations - 1, -1, -1):
        scale = null_posteriors[time]
        unlinked = emissions.dtype.type(0)
        for state in range(states):
            unlinked += (totals[time, state] - posteriors[time, state]) * future[state]
            posteriors[time, state] *= future[state]
        null_posteriors[time] = unlinked
        if time == 0:
            break
        for state in range(states):
            padded[width + state] = (1 - null) * scale * emissions[time, state] * future[state]
        _move(padded, kernel, far, states, -1, moved)
        if len(jump_counts):
            _count_jumps(totals[time - 1], inverse, padded, kernel, far, states, jump_counts)
        stay = null * scale * null_emissions[time]
        for state in range(states):
            future[state] = inverse[state] * moved[state] + stay * future[state]


@numba.njit(nogil=True, cache=True, fastmath=True)
def _start(kernel: Floats, far: float, states: int, start: Floats) -> None:
    """The first word is reached by a jump from just before the first state."""
    width = len(kernel) // 2
    total = kernel.dtype.type(0)
    for state in range(states):
        start[state] = kernel[width + state + 1] if state < width else far
        total += start[state]
    for state in range(states):
        start[state] /= total


@numba.njit(nogil=True, cache=True, fastmath=True)
def _invert_sums(kernel: Floats, far: float, states: int, inverse: Floats) -> None:
    """inverse[k] = 1 / Σ_i weight(i-k): jumps that leave the sentence are impossible."""
    width = len(kernel) // 2
    for state in range(states):
        inside = far * states
        for jump in range(max(-width, -state), min(width, states - 1 - state) + 1):
            inside += kernel[width + jump] - far
        inverse[state] = 1 / inside


@numba.njit(nogil=True, cache=True, fastmath=True)
def _move(padded: Floats, kernel: Floats, far: float, states: int, sign: int, moved: Floats) -> None:
    """moved[i] = Σ_k weight(sign·(i-k)) · padded[width+k]; `padded` has `width` zeros on both sides of the states."""
    width = len(kernel) // 2
    total = padded.dtype.type(0)
    for state in range(states):
        total += padded[width + state]
    total *= far
    for state in range(states):
        moved[state] = total
    reach = min(width, states - 1)
    for jump in range(-reach, reach + 1):
        weight = kernel[width + sign * jump] - far
        shifted = padded[width - jump : width - jump + states]
        for state in range(states):
            moved[state] += weight * shifted[state]


@numba.njit(nogil=True, cache=True, fastmath=True)
def _count_jumps(
    before: Floats, inverse: Floats, padded: Floats, kernel: Floats, far: float, states: int, counts: Floats
) -> None:
    width = len(kernel) // 2
    left = before.dtype.type(0)
    arrived = before.dtype.type(0)
    for state in range(states):
        left += before[state] * inverse[state]
        arrived += padded[width + state]
    distant = left * arrived
    reach = min(width, states - 1)
    for jump in range(-reach, reach + 1):
        mass = before.dtype.type(0)
        shifted = padded[width + jump : width + jump + states]
        for state in range(states):
            mass += before[state] * inverse[state] * shifted[state]
        counts[width + jump] += mass * kernel[width + jump]
        distant -= mass
    if distant > 0:  # rounding may leave a trace below zero
        counts[2 * width + 1] += distant * far
