"""The compiled loops of `copy` against the tensor operations they stand in for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.config import ModelConfig
from termweave.data.batches import constraints_from_ids
from termweave.decoding.candidates import chunk_maxima
from termweave.model import attention_loops
from termweave.model.output import CopyOutput, Scores
from termweave.model.score_loops import CHUNK

VOCABULARY = 12
APART = 50  # tokens of a large vocabulary, so that they stand in several chunks
TOKENS = st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=3)
SENTENCES = st.lists(st.lists(st.tuples(TOKENS, TOKENS), max_size=4), min_size=1, max_size=3).filter(any)


@settings(max_examples=150, deadline=None)
@given(
    SENTENCES,
    st.sampled_from([8, 20]),
    st.integers(1, 4),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from([1, 15]),  # of the model's scores: far apart, one of two that are added is as good as nothing
    st.sampled_from([1, APART]),
    st.booleans(),
    st.integers(0, 99),
)
@torch.inference_mode()
def test_the_loops_do_what_the_tensors_do(sentences, dimension, beam, steps, joined, scale, apart, halved, seed):
    """apart: between tokens of the constraints; halved: are they kept in half precision?"""
    torch.manual_seed(seed)
    vocabulary = VOCABULARY * apart
    assert (vocabulary > 4 * CHUNK) == (apart == APART)
    sentences = [[tuple([own * apart for own in side] for side in pair) for pair in row] for row in sentences]
    layer = CopyOutput(ModelConfig(dimension=dimension, heads=2, variant="copy")).eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    if joined:
        layer.join()
    constraints = constraints_from_ids(sentences, 0)
    vectors = torch.randn(len(constraints.target.ids), dimension)
    memory = layer.remember(constraints, vectors, torch.empty(0))
    if halved:
        memory = replace(memory, keys=memory.keys.half(), context=memory.context.half())
    assert memory.slots is not None
    progress = memory.slots.after(apart * torch.randint(VOCABULARY, (len(sentences), beam, steps)))
    states = 3 * torch.randn(len(sentences), beam, dimension)
    logits = scale * torch.randn(len(sentences), beam, vocabulary)
    offset = -logits.logsumexp(dim=2)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for threads in (0, torch.get_num_threads()):
            patch.setattr(attention_loops, "MOST_THREADS", threads)
            scores = Scores(logits.clone(), offset.clone(), chunk_maxima(logits))
            found[threads] = layer.mix(states, scores, memory, progress)
    expected, mixed = found.values()
    torch.testing.assert_close(mixed.log_probabilities(), expected.log_probabilities(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mixed.log_probabilities().exp().sum(dim=2), torch.ones(len(sentences), beam))
    assert mixed.maxima is not None and torch.equal(mixed.maxima, chunk_maxima(mixed.values))
    for row, constraints_of_row in enumerate(sentences):
        if not constraints_of_row:  # exactly the model's
            assert torch.equal(mixed.values[row], logits[row]) and torch.equal(mixed.offset[row], offset[row])


@settings(max_examples=50, deadline=None)
@given(SENTENCES, st.integers(0, 99))
@torch.inference_mode()
def test_joined_products_of_tokens_are_those_of_slots(sentences, seed):
    torch.manual_seed(seed)
    layer = CopyOutput(ModelConfig(dimension=8, heads=2, variant="copy")).eval()
    constraints = constraints_from_ids(sentences, 0)
    side = constraints.target
    vectors = torch.randn(VOCABULARY, 8)[side.ids] + torch.randn(3, 8)[side.positions]
    expected = layer.remember(constraints, vectors, torch.empty(0))
    layer.join()
    found = layer.remember(constraints, vectors, torch.empty(0))
    assert torch.equal(found.filled, expected.filled) and torch.equal(found.tokens, expected.tokens)
    for own, other in ((found.keys, expected.keys), (found.context, expected.context)):
        torch.testing.assert_close(own[found.filled], other[found.filled], rtol=1e-5, atol=1e-5)
