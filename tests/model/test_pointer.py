"""The pointer on hand-made attention, where the right distribution is known, and in the whole model."""

from __future__ import annotations

import math

import pytest
import torch

from termweave.config import ModelConfig
from termweave.model.attention import mean_weights
from termweave.model.layers import DecoderLayer
from termweave.model.output import Scores
from termweave.model.pointer import PointerOutput, PointingLayer
from termweave.model.transformer import Transformer, constraint_parameters

SOURCE = torch.tensor([[7, 8, 7, 3], [9, 3, 0, 0]])
TARGET = torch.tensor([[8, 7, 3], [9, 5, 3]])
GIVEN = torch.tensor([[2, 8, 7], [2, 9, 5]])


def log_odds(share: float) -> float:
    return math.log(share / (1 - share))


def hand_made() -> tuple[PointerOutput, torch.Tensor, torch.Tensor]:
    """Vocabulary of 10, d = 2. States of one position each: p = 0.25 and p = 0.9; the model says 0.1 everywhere."""
    layer = PointerOutput(ModelConfig(dimension=2, heads=1, variant="pointer"))
    states = torch.tensor(
        [
            [[0.0, 0.0, log_odds(0.25), 0.2, 0.5, 0.2, 0.1]],
            [[0.0, 0.0, log_odds(0.9), 0.4, 0.6, 0.0, 0.0]],
        ]
    )
    return layer, states, torch.full((2, 1, 10), math.log(0.1))


def test_a_hand_computed_mixture():
    """The first source is 7 8 7 end: 7 gets the attention of both its places."""
    layer, states, model = hand_made()
    memory = layer.remember_source(SOURCE, padding=0)
    mixed = layer.over_vocabulary(states, model, memory).exp()
    first, second = [0.25 * 0.1] * 10, [0.9 * 0.1] * 10
    for token, share in {7: 0.2 + 0.2, 8: 0.5, 3: 0.1}.items():
        first[token] += 0.75 * share
    for token, share in {9: 0.4, 3: 0.6}.items():
        second[token] += 0.1 * share
    torch.testing.assert_close(mixed, torch.tensor([[first], [second]]), rtol=0, atol=1e-6)
    assert layer.gates(states, TARGET[:, :1], memory, torch.empty(10, 2)).flatten().tolist() == pytest.approx(
        [0.75, 0.1]
    )


@pytest.mark.parametrize("tokens", [[7, 9], [8, 3], [3, 0], [1, 7]])
def test_the_loss_sees_the_same_mixture(tokens):
    layer, states, model = hand_made()
    memory = layer.remember_source(SOURCE, padding=0)
    target = torch.tensor(tokens)[:, None]
    expected = layer.over_vocabulary(states, model, memory).gather(2, target[:, :, None])[:, :, 0]
    found = layer.at_reference(states, model[:, :, 0], target, memory, torch.empty(10, 2))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_an_open_gate_leaves_the_model_as_it_is():
    """p = 1 is the vanilla distribution, whatever the attention."""
    layer, states, model = hand_made()
    states[..., 2] = 60.0
    mixed = layer.over_vocabulary(states, model, layer.remember_source(SOURCE, padding=0))
    torch.testing.assert_close(mixed, model, rtol=0, atol=1e-6)


