"""The three output layers against the equations written out literally."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from termweave.data.batches import constraints_from_ids
from termweave.model.transformer import Transformer

CONSTRAINTS = [[([5], [8, 9]), ([6], [9, 11])], [], [([7, 5], [12])]]


def setting(model: Transformer, length: int = 4):
    torch.manual_seed(1)
    constraints = constraints_from_ids(CONSTRAINTS, 0)
    states = torch.randn(3, length, 16, dtype=model.embedding.dtype)
    memory = model._remember(constraints)
    logits = F.linear(states, model.embedding)
    return states, memory, logits.log_softmax(dim=-1)


@torch.no_grad()
def test_the_separable_gate_equals_the_literal_equation(make_model):
    """g(y,h) = σ(tanh([w_y W1; h W2]) W3), for every token and state, in float64."""
    output = make_model(variant="paper").double().output
    torch.manual_seed(0)
    tokens, states = torch.randn(40, 16).double(), torch.randn(7, 16).double()
    separable = torch.sigmoid(output.token_part(tokens)[None] + output.state_part(states)[:, None])
    for state in range(7):
        for token in range(40):
            joined = torch.cat([output.token_gate(tokens[token]), output.state_gate(states[state])])
            literal = torch.sigmoid(output.gate(torch.tanh(joined)))[0]
            assert abs(float(literal - separable[state, token])) < 1e-12


@torch.no_grad()
def test_paper_equals_the_equations(make_model):
    model = make_model(variant="paper").double()
    states, memory, plain = setting(model)
    mixed = model.output.over_vocabulary(states, plain, memory)
    allowed = [{8, 9, 11}, set(), {12}]
    for row in (0, 2):
        for place in range(4):
            for token in range(40):
                vector, state = model.embedding[token], states[row, place]
                gate = torch.sigmoid(model.output.token_part(vector) + model.output.state_part(state))
                cosine = F.cosine_similarity(vector, state, dim=0)
                plug = max(0.0, float(cosine)) if token in allowed[row] else 0.0
                expected = (1 - gate) * plain[row, place, token].exp() + gate * plug
                assert float(mixed[row, place, token].exp()) == pytest.approx(float(expected), abs=1e-9)


def test_released_plugs_the_one_best_token(make_model):
    model = make_model(variant="released").double()
    states, memory, plain = setting(model)
    mixed = model.output.over_vocabulary(states, plain, memory).exp()
    added = mixed - plain.exp()
    assert ((added.abs() > 1e-9).sum(dim=-1) <= 1).all()
    for place in range(4):
        cosine = F.cosine_similarity(model.embedding[[8, 9, 11]], states[0, place][None], dim=1)
        if cosine.max() > 0:
            best = [8, 9, 11][int(cosine.argmax())]
            assert added[0, place, best] > 0
            gate = added[0, place, best] / cosine.max()
            assert 0 < gate <= 1


def test_released_blanks_what_was_produced(make_model):
    model = make_model(variant="released").double()
    states, memory, plain = setting(model)
    prefix = torch.tensor([[[8, 9, 11]] * 4, [[8, 9, 11]] * 4, [[30, 30, 12]] * 4])
    mixed = model.output.over_vocabulary(states, plain, memory, prefix)
    torch.testing.assert_close(mixed, plain.clamp(min=torch.tensor(1e-12).log().item()))


def test_copy_is_a_distribution(make_model):
    model = make_model(variant="copy")
    states, memory, plain = setting(model)
    mixed = model.output.over_vocabulary(states, plain, memory)
    torch.testing.assert_close(mixed.exp().sum(dim=-1), torch.ones(3, 4), rtol=0, atol=1e-5)
    ratio = (mixed - plain)[0]
    # All tokens outside the constraints keep their proportions; those inside gain.
    others = [token for token in range(40) if token not in (8, 9, 11)]
    assert ratio[:, others].std(dim=-1).max() < 1e-5
    assert (ratio[:, [8, 9, 11]] > ratio[:, :1]).all()


def test_copy_adds_the_shares_of_a_token_that_stands_twice(make_model):
    """Token 9 stands in both constraints of the first sentence."""
    model = make_model(variant="copy").double()
    states, memory, plain = setting(model)
    marks = memory.slots.marks_after(torch.zeros(3, 4, 0, dtype=torch.long))
    shares, rest = model.output._shares(states, memory, marks)
    mixed = model.output.over_vocabulary(states, plain, memory)
    slots = memory.tokens[0] == 9
    assert int(slots.sum()) == 2
    expected = rest[0, :, 0] * plain[0, :, 9].exp() + shares[0][:, slots].sum(dim=-1)
    torch.testing.assert_close(mixed[0, :, 9].exp(), expected)


@torch.no_grad()
@pytest.mark.parametrize("variant", ["paper", "released", "copy"])
def test_the_loss_sees_what_decoding_sees(make_model, variant):
    """log P at the reference equals log P over the vocabulary, looked up at the reference.

    `released` alone differs by design: only while decoding does it blank what was produced.
    """
    model = make_model(variant=variant).double()
    with torch.no_grad():
        for name, parameter in model.output.named_parameters():
            if "mark" in name or "null" in name:
                parameter.normal_()  # what starts at zero must be seen too
    states, memory, plain = setting(model, length=5)
    targets = torch.tensor([[9, 11, 8, 9, 9], [9, 9, 9, 9, 9], [12, 12, 30, 12, 8]])
    model_at = plain.gather(2, targets[:, :, None])[:, :, 0]
    at_reference = model.output.at_reference(states, model_at, targets, memory, model.embedding)
    for place in range(5):
        prefix = None if variant == "released" else targets[:, None, :place]
        full = model.output.over_vocabulary(states[:, place : place + 1], plain[:, place : place + 1], memory, prefix)
        expected = full[:, 0].gather(1, targets[:, place : place + 1])[:, 0]
        torch.testing.assert_close(at_reference[:, place], expected, rtol=0, atol=1e-7)


@torch.no_grad()
def test_copy_depends_on_what_was_produced(make_model):
    """The same state proposes something else once a constraint has begun, and again when it is done."""
    model = make_model(variant="copy").double()
    torch.nn.init.normal_(model.output.mark_keys)
    torch.nn.init.normal_(model.output.null)
    states, memory, plain = setting(model, length=1)
    outputs = [torch.tensor([[produced]] * 3) for produced in ([30, 30], [30, 8], [8, 9])]
    mixed = [model.output.over_vocabulary(states, plain, memory, output) for output in outputs]
    assert not torch.allclose(mixed[0][0], mixed[1][0])
    assert not torch.allclose(mixed[1][0], mixed[2][0])
    torch.testing.assert_close(mixed[0][1], mixed[2][1])  # no constraints, no difference


@torch.no_grad()
@pytest.mark.parametrize("variant", ["paper", "released", "copy"])
def test_scores_are_the_log_probabilities(make_model, variant):
    """Values and offset, and single tokens of them, against the distribution written out."""
    model = make_model(variant=variant)
    states, memory, _ = setting(model)
    prefix = torch.tensor([[[30, 8]] * 4, [[8, 9]] * 4, [[12, 12]] * 4])
    progress = memory.slots.after(prefix) if memory.slots else None
    scores = model.scores(states, memory, progress)
    expected = model.log_probabilities(states, memory, prefix)
    torch.testing.assert_close(scores.log_probabilities(), expected, rtol=0, atol=1e-5)
    tokens = torch.tensor([8, 9, 11, 12]).expand(3, 4, 4)
    torch.testing.assert_close(scores.at(tokens), expected.gather(2, tokens), rtol=0, atol=1e-5)
    plain = model.scores(states, None, None)
    torch.testing.assert_close(scores.log_probabilities()[1], plain.log_probabilities()[1], rtol=0, atol=1e-6)
