"""The product for few rows against torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from termweave.model.products import FEW, MANY, Linear, PackedLinear, RowwiseLinear, linear

SHAPES = pytest.mark.parametrize("shape", [(1, 7), (4, 7), (2, 3, 7), (1, FEW, 7), (1, FEW + 1, 7), (5, 20, 7), (0, 7)])


@SHAPES
@pytest.mark.parametrize("with_bias", [True, False])
@torch.no_grad()
def test_equals_torch(shape, with_bias):
    torch.manual_seed(0)
    states, weight = torch.randn(shape), torch.randn(9, 7)
    bias = torch.randn(9) if with_bias else None
    result = linear(states, weight, bias)
    torch.testing.assert_close(result, F.linear(states, weight, bias))
    assert result.is_contiguous()


@torch.no_grad()
def test_parts_of_tensors_will_do():
    states, weight = torch.randn(2, 7, 3).transpose(1, 2), torch.randn(20, 7)[5:14]
    torch.testing.assert_close(linear(states, weight), F.linear(states, weight))


def test_gradients_flow_in_training():
    layer, reference = Linear(7, 9), nn.Linear(7, 9)
    reference.load_state_dict(layer.state_dict())
    states = torch.randn(4, 7)
    layer(states).sum().backward()
    reference(states).sum().backward()
    torch.testing.assert_close(layer.weight.grad, reference.weight.grad)


@pytest.mark.skipif(not PackedLinear.available(), reason="this build of torch has no oneDNN")
@pytest.mark.parametrize("rows", [0, 1, 4, FEW, FEW + 1, MANY, MANY + 1])
@pytest.mark.parametrize("outputs", [5, 9])
@torch.no_grad()
def test_packed_weights_give_the_same(rows, outputs):
    torch.manual_seed(0)
    weight, bias = torch.randn(outputs, 7), torch.randn(outputs)
    layer = PackedLinear(weight, bias)
    states = torch.randn(1, rows, 7)
    torch.testing.assert_close(layer(states), F.linear(states, weight, bias))
    torch.testing.assert_close(layer.part(states, 1, 4), F.linear(states, weight[1:4], bias[1:4]))
    torch.testing.assert_close(PackedLinear(weight, None)(states), F.linear(states, weight))


@pytest.mark.skipif(not PackedLinear.available(), reason="this build of torch has no oneDNN")
@pytest.mark.parametrize("inputs, outputs", [(512, 512), (512, 1536), (100, 30)])
@torch.no_grad()
def test_a_row_comes_out_the_same_in_any_company(inputs, outputs):
    torch.manual_seed(0)
    weight, bias, states = torch.randn(outputs, inputs), torch.randn(outputs), torch.randn(1000, inputs)
    layer = RowwiseLinear(weight, bias)
    found = layer(states)
    torch.testing.assert_close(found, F.linear(states, weight, bias), rtol=1e-4, atol=1e-4)
    for rows in (*range(1, 70), FEW, MANY, MANY + 1, 511, 999):
        first = rows % 7  # wherever it stands
        assert torch.equal(layer(states[first : first + rows]), found[first : first + rows])
    assert torch.equal(layer.part(states[:1], 5, 25), layer.part(states, 5, 25)[:1])


@pytest.mark.parametrize("variant", ["paper", "released", "copy", "pointer"])
@torch.no_grad()
def test_a_model_ready_for_inference_says_the_same(make_model, make_batch, variant):
    model, ready = make_model(variant=variant), make_model(variant=variant)
    ready.use_precision("float32")
    batch = make_batch([[5, 6], [7]], [[8, 9], [10]], [[([5], [8, 9])], []])
    expected, found = (
        each.log_probabilities(each.decode(batch.target_input, encoded), encoded.output)
        for each in (model, ready)
        for encoded in [each.encode(batch.source, batch.constraints)]
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