def test_the_gate_is_made_from_the_token_before_and_the_state():
    layer, _, _ = hand_made()
    with torch.no_grad():
        layer.gate.weight.copy_(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
        layer.gate.bias.fill_(0.5)
    hidden, before = torch.tensor([[[0.1, 0.2]]]), torch.tensor([[[10.0, 20.0]]])
    states = layer.complete(hidden, torch.tensor([[[0.3, 0.7]]]), before)
    torch.testing.assert_close(states, torch.tensor([[[0.1, 0.2, 10 + 40 + 0.3 + 0.8 + 0.5, 0.3, 0.7]]]))


def test_mean_weights_of_two_heads():
    """Head 1 looks at the first key alone, head 2 at both alike; the third is hidden. Either form of the mask."""
    queries = torch.tensor([[[[20.0]], [[0.0]]]])
    keys = torch.tensor([[[[2.0], [-2.0], [50.0]], [[1.0], [1.0], [9.0]]]])
    seen = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    for mask in (seen, torch.zeros(1, 1, 1, 3).masked_fill(~seen, float("-inf"))):
        weights = mean_weights(queries, keys, mask)
        torch.testing.assert_close(weights, torch.tensor([[[0.75, 0.25, 0.0]]]), rtol=0, atol=1e-6)


@torch.no_grad()
def test_p_sums_to_one_and_the_scores_are_the_distribution(make_model):
    model = make_model(variant="pointer")
    encoded = model.encode(SOURCE)
    states = model.decode(GIVEN, encoded)
    mixed = model.log_probabilities(states, encoded.output)
    torch.testing.assert_close(mixed.exp().sum(dim=-1), torch.ones(2, 3), rtol=0, atol=1e-5)
    scores = model.scores(states, encoded.output, None)
    assert isinstance(scores, Scores)
    torch.testing.assert_close(scores.log_probabilities(), mixed, rtol=0, atol=1e-5)
    # Tokens that stand in no source keep their proportions, those that do gain.
    plain = model.log_probabilities(states, None)
    others = [token for token in range(40) if token not in SOURCE]
    assert (mixed - plain)[..., others].std(dim=-1).max() < 1e-5
    assert ((mixed - plain)[0, :, [7, 8, 3]] > (mixed - plain)[0, :, :1]).all()


@torch.no_grad()
def test_what_it_points_with_is_the_last_layers_attention(make_model):
    """The mixture, written out from the attention that `inspect` works out by itself."""
    from termweave.model.inspection import inspect

    model = make_model(variant="pointer")
    seen = inspect(model, SOURCE, GIVEN, TARGET, None)
    looks = seen.source[:, -1].mean(dim=1)  # over the heads
    encoded = model.encode(SOURCE)
    states = model.decode(GIVEN, encoded)
    plain = model.log_probabilities(states, None).exp()
    before = model.embed(GIVEN, None)
    share = torch.sigmoid(model.output.gate(torch.cat([before, states[..., :16]], dim=-1)))
    pointed = torch.zeros_like(plain).scatter_add(2, SOURCE[:, None].expand(looks.shape), looks)
    expected = share * plain + (1 - share) * pointed
    torch.testing.assert_close(model.log_probabilities(states, encoded.output).exp(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(seen.gates, 1 - share[..., 0], rtol=0, atol=1e-6)
    assert seen.constraints.shape[-1] == 0


def test_it_is_the_one_transformer_with_a_gate_more(make_model):
    model = make_model(variant="pointer")
    plain = make_model(variant="pointer", attention=False, output=False)
    assert isinstance(model.decoder[-1], PointingLayer) and type(plain.decoder[-1]) is DecoderLayer
    assert constraint_parameters(model) == {"output.gate.weight", "output.gate.bias"}
    assert {name for name, _ in plain.named_parameters()} == {
        name for name, _ in model.named_parameters() if not name.startswith("output.")
    }
    only_replaced = make_model(variant="pointer", output=False)
    assert only_replaced.output is None and only_replaced.constraint_memory is None
    with torch.no_grad():
        plain.load_state_dict({name: model.state_dict()[name] for name in plain.state_dict()})
        states, expected = (each.decode(GIVEN, each.encode(SOURCE)) for each in (model, plain))
        assert torch.equal(states[..., :16], expected)  # h itself is that of a vanilla model


@torch.no_grad()
def test_a_selected_memory_is_that_of_the_sentences_alone(make_model):
    model: Transformer = make_model(variant="pointer")
    memory = model.decoder_memory(model.encode(SOURCE))
    rows = torch.tensor([1])
    tokens = torch.full((2, 3), 2)
    states = model.step(tokens, model.start_cache(2, 3), memory)
    chosen = model.step(tokens[rows], model.start_cache(1, 3), memory.select(rows))
    torch.testing.assert_close(
        model.log_probabilities(states, memory.output)[rows],
        model.log_probabilities(chosen, memory.select(rows).output),
    )
