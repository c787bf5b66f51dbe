"""The whole model: padding, missing constraints, steps against the full forward, parity with torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from termweave.config import ModelConfig
from termweave.data.batches import constraints_from_ids, lay_out_constraints
from termweave.model.transformer import Transformer, constraint_parameters
from termweave.training.objective import Objective

VARIANTS = pytest.mark.parametrize("variant", ["paper", "released", "copy"])
ALL_VARIANTS = pytest.mark.parametrize("variant", ["paper", "released", "copy", "pointer"])
SOURCES = [[5, 6, 7, 10], [14, 15, 16, 17, 18, 19, 20], [21]]
TARGETS = [[8, 9, 20], [22], [11, 12, 13, 30, 31]]
CONSTRAINTS = [[([5, 6], [8, 9])], [], [([21], [11, 12, 13]), ([21], [30])]]


def distribution(model, batch):
    encoded = model.encode(batch.source, batch.constraints)
    return model.log_probabilities(model.decode(batch.target_input, encoded), encoded.output)


@ALL_VARIANTS
def test_padded_equals_unpadded(make_model, make_batch, variant):
    model = make_model(variant=variant)
    together = distribution(model, make_batch(SOURCES, TARGETS, CONSTRAINTS, width=12))
    for row, (source, target, constraints) in enumerate(zip(SOURCES, TARGETS, CONSTRAINTS, strict=True)):
        alone = distribution(model, make_batch([source], [target], [constraints]))
        torch.testing.assert_close(together[row, : len(target) + 1], alone[0], rtol=0, atol=2e-5)


@VARIANTS
def test_without_constraints_the_distribution_is_vanilla(make_model, make_batch, variant):
    model = make_model(variant=variant)
    vanilla = make_model(attention=False, output=False, variant=variant)
    vanilla.load_state_dict({name: model.state_dict()[name] for name in vanilla.state_dict()})
    expected = distribution(vanilla, make_batch(SOURCES, TARGETS))
    assert torch.equal(distribution(model, make_batch(SOURCES, TARGETS)), expected)
    # A sentence without constraints beside one that has some: masked keys weigh exactly nothing.
    mixed = distribution(model, make_batch(SOURCES, TARGETS, CONSTRAINTS))
    torch.testing.assert_close(mixed[1], expected[1], rtol=0, atol=1e-6)
    assert (mixed[0] - expected[0]).abs().max() > 1e-3


@pytest.mark.parametrize(("attention", "output"), [(True, False), (False, True)])
@VARIANTS
def test_each_ablation_alone_changes_the_distribution(make_model, make_batch, variant, attention, output):
    model = make_model(variant=variant, attention=attention, output=output)
    batch, plain = make_batch(SOURCES, TARGETS, CONSTRAINTS), make_batch(SOURCES, TARGETS)
    assert (distribution(model, batch)[0] - distribution(model, plain)[0]).abs().max() > 1e-4


@ALL_VARIANTS
def test_an_all_empty_batch_has_finite_loss_and_gradients(make_model, make_batch, variant):
    model = make_model(variant=variant).train()
    nothing = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    constraints = lay_out_constraints(nothing, nothing, np.zeros(3, dtype=np.int64), 0)
    batch = make_batch(SOURCES, TARGETS)
    batch = type(batch)(**{**vars(batch), "constraints": constraints})
    loss, _ = Objective(model, 0.1)(batch)
    loss.backward()
    assert loss.isfinite()
    # Every parameter takes part, also those with nothing to do: distributed training relies on it.
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


@ALL_VARIANTS
@torch.no_grad()
def test_steps_equal_the_full_forward_after_random_reorderings(make_model, variant):
    """Hypotheses of three sentences, beam 4; after each step every beam is reordered at random, as a search does."""
    torch.manual_seed(3)
    model = make_model(variant=variant)
    source = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0], [10, 3, 0, 0]])
    constraints = constraints_from_ids(CONSTRAINTS, 0)
    encoded = model.encode(source, constraints)
    memory = model.decoder_memory(encoded)
    tokens = torch.full((3, 4, 1), 2)
    cache = model.start_cache(3, 4)
    for _ in range(6):
        states = model.step(tokens[:, :, -1], cache, memory)
        parents = torch.randint(0, 4, (3, 4))
        cache.reorder(parents)
        states = states.gather(1, parents[:, :, None].expand(states.shape))
        history = tokens.gather(1, parents[:, :, None].expand(tokens.shape))
        stepped = model.log_probabilities(states, memory.output)
        for beam in range(4):
            full = model.decode(history[:, beam], encoded)[:, -1:]
            expected = model.log_probabilities(full, encoded.output)[:, 0]
            torch.testing.assert_close(stepped[:, beam], expected, rtol=0, atol=3e-5)
        tokens = torch.cat([history, torch.randint(4, 40, (3, 4, 1))], dim=2)


@torch.no_grad()
def test_a_selected_memory_is_that_of_the_sentences_alone(make_model, make_batch):
    model = make_model()
    batch = make_batch(SOURCES, TARGETS, CONSTRAINTS)
    memory = model.decoder_memory(model.encode(batch.source, batch.constraints))
    rows = torch.tensor([2, 0])
    tokens = torch.full((3, 2), 2)
    states = model.step(tokens, model.start_cache(3, 2), memory)
    chosen = model.step(tokens[rows], model.start_cache(2, 2), memory.select(rows))
    torch.testing.assert_close(states[rows], chosen)
    torch.testing.assert_close(
        model.log_probabilities(states, memory.output)[rows],
        model.log_probabilities(chosen, memory.select(rows).output),
    )


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_agree_with_torch(make_model, norm):
    """Encoder and decoder layers against torch's own, with the same weights."""
    model = make_model(attention=False, output=False, norm=norm)
    settings = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre"}
    ours, theirs = model.encoder[0], nn.TransformerEncoderLayer(16, 2, 24, **settings).eval()
    copy_attention(ours.attention, theirs.self_attn)
    copy_rest(ours, theirs, ["attention", "feed_forward"])
    states = torch.randn(3, 5, 16)
    seen = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    with torch.no_grad():
        mine = ours(states, seen[:, None, None], None)
        expected = theirs(states, src_key_padding_mask=~seen)
    torch.testing.assert_close(mine[seen], expected[seen], rtol=0, atol=1e-5)

    layer, reference = model.decoder[0], nn.TransformerDecoderLayer(16, 2, 24, **settings).eval()
    copy_attention(layer.self_attention, reference.self_attn)
    copy_attention(layer.cross_attention, reference.multihead_attn)
    copy_rest(layer, reference, ["self_attention", "cross_attention", "feed_forward"])
    target = torch.randn(3, 4, 16)
    with torch.no_grad():
        mine = layer(target, states, seen[:, None, None], None)
        causal = nn.Transformer.generate_square_subsequent_mask(4)
        expected = reference(target, states, tgt_mask=causal, memory_key_padding_mask=~seen)
    torch.testing.assert_close(mine, expected, rtol=0, atol=1e-5)


