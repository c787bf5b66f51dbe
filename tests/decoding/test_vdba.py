"""Bank allocation against a plain loop."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.decoding.vdba import allocate

SCORES = st.one_of(st.integers(-20, 0).map(float), st.just(float("-inf")))
CANDIDATES = st.lists(st.tuples(SCORES, st.integers(0, 4)), min_size=6, max_size=14)


def literal(candidates: list[tuple[float, int]], count: int) -> list[int]:
    """Round by round: the next best of every bank, the fullest first; impossible ones come last."""
    banks: dict[int, list[int]] = {}
    for index, (score, bank) in enumerate(candidates):
        if score > float("-inf"):
            banks.setdefault(bank, []).append(index)
    for members in banks.values():
        members.sort(key=lambda index: -candidates[index][0])
    chosen: list[int] = []
    while any(banks.values()):
        for bank in sorted(banks, reverse=True):
            if banks[bank]:
                chosen.append(banks[bank].pop(0))
    return chosen[:count]


@settings(deadline=None)
@given(CANDIDATES)
def test_places_go_round_the_banks(candidates):
    scores = torch.tensor([[score for score, _ in candidates]])
    banks = torch.tensor([[bank for _, bank in candidates]])
    expected = literal(candidates, 6)
    assert allocate(scores, banks, 6)[0, : len(expected)].tolist() == expected


@settings(deadline=None)
@given(st.lists(st.floats(-9, 0, allow_nan=False), min_size=6, max_size=12))
def test_one_bank_is_plain_order(values):
    scores = torch.tensor([values])
    chosen = allocate(scores, torch.zeros_like(scores, dtype=torch.long), 6)
    assert chosen.tolist() == scores.argsort(dim=1, descending=True, stable=True)[:, :6].tolist()
