"""The loss, by hand, and against padding."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from termweave.training.objective import Objective, score_reference


class FixedModel(torch.nn.Module):
    """Stands in for a Transformer: state i of a row leads to known logits."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.embedding = torch.eye(logits.shape[-1])
        self.vocabulary_bias = None
        self.logits = logits
        self.output = None

    def encode(self, source, constraints):
        return type("Encoded", (), {"output": None})()

    def decode(self, target_input, encoded):
        return self.logits[:, : target_input.shape[1]]


def test_alpha_and_beta_by_a_hand_computed_case(make_batch):
    """Two tokens: P(y_1) = 0.5 inside a constraint (α = 0.8), P(end) = 0.25 outside (β = 0.2), ε = 0.1, |V| = 4."""
    probabilities = torch.tensor([[[0.125, 0.125, 0.5, 0.25], [0.5, 0.125, 0.125, 0.25]]])
    batch = make_batch([[1]], [[2]])
    batch = replace(batch, weights=torch.tensor([[0.8, 0.2]]), weight=1.0)
    loss, likelihood = Objective(FixedModel(probabilities.log()), 0.1)(batch)
    expected_likelihood = -(0.8 * math.log(0.5) + 0.2 * math.log(0.25))
    mean = (2 * math.log(0.125) + math.log(0.5) + math.log(0.25)) / 4  # of each position, over the vocabulary
    assert float(likelihood) == pytest.approx(expected_likelihood, abs=1e-6)
    assert float(loss) == pytest.approx(0.9 * expected_likelihood - 0.1 * mean * (0.8 + 0.2), abs=1e-6)


@pytest.mark.parametrize("variant", ["paper", "released", "copy", "pointer"])
def test_padding_does_not_change_the_loss(make_model, make_batch, variant):
    model = make_model(variant=variant)
    source, target = [[5, 6], [7, 8, 9, 10]], [[11, 12, 13], [14]]
    constraints = [[([5], [11, 12])], [([8, 9], [14])]]
    objective = Objective(model, 0.1)
    losses = []
    for width in (0, 16, 24):
        batch = make_batch(source, target, constraints, width=width)
        weights = batch.weights.clone()
        weights[0, :2] = weights[1, 0] = 0.8
        losses.append(objective(replace(batch, weights=weights))[0].item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[2] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.parametrize("biased", [False, True])
def test_score_reference_is_log_softmax(biased):
    torch.manual_seed(0)
    states, embedding, target = torch.randn(2, 3, 8), torch.randn(20, 8), torch.randint(0, 20, (2, 3))
    bias = torch.randn(20) if biased else None
    at_reference, mean = score_reference(states, embedding, target, bias)
    logs = (states @ embedding.T + (0 if bias is None else bias)).log_softmax(dim=-1)
    torch.testing.assert_close(at_reference, logs.gather(2, target[:, :, None])[:, :, 0])
    torch.testing.assert_close(mean, logs.mean(dim=-1))


def test_compiled_score_reference_has_the_same_values_and_gradients():
    """Compiled, the reference's logit is found in another way."""
    torch.compiler.reset()
    torch.manual_seed(0)
    states, embedding, target = torch.randn(2, 3, 8), torch.randn(20, 8), torch.randint(0, 20, (2, 3))
    found = []
    for function in (score_reference, torch.compile(score_reference, dynamic=True, backend="aot_eager")):
        given = [states.clone().requires_grad_(), embedding.clone().requires_grad_()]
        at_reference, mean = function(*given, target)
        (at_reference.sum() + 0.1 * mean.sum()).backward()
        found.append([at_reference, mean, *(each.grad for each in given)])
    torch.testing.assert_close(found[1], found[0])


def test_smoothing_does_not_touch_the_constraint_mixture(make_model, make_batch):
    """With ε = 1 the loss is the model's own mean log P, whatever the output layer does."""
    model = make_model(variant="copy", attention=False)
    batch = make_batch([[5, 6]], [[11, 12]], [[([5], [11])]])
    plain = replace(batch, constraints=None)
    objective = Objective(model, 1.0)
    assert float(objective(batch)[0]) == pytest.approx(float(objective(plain)[0]), rel=1e-6)
    assert float(objective(batch)[1]) != pytest.approx(float(objective(plain)[1]), rel=1e-3)


@pytest.mark.parametrize("variant", ["paper", "released", "copy", "pointer"])
def test_shapes_that_change_compile_nothing_anew(make_model, make_batch, variant):
    """The first batch is full of sizes that are equal by chance, also to the model's; the later ones are not."""
    torch.compiler.reset()
    objective = Objective(make_model(variant=variant).train(), 0.1)
    objective.compile_parts(backend="eager")
    graphs = []
    for rows, width, phrase in ((16, 16, 3), (12, 24, 3), (7, 16, 9), (24, 40, 12)):
        sentence = [[5 + row % 30] * (width - 1) for row in range(rows)]
        constraints = [[([5], [6] * phrase), ([7] * phrase, [8])] for _ in range(rows)]
        loss, _ = objective(make_batch(sentence, sentence, constraints))
        loss.backward()
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert graphs[0] > 0
    assert graphs == [graphs[0]] * len(graphs)
