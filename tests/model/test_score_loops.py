"""The softmax's sum by a compiled loop, against torch's in double precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.model import attention_loops, score_loops
from termweave.model.output import Scores


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([1, 7, score_loops.BLOCK - 1, score_loops.BLOCK, 2 * score_loops.BLOCK + 9]),
    st.sampled_from([0.1, 3.0, 60.0]),  # of the largest, the others are as good as nothing
    st.integers(0, 99),
)
def test_it_is_the_logarithm_of_the_sum(batch, length, vocabulary, scale, seed):
    logits = scale * torch.randn(batch, length, vocabulary, generator=torch.Generator().manual_seed(seed))
    expected = logits.double().logsumexp(dim=2)
    torch.testing.assert_close(score_loops.log_sums(logits).double(), expected, rtol=1e-6, atol=2e-6)


def test_scores_of_logits_use_it_where_loops_run(monkeypatch):
    logits = torch.randn(2, 4, 300)
    asked = []
    monkeypatch.setattr(score_loops, "log_sums", lambda given: asked.append(given) or given.logsumexp(dim=2))
    for threads, times in ((0, 0), (torch.get_num_threads(), 1)):
        monkeypatch.setattr(attention_loops, "MOST_THREADS", threads)
        scores = Scores.of_logits(logits)
        torch.testing.assert_close(scores.log_probabilities(), logits.log_softmax(dim=2))
        assert len(asked) == times


def test_what_is_to_be_differentiated_is_left_to_torch():
    logits = torch.randn(1, 2, 5, requires_grad=True)
    Scores.of_logits(logits).offset.sum().backward()
    assert logits.grad is not None
    assert logits.grad.sum().item() == pytest.approx(-2, abs=1e-5)  # each softmax sums to 1
