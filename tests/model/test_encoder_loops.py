"""The compiled loop against the tensor operations it stands for: numbers are moved, so they are the same ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.data.batches import constraints_from_ids
from termweave.model import attention_loops, encoder_loops
from termweave.model.attention import KeysValues
from termweave.model.vectors import FlatKeysValues, attend_with_constraints, with_constraints

TOKENS = 5


@pytest.fixture(autouse=True, scope="module")
def enough_threads():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_loops, "MOST_THREADS", torch.get_num_threads())
        yield


def some_sides(batch: int, length: int, slots: int, heads: int, width: int) -> tuple[KeysValues, FlatKeysValues]:
    """As they come: parts of one product, and of what the adapters give."""
    d = heads * width
    own = torch.randn(batch, length, 3 * d).chunk(3, dim=2)[1:]
    flat = torch.randn(TOKENS, 4, d)
    token = torch.randint(TOKENS, (batch, slots))
    split = KeysValues(*(part.view(batch, length, heads, width).transpose(1, 2) for part in own))
    return split, FlatKeysValues(flat[:, 1], flat[:, 2], torch.randn(2, d), token, heads)


def joined(own: KeysValues, extra: FlatKeysValues) -> KeysValues:
    return KeysValues(*(torch.cat(sides, dim=2) for sides in zip(extra.spread(), own, strict=True)))


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 6),
    slots=st.integers(0, 5),
    heads=st.integers(1, 3),
    width=st.integers(1, 33),
    by_head=st.booleans(),
    kind=st.sampled_from([torch.float32, torch.half]),
    seed=st.integers(0, 99),
)
def test_joining_is_concatenation(batch, length, slots, heads, width, by_head, kind, seed):
    torch.manual_seed(seed)
    own, extra = some_sides(batch, length, slots, heads, width)
    extra = extra._replace(keys=extra.keys.to(kind), values=extra.values.to(kind))
    assert encoder_loops.can_join(own, extra)
    for found, expected in zip(with_constraints(own, extra, by_head), joined(own, extra), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert (found if by_head else found.transpose(1, 2)).is_contiguous()


def test_attention_is_that_over_one_piece():
    torch.manual_seed(0)
    own, extra = some_sides(3, 6, 4, 2, 8)
    queries, seen = torch.randn(3, 2, 6, 8), torch.rand(3, 1, 1, 10) < 0.6
    seen[..., -1] = True
    both = joined(own, extra)
    scores = (queries.double() @ both.keys.double().mT / 8**0.5).masked_fill(~seen, float("-inf"))
    expected = (scores.softmax(dim=3) @ both.values.double()).transpose(1, 2).flatten(2)
    found = attend_with_constraints(queries, own, extra, seen)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def test_what_does_not_suit_is_left_to_torch(monkeypatch):
    own, extra = some_sides(2, 3, 2, 2, 4)
    asked = KeysValues(own.keys.clone().requires_grad_(), own.values)
    short = extra._replace(keys=extra.keys.bfloat16(), values=extra.values.bfloat16())
    wide = KeysValues(*(part.double() for part in own))
    for sides in ((asked, extra), (own, short), (wide, extra)):
        assert not encoder_loops.can_join(*sides)
    with_constraints(asked, extra).keys.sum().backward()
    assert asked.keys.grad is not None and (asked.keys.grad == 1).all()
    monkeypatch.setattr(attention_loops, "MOST_THREADS", 0)
    assert not encoder_loops.can_join(own, extra)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@torch.no_grad()
def test_sentences_are_encoded_as_without_loops(make_model, monkeypatch, precision):
    model = make_model().eval()
    model.use_precision(precision)
    source = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [3, 3, 2, 0, 0]])
    constraints = constraints_from_ids([[([5], [8, 9]), ([6, 7], [4])], [], [([3], [12])]], 0)
    fast = model.encode(source, constraints)
    fast_memory = model.decoder_memory(fast)
    monkeypatch.setattr(encoder_loops, "can_join", lambda own, extra: False)
    slow = model.encode(source, constraints)
    slow_memory = model.decoder_memory(slow)
    torch.testing.assert_close(fast.states, slow.states, rtol=0, atol=1e-5)
    for layer, other in zip(fast_memory.layers, slow_memory.layers, strict=True):
        torch.testing.assert_close(layer.keys, other.keys, rtol=0, atol=1e-5)
        torch.testing.assert_close(layer.values, other.values, rtol=0, atol=1e-5)
