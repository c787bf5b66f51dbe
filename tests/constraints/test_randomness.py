"""The counter-based generator: known values, independence of its keys, ranges."""

from __future__ import annotations

import itertools

import numpy as np

from termweave.constraints.randomness import advance, below, scramble, stream, unit


def test_matches_the_published_splitmix64() -> None:
    # First outputs for seed 1234567, as listed with the reference implementation on Rosetta Code.
    state, outputs = np.uint64(1234567), []
    for _ in range(5):
        state = np.uint64(advance(state))
        outputs.append(int(scramble(state)))
    assert outputs == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_every_part_of_the_key_matters() -> None:
    keys = list(itertools.product((0, 1), repeat=4))
    assert len({int(stream(np.uint64(key[0]), *key[1:])) for key in keys}) == len(keys)


def test_ranges_are_covered_evenly() -> None:
    states = [np.uint64(stream(np.uint64(7), 0, row, 1)) for row in range(6000)]
    counts = np.bincount([below(state, 3) for state in states], minlength=3)
    assert len(counts) == 3
    assert np.all(np.abs(counts - 2000) < 150)
    units = np.array([unit(state) for state in states])
    assert 0 <= units.min() < 0.01
    assert 0.99 < units.max() < 1
    assert abs(units.mean() - 0.5) < 0.02
