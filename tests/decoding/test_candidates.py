"""The two-level top-k against sorting everything."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.decoding.candidates import (
    CHUNK,
    Candidates,
    best_by_tensors,
    best_candidates,
    best_continuations,
    best_of_each,
    choose,
    chunk_maxima,
    only_ending,
)
from termweave.model.output import Scores


def best(scores: Scores, so_far: torch.Tensor, count: int) -> Candidates:
    """By the loops, and by the tensors of other devices: the same."""
    given = scores, so_far, count, chunk_maxima(scores.values)
    found, same = best_candidates(*given), best_by_tensors(*given)
    for own, other in zip(as_tuples(found), as_tuples(same), strict=True):
        pairs = zip(own, other, strict=True)
        assert all(one == another or one[0] == another[0] == float("-inf") for one, another in pairs)
    return found


def sorted_candidates(scores: Scores, so_far: torch.Tensor, count: int) -> list[list[tuple[float, int, int]]]:
    """All continuations in the order of score, hypothesis, token."""
    totals = scores.values + (so_far + scores.offset).unsqueeze(2)
    rows = []
    for row in totals.tolist():
        entries = [(total, parent, token) for parent, own in enumerate(row) for token, total in enumerate(own)]
        rows.append(sorted(entries, key=lambda entry: (-entry[0], entry[1], entry[2]))[:count])
    return rows


def as_tuples(candidates: Candidates) -> list[list[tuple[float, int, int]]]:
    columns = (candidates.scores.tolist(), candidates.parents.tolist(), candidates.tokens.tolist())
    return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]


@given(
    vocabulary=st.sampled_from([1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 9]),
    beam=st.integers(1, 5),
    levels=st.sampled_from([1, 2, 5, 1000]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=80, deadline=None)
def test_exact_with_ties_by_place(vocabulary, beam, levels, seed):
    """Few levels of scores: nearly everything is a tie."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randint(-levels, levels, (2, beam, vocabulary), generator=random) / 4
    scores = Scores(values, torch.randint(-2, 2, (2, beam), generator=random) / 4)
    so_far = torch.randint(-2, 2, (2, beam), generator=random) / 4
    count = min(2 * beam, beam * vocabulary)
    assert as_tuples(best(scores, so_far, count)) == sorted_candidates(scores, so_far, count)


@given(
    vocabulary=st.sampled_from([3, CHUNK - 1, CHUNK, 3 * CHUNK + 9]),
    changes=st.integers(0, 12),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_maxima_of_before_are_corrected_where_tokens_were_touched(vocabulary, changes, seed):
    torch.manual_seed(seed)
    values, so_far = torch.randn(2, 3, vocabulary), torch.randn(2, 3)
    maxima = chunk_maxima(values)
    touched = torch.randint(vocabulary, (2, changes))
    changed = torch.where(torch.rand(2, 3, changes) < 0.5, 9 * torch.randn(2, 3, changes), float("-inf"))
    values.scatter_(2, touched.unsqueeze(1).expand(-1, 3, -1), changed)
    scores = Scores(values, torch.randn(2, 3))
    expected = best_continuations(scores, so_far, 2, touched, each=True)
    found = best_continuations(replace(scores, maxima=maxima), so_far, 2, touched, each=True)
    for own, other in zip(found, expected, strict=True):
        assert as_tuples(own) == as_tuples(other)


def test_what_is_impossible_comes_last():
    values = torch.full((1, 2, 2 * CHUNK), float("-inf"))
    values[0, 1, 200], values[0, 0, 3] = -1.0, -2.0
    scores = Scores(values, torch.zeros(1, 2))
    found = best(scores, torch.zeros(1, 2), 4)
    assert as_tuples(found)[0][:2] == [(-1.0, 1, 200), (-2.0, 0, 3)]
    assert found.scores[0, 2:].tolist() == [float("-inf")] * 2
    nothing = best(scores, torch.full((1, 2), float("-inf")), 4)
    assert nothing.scores.tolist() == [[float("-inf")] * 4]


@pytest.mark.parametrize("vocabulary", [3, CHUNK + 2])
def test_a_vocabulary_too_small_is_filled_up(vocabulary):
    scores = Scores(torch.randn(2, 1, vocabulary), torch.zeros(2, 1))
    found = best(scores, torch.zeros(2, 1), 3 * CHUNK)
    assert found.scores.shape == found.parents.shape == found.tokens.shape == (2, 3 * CHUNK)
    assert found.scores.isfinite().sum(dim=1).tolist() == [vocabulary] * 2
    assert int(found.tokens.max()) < vocabulary
    assert as_tuples(found)[1][:vocabulary] == sorted_candidates(scores, torch.zeros(2, 1), vocabulary)[1]


def test_at_the_limit_there_is_but_the_end():
    scores = Scores(torch.tensor([[[0.0, -1.0], [0.0, -3.0], [0.0, -2.0]]] * 2), torch.zeros(2, 3))
    ends = only_ending(scores, torch.tensor([[-3.0, 0.0, 0.0]] * 2), end=1, count=4)
    assert as_tuples(ends)[0][:3] == [(-2.0, 2, 1), (-3.0, 1, 1), (-4.0, 0, 1)]
    assert ends.scores[0, 3] == float("-inf")
    others = best(scores, torch.zeros(2, 3), 4)
    chosen = as_tuples(choose(torch.tensor([True, False]), ends, others))
    assert chosen == [as_tuples(ends)[0], as_tuples(others)[1]]


@pytest.mark.parametrize("vocabulary", [3, CHUNK, 2 * CHUNK + 5])
def test_the_best_of_each_hypothesis(vocabulary):
    torch.manual_seed(1)
    scores = Scores(torch.randn(2, 3, vocabulary), torch.randn(2, 3))
    so_far = torch.randn(2, 3)
    found = best_of_each(scores, so_far, chunk_maxima(scores.values))
    values, tokens = scores.log_probabilities().max(dim=2)
    assert found.tokens.tolist() == tokens.tolist()
    torch.testing.assert_close(found.scores, values + so_far)
