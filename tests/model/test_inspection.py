"""Attention weights and gates, against what the layers themselves compute from them."""

from __future__ import annotations

import pytest
import torch

from termweave.data.batches import constraints_from_ids
from termweave.model.inspection import inspect

SOURCE = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0], [10, 3, 0, 0]])
INPUT = torch.tensor([[2, 11, 12, 13], [2, 14, 0, 0], [2, 15, 16, 0]])
TARGET = torch.tensor([[11, 12, 13, 3], [14, 3, 0, 0], [15, 16, 3, 0]])
CONSTRAINTS = [[([5], [11, 12]), ([6, 7], [13])], [], [([10], [20])]]


@pytest.mark.parametrize("variant", ["paper", "released", "copy"])
def test_weights_are_shared_between_constraints_and_source(make_model, variant):
    model = make_model(variant=variant)
    seen = inspect(model, SOURCE, INPUT, TARGET, constraints_from_ids(CONSTRAINTS, 0))
    total = seen.constraints.sum(dim=-1) + seen.source.sum(dim=-1)
    torch.testing.assert_close(total, torch.ones_like(total))
    assert seen.source.shape == (3, 2, 2, 4, 4)
    assert (seen.constraints[1] == 0).all()  # no constraints, nothing to look at
    assert (seen.constraints[0].sum(dim=-1) > 0).all()
    assert (seen.source[2, ..., 2:] == 0).all()  # padding
    assert (seen.gates[1] == 0).all()
    assert ((seen.gates[0] > 0) & (seen.gates[0] < 1)).all()


def test_weights_give_what_the_layer_gives(make_model):
    """The attended values of the last layer, from its weights, equal those of its own attention."""
    model = make_model(variant="copy")
    constraints = constraints_from_ids(CONSTRAINTS, 0)
    seen = inspect(model, SOURCE, INPUT, TARGET, constraints)
    caught = {}
    layer = model.decoder[-1].cross_attention
    handle = layer.register_forward_hook(lambda _, arguments, result: caught.update(given=arguments, result=result))
    with torch.no_grad():
        model.decode(INPUT, model.encode(SOURCE, constraints))
    handle.remove()
    values = caught["given"][1].values
    weights = torch.cat([seen.constraints, seen.source], dim=-1)[:, -1]
    attended = layer.output((weights @ values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(attended, caught["result"])


def test_a_vanilla_model_has_no_gates(make_model):
    model = make_model(attention=False, output=False)
    seen = inspect(model, SOURCE, INPUT, TARGET, None)
    assert seen.constraints.shape[-1] == 0
    assert (seen.gates == 0).all()
