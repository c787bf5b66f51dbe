"""Bank allocation against a plain loop."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.decoding.vdba import allocate

SCORES = st.one_of(st.integers(-20, 0).map(float), st.just(float("-inf")))
CANDIDATES = st.lists(st.tuples(SCORES, st.integers(0, 4)), min_size=6, max_size=14)


def literal(candidates: list[tuple[float, int]], count: int, free: int) -> list[int]:
    """The best of all; then round by round the next best of every bank, the fullest first; impossible ones last."""
    possible = [index for index, (score, _) in enumerate(candidates) if score > float("-inf")]
    possible.sort(key=lambda index: -candidates[index][0])
    chosen = possible[:free]
    banks: dict[int, list[int]] = {}
    for index in possible[free:]:
        banks.setdefault(candidates[index][1], []).append(index)
    while any(banks.values()):
        for bank in sorted(banks, reverse=True):
            if banks[bank]:
                chosen.append(banks[bank].pop(0))
    return chosen[:count]


@settings(deadline=None)
@given(CANDIDATES, st.integers(0, 3))
def test_places_go_round_the_banks(candidates, free):
    scores = torch.tensor([[score for score, _ in candidates]])
    banks = torch.tensor([[bank for _, bank in candidates]])
    expected = literal(candidates, 6, free)
    assert allocate(scores, banks, 6, free)[0, : len(expected)].tolist() == expected


@settings(deadline=None)
@given(st.lists(st.floats(-9, 0, allow_nan=False), min_size=6, max_size=12), st.integers(0, 3))
def test_one_bank_is_plain_order(values, free):
    scores = torch.tensor([values])
    chosen = allocate(scores, torch.zeros_like(scores, dtype=torch.long), 6, free)
    assert chosen.tolist() == scores.argsort(dim=1, descending=True, stable=True)[:, :6].tolist()
