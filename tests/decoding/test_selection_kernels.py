"""The kernels of selection against the tensor operations they stand in for. Without a GPU, Triton interprets them."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="Triton comes with CUDA builds of torch; `make kernels` installs it")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from termweave import accelerators
from termweave.decoding import selection_kernels
from termweave.decoding.candidates import IMPOSSIBLE, Candidates, best_continuations
from termweave.model.output import Scores
from termweave.model.score_loops import CHUNK

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def assert_same(candidates: Candidates | None, others: Candidates | None) -> None:
    assert candidates is not None and others is not None
    torch.testing.assert_close(candidates.scores, others.scores, atol=2e-5, rtol=1e-5)
    real = candidates.scores > IMPOSSIBLE  # which of the impossible ones come last does not matter
    assert torch.equal(candidates.parents[real], others.parents[real])
    assert torch.equal(candidates.tokens[real], others.tokens[real])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 5),
    st.sampled_from([2, 5, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7]),
    st.sampled_from([1, 3, 9, 20, 40]),  # 40: hypotheses with tokens take turns
    st.integers(0, 99),
)
def test_the_best_are_those_of_the_tensors(batch, beam, vocabulary, changes, seed):
    torch.manual_seed(seed)
    logits = torch.randint(-9, 9, (batch, beam, vocabulary), device=DEVICE) / 2  # equal ones occur
    so_far = torch.randint(-9, 0, (batch, beam), device=DEVICE) / 2
    so_far[:, 1:] = so_far[:, 1:].masked_fill(torch.rand(so_far[:, 1:].shape, device=DEVICE) < 0.2, IMPOSSIBLE)
    touched = torch.randint(vocabulary, (batch, changes), device=DEVICE)
    index = touched.unsqueeze(1).expand(-1, beam, -1)
    changed = (torch.randint(-9, 9, index.shape, device=DEVICE) / 2).masked_fill(
        touched.unsqueeze(1) % 3 == 0, IMPOSSIBLE
    )
    results = []
    for devices in ((), (DEVICE.type,)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(accelerators, "WITH_KERNELS", devices)
            scores = Scores.of_logits(logits.clone())
            assert scores.maxima is not None or not devices  # loops on a CPU find them too
            scores.values.scatter_(2, index, changed)
            # The same offset for both, so that equal scores are equal: rounding is not what is compared here.
            offset = scores.offset if not results else results[0][0].offset
            rounded = Scores(scores.values, offset, scores.maxima)
            results.append((scores, *best_continuations(rounded, so_far, 2 * beam, touched, each=True)))
    (scores, best, own), (other_scores, other_best, other_own) = results
    torch.testing.assert_close(other_scores.offset, scores.offset, atol=1e-5, rtol=1e-6)
    assert_same(best, other_best)
    assert_same(own, other_own)


def test_large_logits_do_not_overflow():
    logits = torch.randn(2, 3, 3 * CHUNK, device=DEVICE) * 100 + 1000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
        scores = Scores.of_logits(logits)
    torch.testing.assert_close(scores.offset, -logits.logsumexp(dim=2))


def test_large_beams_and_vocabularies_are_left_to_the_tensors():
    assert selection_kernels.can_select(4, 250) and selection_kernels.can_select(16, 250)
    assert not selection_kernels.can_select(32, 10) and not selection_kernels.can_select(16, 1000)
