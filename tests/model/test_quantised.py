"""Weights of eight bits against arithmetic written out, and against the weights they stand for."""

from __future__ import annotations

import warnings

import pytest
import torch

from termweave.data.batches import constraints_from_ids
from termweave.model import quantised
from termweave.model.products import Linear, replace_linear
from termweave.model.quantised import QuantisedLinear

CONSTRAINTS = [[([5], [8, 9])], [], [([7, 5], [12])]]


def literal_product(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """States as integers of seven bits with one scale and zero point, weights of eight with one scale an output."""
    low, high = min(float(states.min()), 0.0), max(float(states.max()), 0.0)
    step = (high - low) / 127
    integers = ((states / step).round() - round(low / step)).clamp(0, 127) + round(low / step)
    scales = weight.abs().amax(dim=1, keepdim=True) / 127
    return (integers * step) @ ((weight / scales).round() * scales).T


@torch.no_grad()
def test_equals_the_product_of_integers():
    torch.manual_seed(0)
    states, weight, bias = torch.randn(6, 32), torch.randn(24, 32), torch.randn(24)
    layer = QuantisedLinear(weight, bias)
    expected = literal_product(states, weight) + bias
    # One state may be rounded to the other side.
    torch.testing.assert_close(layer(states), expected, rtol=0, atol=0.2)
    assert (layer(states) - expected).abs().mean() < 0.01
    torch.testing.assert_close(layer.part(states, 8, 20), layer(states)[:, 8:20], rtol=0, atol=1e-6)


@torch.no_grad()
def test_a_product_with_a_vocabulary_is_the_same_by_another_engine(monkeypatch):
    torch.manual_seed(0)
    usual = torch.backends.quantized.engine
    states, weight, bias = torch.randn(6, 32), torch.randn(quantised.MANY + 5, 32), torch.randn(quantised.MANY + 5)
    found = QuantisedLinear(weight, bias)(states)
    assert torch.backends.quantized.engine == usual
    expected = literal_product(states, weight) + bias
    torch.testing.assert_close(found, expected, rtol=0, atol=0.2)
    assert (found - expected).abs().mean() < 0.01
    monkeypatch.setattr(quantised, "MANY", 10**9)
    torch.testing.assert_close(QuantisedLinear(weight, bias)(states), found, rtol=0, atol=1e-4)


def test_weights_are_off_by_half_a_step_at_most():
    torch.manual_seed(0)
    weight = torch.randn(24, 32)
    weight[3] = 0.0  # an output without any weight has no scale
    layer = QuantisedLinear(weight, None)
    steps = weight.abs().amax(dim=1, keepdim=True) / 127
    assert ((layer.weight - weight).abs() <= steps / 2 + 1e-6).all()
    assert layer(torch.randn(2, 5, 32))[:, :, 3].abs().max() == 0


def test_every_linear_layer_is_replaced_and_nothing_is_said(make_model):
    model = make_model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replace_linear(model.decoder, QuantisedLinear)
        model.decoder[0].feed_forward(torch.randn(2, 16))
    assert not any(isinstance(module, Linear) for module in model.decoder.modules())
    assert any(isinstance(module, Linear) for module in model.encoder.modules())


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
@pytest.mark.parametrize("variant", ["paper", "released", "copy", "pointer"])
@torch.no_grad()
def test_the_distribution_stays_near(make_model, variant, precision):
    source = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0], [7, 5, 3, 0]])
    given = torch.tensor([[2, 8, 9, 11], [2, 20, 21, 22], [2, 12, 30, 31]])
    constraints = constraints_from_ids(CONSTRAINTS, 0)

    def distribution(model):
        encoded = model.encode(source, constraints)
        return model.log_probabilities(model.decode(given, encoded), encoded.output).exp()

    exact, model = make_model(variant=variant), make_model(variant=variant)
    model.use_precision(precision)
    distance = (distribution(model) - distribution(exact)).abs().sum(dim=-1)
    assert 0 < float(distance.max()) < 0.25
