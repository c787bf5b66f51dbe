"""Bank allocation against a plain loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.decoding.vdba import allocate, climb

SCORES = st.one_of(st.integers(-20, 0).map(float), st.just(float("-inf")))
CANDIDATES = st.lists(st.tuples(SCORES, st.integers(0, 4)), min_size=6, max_size=14)
ORDERS = pytest.mark.parametrize("order", [allocate, climb])


def by_score(candidates: list[tuple[float, int]]) -> list[int]:
    """The possible ones, best first."""
    possible = [index for index, (score, _) in enumerate(candidates) if score > float("-inf")]
    return sorted(possible, key=lambda index: -candidates[index][0])


def rounds(candidates: list[tuple[float, int]]) -> list[int]:
    """Round by round the next best of every bank, the fullest first."""
    chosen = []
    banks: dict[int, list[int]] = {}
    for index in by_score(candidates):
        banks.setdefault(candidates[index][1], []).append(index)
    while any(banks.values()):
        for bank in sorted(banks, reverse=True):
            if banks[bank]:
                chosen.append(banks[bank].pop(0))
    return chosen


def steps(candidates: list[tuple[float, int]]) -> list[int]:
    """From the best on, whoever is in a fuller bank than the one chosen before; then whoever was passed over."""
    chosen: list[int] = []
    passed: list[int] = []
    for index in by_score(candidates):
        further = not chosen or candidates[index][1] > candidates[chosen[-1]][1]
        (chosen if further else passed).append(index)
    return chosen + passed


@pytest.mark.parametrize(("order", "literal"), [(allocate, rounds), (climb, steps)])
@settings(deadline=None)
@given(candidates=CANDIDATES)
def test_places_go_by_banks_and_scores(order, literal, candidates):
    scores = torch.tensor([[score for score, _ in candidates]])
    banks = torch.tensor([[bank for _, bank in candidates]])
    expected = literal(candidates)[:6]
    assert order(scores, banks, 6)[0, : len(expected)].tolist() == expected


@ORDERS
@settings(deadline=None)
@given(values=st.lists(st.floats(-9, 0, allow_nan=False), min_size=6, max_size=12))
def test_one_bank_is_plain_order(order, values):
    scores = torch.tensor([values])
    chosen = order(scores, torch.zeros_like(scores, dtype=torch.long), 6)
    assert chosen.tolist() == scores.argsort(dim=1, descending=True, stable=True)[:, :6].tolist()


def test_what_was_pressed_in_early_does_not_crowd_out_what_comes_in_its_place():
    """Banks 3 and 2 are held by outputs that began with constraints; bank 1 is where one was met just now."""
    scores = torch.tensor([[-1.0, -1.2, -3.5, -15.0, -17.0]])
    banks = torch.tensor([[0, 0, 1, 2, 3]])
    assert climb(scores, banks, 2).tolist() == [[0, 2]]