def copy_attention(ours, theirs):
    theirs.in_proj_weight.data = ours.input.weight.data.clone()
    theirs.in_proj_bias.data = ours.input.bias.data.clone()
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_rest(ours, theirs, sublayers):
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for number, name in enumerate(sublayers, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(getattr(ours, f"{name}_residual").norm.state_dict())


def test_constraint_keys_and_values_follow_the_equations(make_model):
    """Layer by layer, one constraint: W_k·adapt(K_c) and W_v·adapt(V_c), written out with single products."""
    model = make_model(variant="paper")
    tensors = constraints_from_ids([[([5, 6, 7], [8, 9])]], 0)
    vectors = model.vectorise(tensors)
    extra = model._extra(tensors, model.constraint_memory, model._embed_constraints(tensors))
    attentions = [layer.attention for layer in model.encoder] + [layer.cross_attention for layer in model.decoder]
    adapters = model.constraint_memory.adapters
    for layer, attention in enumerate(attentions):
        for which, given in enumerate((vectors.keys[:3], vectors.values[:3])):
            inner = torch.relu(given @ adapters.inner_weight[layer, which] + adapters.inner_bias[layer, which])
            adapted = inner @ adapters.outer_weight[layer, which] + adapters.outer_bias[layer, which]
            rows = slice(16 * (which + 1), 16 * (which + 2))
            expected = adapted @ attention.input.weight[rows].T + attention.input.bias[rows]
            mine = extra[layer][which][0, :, :3].transpose(0, 1).flatten(1)
            torch.testing.assert_close(mine, expected, rtol=0, atol=1e-5)


def test_constraint_parameters_have_the_size_the_design_states():
    """About 15M parameters with 6+6 layers of width 512, as many as two more layers on each side would have."""
    with torch.device("meta"):
        sizes = {}
        for variant in ("paper", "released", "copy"):
            model = Transformer(ModelConfig(variant=variant), 32000, 0)
            names = constraint_parameters(model)
            sizes[variant] = sum(p.numel() for name, p in model.named_parameters() if name in names)
        plain = Transformer(ModelConfig(attention=False, output=False), 32000, 0)
    assert all(13.5e6 < size < 15.5e6 for size in sizes.values()), sizes
    assert constraint_parameters(plain) == set()
    assert names == {name for name, _ in model.named_parameters()} - {name for name, _ in plain.named_parameters()}
