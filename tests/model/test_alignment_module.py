"""The alignment module: on weights made by hand, in steps and in the full forward, and beside the model."""

from __future__ import annotations

import math

import pytest
import torch

from termweave.config import ModelConfig
from termweave.data.batches import constraints_from_ids
from termweave.errors import ConfigError
from termweave.model.alignment import Alignment
from termweave.model.transformer import constraint_parameters

SOURCE = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0], [10, 3, 0, 0]])
CONSTRAINTS = [[([5, 6], [8, 9])], [], [([21], [11, 12, 13]), ([21], [30])]]
PLAIN = {"attention": False, "output": False}


def test_hand_made_weights():
    """One head as wide as the states. Queries are the states, keys three times the encoder's: the third is hidden."""
    module = Alignment(ModelConfig(dimension=2, heads=1))
    with torch.no_grad():
        for layer, factor in ((module.query, 1.0), (module.key, 3.0)):
            layer.weight.copy_(torch.eye(2) * factor)
            layer.bias.zero_()
    encoded = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    states = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    seen = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    first = 1 / (1 + math.exp(-3 / math.sqrt(2)))
    expected = torch.tensor([[[first, 1 - first, 0.0], [0.5, 0.5, 0.0]]])
    torch.testing.assert_close(module(states, module.keys(encoded), seen), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize(
    "settings", [{**PLAIN, "norm": "pre"}, {**PLAIN, "norm": "post"}, {"variant": "copy"}], ids=["pre", "post", "copy"]
)
@torch.no_grad()
def test_steps_equal_the_full_forward_after_random_reorderings(make_model, settings, layer):
    """Also where keys of constraints stand before those of the source: it looks at the source alone."""
    torch.manual_seed(3)
    model = make_model(alignment_layer=layer, **settings)
    encoded = model.encode(SOURCE, constraints_from_ids(CONSTRAINTS, 0))
    memory = model.decoder_memory(encoded)
    tokens, cache = torch.full((3, 4, 1), 2), model.start_cache(3, 4)
    other = model.start_cache(3, 4)
    for _ in range(5):
        states, alignment = model.step_aligned(tokens[:, :, -1], cache, memory)
        torch.testing.assert_close(model.step(tokens[:, :, -1], other, memory), states)
        assert alignment.shape == (3, 4, 4)
        torch.testing.assert_close(alignment.sum(dim=-1), torch.ones(3, 4))
        for beam in range(4):
            expected = model.align(tokens[:, beam], encoded)[:, -1]
            torch.testing.assert_close(alignment[:, beam], expected, rtol=0, atol=3e-5)
        assert not alignment[SOURCE.eq(0)[:, None].expand(alignment.shape)].any()
        parents = torch.randint(0, 4, (3, 4))
        cache.reorder(parents)
        other.reorder(parents)
        history = tokens.gather(1, parents[:, :, None].expand(tokens.shape))
        tokens = torch.cat([history, torch.randint(4, 40, (3, 4, 1))], dim=2)


@torch.no_grad()
def test_it_looks_on_and_changes_nothing(make_model):
    plain, model = make_model(**PLAIN), make_model(**PLAIN, alignment_layer=1)
    plain.load_state_dict({name: model.state_dict()[name] for name in plain.state_dict()})
    assert constraint_parameters(model) == {
        f"alignment.{part}.{kind}" for part in ("query", "key") for kind in ("weight", "bias")
    }
    given = torch.tensor([[2, 8], [2, 9], [2, 7]])
    assert torch.equal(plain.decode(given, plain.encode(SOURCE)), model.decode(given, model.encode(SOURCE)))
    memory = model.decoder_memory(model.encode(SOURCE))
    rows = torch.tensor([2, 0])
    chosen = model.step_aligned(given[rows, :1], model.start_cache(2, 1), memory.select(rows))[1]
    torch.testing.assert_close(model.step_aligned(given[:, :1], model.start_cache(3, 1), memory)[1][rows], chosen)


def test_impossible_layers_are_refused():
    with pytest.raises(ConfigError, match=r"alignment_layer: must lie between 1 and model.decoder_layers"):
        ModelConfig(alignment_layer=7)
    with pytest.raises(ConfigError, match="alignment_layer: `cdalign` looks for the sources that `pointer` replaces"):
        ModelConfig(alignment_layer=3, variant="pointer")
