"""The kernels of `copy` against the tensor operations they stand in for. Without a GPU, Triton interprets them."""

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
from termweave.config import ModelConfig
from termweave.data.batches import constraints_from_ids
from termweave.model.output import CopyOutput, Scores

pytestmark = pytest.mark.usefixtures("without_loops")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VOCABULARY = 12
DIMENSIONS = st.sampled_from([128, 384])  # read at once, and in three parts
TOKENS = st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=3)
SENTENCES = st.lists(st.lists(st.tuples(TOKENS, TOKENS), max_size=3), min_size=1, max_size=3).filter(any)


@settings(max_examples=60, deadline=None)
@given(SENTENCES, DIMENSIONS, st.integers(1, 3), st.integers(0, 4), st.integers(0, 99))
@torch.no_grad()
def test_the_kernels_do_what_the_tensors_do(sentences, dimension, beam, steps, seed):
    torch.manual_seed(seed)
    layer = CopyOutput(ModelConfig(dimension=dimension, variant="copy")).to(DEVICE).eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    if seed % 2:
        layer.join()
    constraints = constraints_from_ids(sentences, 0).to(DEVICE)
    vectors = torch.randn(len(constraints.target.ids), dimension, device=DEVICE)
    memory = layer.remember(constraints, vectors, torch.empty(0, device=DEVICE))
    assert memory.slots is not None
    results = []
    for devices in ((), (DEVICE.type,)):
        torch.manual_seed(seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(accelerators, "WITH_KERNELS", devices)
            progress = memory.slots.start(1)
            for _ in range(steps):
                parents = torch.randint(progress.done.shape[1], (len(sentences), beam), device=DEVICE)
                slot = torch.randint(memory.tokens.shape[1], (len(sentences), beam), device=DEVICE)
                progress = memory.slots.follow(progress, parents, memory.tokens.gather(1, slot))
            states = torch.randn(len(sentences), progress.done.shape[1], dimension, device=DEVICE)
            values = torch.randn(*states.shape[:2], VOCABULARY, device=DEVICE)
            mixed = layer.mix(states, Scores(values, -values.logsumexp(dim=2)), memory, progress)
            results.append((mixed.values, mixed.offset, progress))
    (values, offset, progress), (other_values, other_offset, other_progress) = results
    # As probabilities: where nearly everything is copied, the logarithm of the little that is left is mostly rounding.
    torch.testing.assert_close(other_offset.exp(), offset.exp(), atol=1e-6, rtol=1e-5)
    probabilities = (values + offset.unsqueeze(2)).exp()
    torch.testing.assert_close((other_values + other_offset.unsqueeze(2)).exp(), probabilities, atol=5e-6, rtol=1e-5)
    for name in ("running", "done", "used"):
        assert torch.equal(getattr(other_progress, name), getattr(progress, name)), name


@settings(max_examples=40, deadline=None)
@given(SENTENCES, st.sampled_from([24, 128]), st.booleans(), st.integers(0, 99))
@torch.no_grad()
def test_as_much_is_remembered(sentences, dimension, alike, seed):
    torch.manual_seed(seed)
    layer = CopyOutput(ModelConfig(dimension=dimension, heads=2, variant="copy")).to(DEVICE).eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    constraints = constraints_from_ids(sentences, 0, alike).to(DEVICE)
    vectors = torch.randn(len(constraints.target.ids), dimension, device=DEVICE)
    expected = layer.remember(constraints, vectors, torch.empty(0, device=DEVICE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
        layer.join()
        found = layer.remember(constraints, vectors, torch.empty(0, device=DEVICE))
    assert found.vectors is None and expected.vectors is not None  # it was the kernel
    assert torch.equal(found.tokens, expected.tokens) and torch.equal(found.filled, expected.filled)
    for name in ("tokens", "first", "last"):
        assert torch.equal(getattr(found.slots, name), getattr(expected.slots, name)), name
    for name in ("keys", "context"):
        own, other = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(own[found.filled], other[found.filled], atol=1e-5, rtol=1e-5)
        assert (own[~found.filled] == 0).all()  # nothing is left to chance: what is hidden must still be a number
