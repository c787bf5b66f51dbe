"""The feed-forward block of inference, which goes by itself, against the same written out."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from termweave.model.layers import FeedForward
from termweave.model.quantised import QuantisedLinear


@pytest.fixture
def config(make_model):
    return make_model().config


@pytest.mark.parametrize("quantised", [False, True])
def test_feed_forward_is_two_products_and_what_is_positive_between(config, quantised):
    torch.manual_seed(0)
    block = FeedForward(config).eval()
    assert block.activation is F.relu
    if quantised:
        block.inner = QuantisedLinear(block.inner.weight, block.inner.bias)
    states = torch.randn(2, 3, config.dimension)
    kept = states.clone()
    with torch.no_grad():
        expected = block.outer(block.inner(states).clamp(min=0))
        torch.testing.assert_close(block(states), expected, rtol=0, atol=0)
    assert torch.equal(states, kept)
    if not quantised:
        block(states).sum().backward()
        assert block.inner.weight.grad is not None
