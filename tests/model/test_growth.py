"""A model that is made deeper translates as before, and can learn in its new layers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from termweave.config import ModelConfig
from termweave.errors import CheckpointError
from termweave.model.growth import deepened
from termweave.model.transformer import Transformer

SHALLOW = ModelConfig(
    dimension=16,
    heads=2,
    encoder_layers=2,
    decoder_layers=3,
    feed_forward=24,
    dropout=0.0,
    attention=False,
    output=False,
)
DEEP = dataclasses.replace(SHALLOW, encoder_layers=4, decoder_layers=8)
SOURCE = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]])
TARGET = torch.tensor([[1, 11, 12], [1, 13, 14]])


def made(config: ModelConfig, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(config, vocabulary=20, padding=0)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):  # they begin as zeros, which would hide that they are forgotten
            torch.nn.init.normal_(weight, std=0.3)
    return model


def grown(config: ModelConfig) -> Transformer:
    model = made(config, seed=1)
    weights = deepened(made(SHALLOW).state_dict(), SHALLOW, config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(name.startswith("output.") for name in missing)
    return model


def states(model: Transformer) -> Tensor:
    return model.decode(TARGET, model.encode(SOURCE))


def test_it_translates_as_before():
    before, after = states(made(SHALLOW)), states(grown(DEEP))
    assert torch.allclose(before, after, atol=1e-6)
    assert not torch.allclose(before, states(made(DEEP)), atol=1e-2)


def test_new_layers_learn():
    """All of their results have a gradient, or they would stay silent for ever."""
    model = grown(DEEP)
    states(model).square().sum().backward()
    for side, new in (("encoder", range(1, 3)), ("decoder", range(2, 7))):
        results = [
            weight.grad
            for name, weight in model.named_parameters()
            if name.startswith(tuple(f"{side}.{index}." for index in new))
            and name.endswith(("output.weight", "outer.weight"))
        ]
        assert len(results) == len(new) * (2 if side == "encoder" else 3)
        assert all(float(gradient.abs().max()) > 0 for gradient in results)


def test_new_layers_stand_before_the_last_one_and_differ():
    weights = deepened(made(SHALLOW).state_dict(), SHALLOW, DEEP)
    own = made(SHALLOW).state_dict()
    inner = [weights[f"decoder.{index}.feed_forward.inner.weight"] for index in range(8)]
    expected = [own[f"decoder.{index}.feed_forward.inner.weight"] for index in (0, 1, 1, 2, 0, 1, 2, 2)]
    assert all(torch.equal(found, wanted) for found, wanted in zip(inner, expected, strict=True))
    outer = [bool(weights[f"decoder.{index}.feed_forward.outer.weight"].any()) for index in range(8)]
    assert outer == [True, True, False, False, False, False, False, True]


def test_the_pointer_looks_through_a_layer_that_has_learned():
    pointer = dataclasses.replace(DEEP, attention=True, output=True, variant="pointer")
    plain = dataclasses.replace(SHALLOW, attention=True, output=True, variant="pointer")
    before = made(plain)
    before.load_state_dict(made(SHALLOW).state_dict(), strict=False)
    after = grown(pointer)
    after.load_state_dict(
        {name: weight for name, weight in before.state_dict().items() if "gate" in name}, strict=False
    )
    assert torch.allclose(states(before), states(after), atol=1e-6)  # with the attention behind h


def test_what_is_as_deep_stays_as_it_is():
    weights = made(SHALLOW).state_dict()
    same = deepened(weights, SHALLOW, dataclasses.replace(SHALLOW, dropout=0.3))
    assert same.keys() == weights.keys()
    assert all(same[name] is weight for name, weight in weights.items())


@pytest.mark.parametrize(
    ("found", "wanted"),
    [(DEEP, SHALLOW), (dataclasses.replace(SHALLOW, norm="post"), dataclasses.replace(DEEP, norm="post"))],
)
def test_layers_cannot_be_taken_away_or_added_behind_a_norm(found, wanted):
    with pytest.raises(CheckpointError, match="only layers can be added"):
        deepened(made(found).state_dict(), found, wanted)


def test_a_model_that_sees_constraints_cannot_grow():
    seeing = dataclasses.replace(SHALLOW, attention=True)
    with pytest.raises(CheckpointError, match="start from its stage 1"):
        deepened(made(seeing).state_dict(), seeing, dataclasses.replace(seeing, encoder_layers=4))
