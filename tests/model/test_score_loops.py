"""One pass over logits, against torch in double precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.model import attention_loops, score_loops
from termweave.model.output import Scores
from termweave.model.score_loops import CHUNK

BLOCK = score_loops.BLOCK * CHUNK


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([1, 7, CHUNK - 1, CHUNK, CHUNK + 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + CHUNK + 9]),
    st.sampled_from([0.1, 3.0, 60.0]),  # of the largest, the others are as good as nothing
    st.sampled_from([-200.0, 0.0, 200.0]),
    st.integers(0, 99),
)
def test_largest_of_each_chunk_and_the_logarithm_of_the_sum(batch, length, vocabulary, scale, shift, seed):
    logits = shift + scale * torch.randn(batch, length, vocabulary, generator=torch.Generator().manual_seed(seed))
    maxima, sums = score_loops.survey(logits, CHUNK)
    expected = [chunk.amax(dim=2) for chunk in logits.split(CHUNK, dim=2)]
    assert torch.equal(maxima, torch.stack(expected, dim=2))
    torch.testing.assert_close(sums.double(), logits.double().logsumexp(dim=2), rtol=1e-6, atol=2e-6)


def test_what_is_impossible_counts_for_nothing():
    logits = torch.full((1, 1, 3 * CHUNK), float("-inf"))
    logits[0, 0, 2 * CHUNK + 5] = 1.5
    maxima, sums = score_loops.survey(logits, CHUNK)
    assert maxima.tolist() == [[[float("-inf"), float("-inf"), 1.5]]]
    assert sums.item() == pytest.approx(1.5)


def test_scores_of_logits_use_it_where_loops_run(monkeypatch):
    logits = torch.randn(2, 4, 300)
    for threads, has_maxima in ((0, False), (torch.get_num_threads(), True)):
        monkeypatch.setattr(attention_loops, "MOST_THREADS", threads)
        scores = Scores.of_logits(logits)
        torch.testing.assert_close(scores.log_probabilities(), logits.log_softmax(dim=2))
        assert (scores.maxima is not None) == has_maxima


def test_what_is_to_be_differentiated_is_left_to_torch():
    logits = torch.randn(1, 2, 5, requires_grad=True)
    Scores.of_logits(logits).offset.sum().backward()
    assert logits.grad is not None
    assert logits.grad.sum().item() == pytest.approx(-2, abs=1e-5)  # each softmax sums to 1
