"""What the alignment module learns, by hand, and that nothing else learns with it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from termweave.data.batches import TokenLinks
from termweave.training.alignment import AlignmentObjective


def linked(batch, links: dict[tuple[int, int, int], float]):
    """links: (row, target, source) → share."""
    width, source_width = batch.target.shape[1], batch.source.shape[1]
    places = [(row * width + target) * source_width + source for row, target, source in links]
    filled = TokenLinks(torch.tensor([*places, 0, 0]), torch.tensor([*links.values(), 0.0, 0.0]))
    return replace(batch, links=filled, weight=1.0)


def test_the_loss_by_hand(make_model, make_batch, monkeypatch):
    """Target 0 is linked to sources 1 and 2 by halves, target 1 to source 0."""
    model = make_model(attention=False, output=False, alignment_layer=1)
    batch = linked(make_batch([[5, 6]], [[7]]), {(0, 0, 1): 0.5, (0, 0, 2): 0.5, (0, 1, 0): 1.0})
    alignment = torch.tensor([[[0.2, 0.5, 0.3], [0.9, 0.1, 0.0]]])
    monkeypatch.setattr(model, "align", lambda target_input, encoded: alignment)
    loss, likelihood = AlignmentObjective(model)(batch)
    expected = -(0.5 * math.log(0.5) + 0.5 * math.log(0.3) + math.log(0.9))
    assert float(loss) == pytest.approx(expected) and float(likelihood) == pytest.approx(expected)


@pytest.mark.parametrize("links", [{(0, 0, 1): 1.0, (1, 2, 0): 1.0}, {}], ids=["linked", "nothing linked"])
def test_only_the_module_has_gradients_and_they_are_finite(make_model, make_batch, links):
    model = make_model(attention=False, output=False, alignment_layer=2, dropout=0.5)
    objective = AlignmentObjective(model).train()
    assert not model.training  # what is frozen is seen without dropout
    batch = linked(make_batch([[5, 6], [9]], [[7], [8, 10]]), links)
    loss, _ = objective(batch)
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == name.startswith("alignment."), name
        assert parameter.grad is None or parameter.grad.isfinite().all()
    if not links:
        assert loss.item() == 0


def test_it_learns_its_links(make_model, make_batch):
    """Each of four words has its own counterpart, in any order: a few steps are enough to find them."""
    torch.manual_seed(0)
    model = make_model(attention=False, output=False, alignment_layer=1, decoder_layers=1)
    source, target = [[5, 6, 7, 8], [8, 7, 6, 5], [6, 5, 8, 7]], [[15, 16, 17, 18]] * 3
    links = {(row, j, source[row].index(5 + j)): 1.0 for row in range(3) for j in range(4)}
    batch, objective = linked(make_batch(source, target), links), AlignmentObjective(model)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
    for _ in range(150):
        optimiser.zero_grad()
        objective(batch)[0].backward()
        optimiser.step()
    found = model.align(batch.target_input, model.encode(batch.source)).argmax(dim=-1)
    assert all(int(found[row, j]) == i for row, j, i in links)
