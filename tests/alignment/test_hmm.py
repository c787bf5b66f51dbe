"""The forward-backward algorithm against the sum over all paths."""

from itertools import product

import numpy as np
import pytest

from termweave.alignment.hmm import hmm_posteriors

WIDTH = 2


def jump_weight(kernel: np.ndarray, far: float, jump: int) -> float:
    return float(kernel[WIDTH + jump]) if abs(jump) <= WIDTH else far


def enumerate_paths(
    emissions: np.ndarray, nulls: np.ndarray, kernel: np.ndarray, far: float, null: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posteriors, null posteriors and expected jumps, by visiting every path.

    A path has for each observation a position and whether the word comes from there or from nothing; coming from
    nothing keeps the position, or, at the start, draws one as the first jump would.
    """
    observations, states = emissions.shape
    posteriors, unlinked, jumps = np.zeros_like(emissions), np.zeros(observations), np.zeros(2 * WIDTH + 2)
    start = np.array([jump_weight(kernel, far, state + 1) for state in range(states)])
    start /= start.sum()
    moves = np.array([[jump_weight(kernel, far, to - origin) for to in range(states)] for origin in range(states)])
    moves /= moves.sum(axis=1, keepdims=True)
    total = 0.0
    for path in product(product(range(states), (False, True)), repeat=observations):
        weight = 1.0
        for time, (state, from_nothing) in enumerate(path):
            before = path[time - 1][0] if time else None
            reach = start[state] if before is None else moves[before, state]
            if from_nothing:
                reach = start[state] if before is None else float(before == state)
                weight *= null * reach * nulls[time]
            else:
                weight *= (1 - null) * reach * emissions[time, state]
        total += weight
        for time, (state, from_nothing) in enumerate(path):
            if from_nothing:
                unlinked[time] += weight
                continue
            posteriors[time, state] += weight
            if time:
                jump = state - path[time - 1][0]
                jumps[WIDTH + jump if abs(jump) <= WIDTH else -1] += weight
    return posteriors / total, unlinked / total, jumps / total


@pytest.mark.parametrize(("observations", "states"), [(1, 1), (1, 4), (4, 1), (3, 2), (3, 5), (4, 4)])
def test_posteriors_are_those_of_all_paths(observations: int, states: int) -> None:
    random = np.random.default_rng(10 * observations + states)
    emissions, nulls = random.random((observations, states)), random.random(observations)
    kernel, far, null = random.random(2 * WIDTH + 1), 0.07, 0.3
    posteriors, unlinked, jumps = np.empty((observations, states)), np.empty(observations), np.zeros(2 * WIDTH + 2)
    work = np.full((observations + 4, states + 2 * WIDTH + 1), np.nan)
    hmm_posteriors(emissions, nulls, kernel, far, null, posteriors, unlinked, jumps, work)
    expected = enumerate_paths(emissions, nulls, kernel, far, null)
    np.testing.assert_allclose(posteriors, expected[0], rtol=1e-9)
    np.testing.assert_allclose(unlinked, expected[1], rtol=1e-9)
    np.testing.assert_allclose(jumps, expected[2], rtol=1e-9, atol=1e-12)


def test_single_precision_and_tiny_probabilities() -> None:
    """The type the aligner uses: a long sentence of improbable words neither overflows nor vanishes."""
    random = np.random.default_rng(5)
    observations, states = 200, 150
    emissions = np.exp(random.uniform(-20, 0, (observations, states))).astype(np.float32)
    nulls = np.full(observations, 1e-9, dtype=np.float32)
    kernel = random.random(2 * WIDTH + 1).astype(np.float32)
    posteriors = np.empty((observations, states), dtype=np.float32)
    unlinked = np.empty(observations, dtype=np.float32)
    work = np.empty((observations + 4, states + 2 * WIDTH + 1), dtype=np.float32)
    hmm_posteriors(emissions, nulls, kernel, np.float32(0.01), np.float32(0.2), posteriors, unlinked, np.zeros(0), work)
    np.testing.assert_allclose(posteriors.sum(axis=1) + unlinked, 1, rtol=1e-3)
