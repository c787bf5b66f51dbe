"""The kernels for attention over [constraints; sentence], against torch. Without a GPU, Triton interprets them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_attention_kernels import DEVICE, HEADS, TYPES, with_kernels

from termweave import accelerators
from termweave.data.batches import constraints_from_ids
from termweave.model import encoder_kernels
from termweave.model.attention import KeysValues, attend
from termweave.model.vectors import FlatKeysValues, Vectorisation, attend_with_constraints, with_constraints

WIDTHS = st.sampled_from([16, 32, 64])
CLOSE = {torch.float32: {"atol": 1e-5, "rtol": 1e-5}, torch.bfloat16: {"atol": 3e-2, "rtol": 3e-2}}


def projected(batch: int, length: int, width: int, kind: torch.dtype, parts: int) -> list[torch.Tensor]:
    """Queries, keys, values as attention makes them: views of one tensor, (batch, heads, length, width) each."""
    together = torch.randn(batch, length, parts, HEADS, width, device=DEVICE).to(kind)
    return [part.transpose(1, 2) for part in together.unbind(2)]


def flat(batch: int, slots: int, width: int, kind: torch.dtype) -> FlatKeysValues:
    """Of some tokens, in any order, one of them in no slot."""
    tokens = batch * slots + 1
    sides = torch.randn(2, tokens, HEADS * width, device=DEVICE).to(kind)
    bias = torch.randn(2, HEADS * width, device=DEVICE).to(kind)
    token = torch.randperm(tokens, device=DEVICE)[: batch * slots].view(batch, slots)
    return FlatKeysValues(sides[0], sides[1], bias, token, HEADS)


def joined(own: KeysValues, extra: FlatKeysValues | None) -> KeysValues:
    if extra is None:
        return own
    return KeysValues(*(torch.cat(both, dim=2) for both in zip(extra.spread(), own, strict=True)))


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 70),
    slots=st.integers(0, 40),
    width=WIDTHS,
    kind=TYPES,
    seed=st.integers(0, 99),
)
@with_kernels
@torch.no_grad()
def test_attention_over_both_is_that_over_one_piece(batch, length, slots, width, kind, seed):
    torch.manual_seed(seed)
    queries, *own = projected(batch, length, width, kind, 3)
    own = KeysValues(*own)
    extra = flat(batch, slots, width, kind) if slots else None
    seen = torch.rand(batch, 1, 1, slots + length, device=DEVICE) < 0.6
    seen[torch.arange(batch), :, :, torch.randint(slots + length, (batch,))] = True
    both = joined(own, extra)
    exact = attend(queries.float(), KeysValues(both.keys.float(), both.values.float()), seen)
    own.values.masked_fill_(~seen[:, :, 0, slots:].unsqueeze(3), float("nan"))  # what is hidden may hold anything
    if extra:
        extra.values[extra.token[~seen[:, 0, 0, :slots]]] = float("nan")
    assert encoder_kernels.can_attend(own, extra)
    found = attend_with_constraints(queries, own, extra, seen)
    assert found.dtype == kind and found.is_contiguous()
    torch.testing.assert_close(found.float(), exact, **CLOSE[kind])


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 40),
    slots=st.integers(1, 40),
    width=st.sampled_from([1, 4, 64, 128]),
    kind=TYPES,
    seed=st.integers(0, 99),
)
@with_kernels
@torch.no_grad()
def test_joining_is_concatenation(batch, length, slots, width, kind, seed):
    torch.manual_seed(seed)
    own, extra = KeysValues(*projected(batch, length, width, kind, 2)), flat(batch, slots, width, kind)
    assert encoder_kernels.can_join(own, extra)
    for found, expected in zip(with_constraints(own, extra), joined(own, extra), strict=True):
        assert found.is_contiguous() and found.dtype == kind
        torch.testing.assert_close(found, expected, **CLOSE[kind])


def test_what_does_not_suit_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
    torch.manual_seed(0)
    queries, *own = projected(2, 5, 24, torch.float32, 3)
    extra = flat(2, 3, 24, torch.float32)
    seen = torch.ones(2, 1, 1, 8, dtype=torch.bool, device=DEVICE)
    with torch.no_grad():
        found = attend_with_constraints(queries, KeysValues(*own), extra, seen)
    torch.testing.assert_close(found, attend(queries, joined(KeysValues(*own), extra), seen))


@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=3), min_size=1, max_size=4),
    kind=TYPES,
    seed=st.integers(0, 99),
)
@with_kernels
@torch.no_grad()
def test_constraints_become_the_same_vectors(counts, kind, seed):
    torch.manual_seed(seed)
    counts[0].append((2, 3))  # there is one at least
    given = [[([7] * source, [8] * target) for source, target in own] for own in counts]
    constraints = constraints_from_ids(given, 0).map(lambda tensor: tensor.to(DEVICE))
    layer = Vectorisation(HEADS * 16, HEADS).to(DEVICE, kind)
    # Embedded alike where they are alike, as always: on a CPU, products are done once for those.
    by_place = torch.randn(2, 4, HEADS * 16, device=DEVICE).to(kind)
    source, target = by_place[0, constraints.source.positions], by_place[1, constraints.target.positions]
    assert encoder_kernels.can_vectorise(constraints, layer.attention)
    found = layer(source, target, constraints).values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", ())
        expected = layer(source, target, constraints).values
    real = constraints.source.home < constraints.source.number.numel()
    assert found.dtype == kind
    torch.testing.assert_close(found[real], expected[real], **CLOSE[kind])


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_tokens_of_constraints_are_embedded_as_all_others(make_model, monkeypatch, scaled, kind):
    model = make_model(scale_embedding=scaled, source_embedding=True, dimension=24, heads=2).to(DEVICE, kind)
    constraints = constraints_from_ids([[([5, 6], [7]), ([8], [9, 10, 10])], [], [([4], [4])]], model.padding)
    constraints = constraints.map(lambda tensor: tensor.to(DEVICE))
    expected = model._embed_constraints(constraints)
    monkeypatch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
    for found, other in zip(model._embed_constraints(constraints), expected, strict=True):
        assert found.dtype == kind and found.is_contiguous()
        torch.testing.assert_close(found, other, **CLOSE[kind])


def test_training_has_derivatives(monkeypatch):
    monkeypatch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
    queries, *own = (part.requires_grad_() for part in projected(2, 5, 16, torch.float32, 3))
    extra = flat(2, 3, 16, torch.float32)
    extra = extra._replace(keys=extra.keys.requires_grad_(), values=extra.values.requires_grad_())
    seen = torch.ones(2, 1, 1, 8, dtype=torch.bool, device=DEVICE)
    attend_with_constraints(queries, KeysValues(*own), extra, seen).sum().backward()
    assert all(part.grad is not None for part in (queries, *own, extra.keys, extra.values))


@pytest.mark.parametrize("variant", ["paper", "copy"])
@torch.no_grad()
def test_sentences_are_encoded_as_without_kernels(make_model, monkeypatch, variant):
    model = make_model(variant=variant, attention=True, output=True, dimension=32, heads=2).to(DEVICE).eval()
    source = torch.randint(4, 40, (4, 9), device=DEVICE)
    source[1, 5:] = source[3, 2:] = model.padding
    constraints = constraints_from_ids([[([5, 6], [7]), ([8], [9, 10])], [], [([4], [4])], []], model.padding)
    expected = model.decoder_memory(model.encode(source, constraints.map(lambda tensor: tensor.to(DEVICE))))
    monkeypatch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
    model.use_precision("float32")
    found = model.decoder_memory(model.encode(source, constraints.map(lambda tensor: tensor.to(DEVICE))))
    seen = expected.visible.mask[:, 0, 0] == 0
    for own, other in zip(found.layers, expected.layers, strict=True):
        for part, counterpart in zip(own, other, strict=True):
            both = (tensor.transpose(1, 2)[seen] for tensor in (part, counterpart))
            torch.testing.assert_close(*both, atol=1e-4, rtol=1e-4)
    if variant == "copy":
        for name in ("keys", "context"):
            both = (getattr(memory.output, name)[expected.output.filled] for memory in (found, expected))
            torch.testing.assert_close(*both, atol=1e-4, rtol=1e-4)
