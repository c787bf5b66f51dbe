"""The kernels of attention against torch's own and against a plain search. Without a GPU, Triton interprets them."""

from __future__ import annotations

import functools
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="Triton comes with CUDA builds of torch; `make kernels` installs it")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from termweave import accelerators
from termweave.decoding.beam import Marks, SearchOptions, beam_search
from termweave.decoding.recorded import FixedSteps
from termweave.model import attention_kernels
from termweave.model.attention import KeysValues, MultiHeadAttention, Visible, attend, attend_few
from termweave.model.cache import FixedCache, SelfAttentionCache

pytestmark = pytest.mark.usefixtures("without_loops")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HEADS = 2
TYPES = st.sampled_from([torch.float32, torch.bfloat16])
WIDTHS = st.sampled_from([1, 4, 16, 64])
CLOSE = {torch.float32: {"atol": 1e-5, "rtol": 1e-5}, torch.bfloat16: {"atol": 2e-2, "rtol": 2e-2}}


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))


def with_kernels(test):
    """What the fixture does, for every example of hypothesis."""

    @functools.wraps(test)
    def run(**given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
            test(**given)

    return run


def projected(batch: int, hypotheses: int, width: int, kind: torch.dtype) -> tuple[torch.Tensor, KeysValues]:
    """Queries, keys and values as attention makes them: views of one tensor, with strides of their own."""
    split = MultiHeadAttention(HEADS * width, HEADS).split
    parts = torch.randn(batch, hypotheses, 3 * HEADS * width, device=DEVICE).to(kind).chunk(3, dim=-1)
    return split(parts[0]), KeysValues(split(parts[1]), split(parts[2]))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 16), st.integers(1, 70), WIDTHS, TYPES, st.booleans(), st.integers(0, 99))
@with_kernels
def test_attention_to_the_source_is_that_of_torch(batch, hypotheses, count, width, kind, whole, seed):
    torch.manual_seed(seed)
    queries, _ = projected(batch, hypotheses, width, kind)
    _, memory = projected(batch, count, width, kind)
    if whole:  # as on a stage
        memory = KeysValues(memory.keys.contiguous(), memory.values.contiguous())
    hidden = torch.rand(batch, 1, 1, count, device=DEVICE) < 0.4
    hidden[torch.arange(batch), :, :, torch.randint(count, (batch,))] = False
    visible = Visible.of(~hidden, kind)
    memory.keys[hidden[:, 0, 0][:, None, :].expand(-1, HEADS, -1)] = float("nan")  # what is hidden is not read
    found = attend_few(queries, memory, visible)
    keys = memory.keys.float().nan_to_num()
    exact = attend(queries.float(), KeysValues(keys, memory.values.float()), visible.mask.float())
    assert found.dtype == kind and found.is_contiguous()
    torch.testing.assert_close(found.float(), exact, **CLOSE[kind])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 16), st.integers(1, 20), WIDTHS, TYPES, st.integers(0, 99))
def test_a_cache_with_the_kernel_is_one_without(batch, beam, steps, width, kind, seed):
    """Steps reordered at random, from a cache where nothing was hidden from anybody but by its ancestry."""
    torch.manual_seed(seed)
    like = torch.zeros(1, dtype=kind, device=DEVICE)
    plain = SelfAttentionCache(2, batch, beam, HEADS, width, like=like)
    fixed = FixedCache(2, batch, beam, HEADS, width, like=like, steps=steps)
    for keys_values in fixed.layers:  # what was not written is not read
        for tensor in keys_values:
            tensor.fill_(float("nan"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
        for _ in range(steps):
            for cache in (plain, fixed):
                cache.begin_step(beam)
            for layer in range(2):
                queries, own = projected(batch, beam, width, kind)
                expected, found = (cache.attend(layer, queries, own) for cache in (plain, fixed))
                torch.testing.assert_close(found, expected, **CLOSE[kind])
            parents = torch.randint(beam, (batch, beam), device=DEVICE)
            for cache in (plain, fixed):
                cache.end_step()
                cache.reorder(parents)
    for own, others in zip(fixed.layers, plain.layers, strict=True):
        for tensor, other in zip(own, others, strict=True):
            assert torch.equal(tensor, other[:, :, : steps * beam])


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dimension", [16, 24, 512])
@torch.no_grad()
def test_sums_are_normalised_as_by_torch(dimension, kind):
    torch.manual_seed(dimension)
    norm = torch.nn.LayerNorm(dimension, device=DEVICE, dtype=kind)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    states, change = torch.randn(2, 3, 4, dimension, device=DEVICE).to(kind)
    stream, normed = attention_kernels.add_norm(states, change, norm, keep=True)
    torch.testing.assert_close(stream, states + change, **CLOSE[kind])  # interpreted, bfloat16 is cut off, not rounded
    torch.testing.assert_close(normed, norm(stream), **CLOSE[kind])
    both = attention_kernels.add_norm(states, change, norm, keep=False)
    assert torch.equal(both[0], normed) and torch.equal(both[1], normed)


@pytest.mark.parametrize(("hypotheses", "width"), [(17, 8), (4, 5)])
def test_what_does_not_suit_is_left_to_torch(kernels, hypotheses, width):
    torch.manual_seed(0)
    queries, own = projected(2, hypotheses, width, torch.float32)
    visible = Visible.of(torch.ones(2, 1, 1, hypotheses, dtype=torch.bool, device=DEVICE), torch.float32)
    torch.testing.assert_close(attend_few(queries, own, visible), attend(queries, own, visible.mask))
    cache = FixedCache(1, 2, hypotheses, HEADS, width, like=visible.mask, steps=3)
    cache.begin_step(hypotheses)
    expected = own.values.transpose(1, 2).flatten(2)  # at the first step a hypothesis sees but itself
    torch.testing.assert_close(cache.attend(0, queries, own), expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("beam", [1, 3, 4])
@torch.no_grad()
def test_a_search_with_kernels_finds_what_plain_steps_find(make_model, norm, beam):
    model = make_model(norm=norm).to(DEVICE)
    torch.nn.init.normal_(model.embedding)  # larger than fresh weights are, so that outputs differ more
    marks, options = Marks(2, 3, (0, 2)), SearchOptions(beam)
    source = torch.randint(4, 40, (4, 9), device=DEVICE)
    source[1, 5:] = source[3, 2:] = model.padding
    limits = torch.tensor([12, 7, 20, 3], device=DEVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", ())
        expected = beam_search(model, model.decoder_memory(model.encode(source)), limits, marks, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", (DEVICE.type,))
        memory = model.decoder_memory(model.encode(source))
        found = beam_search(model, memory, limits, marks, options, steps=FixedSteps(model, marks, options))
    for own, others in zip(found, expected, strict=True):
        assert [each.tokens for each in own] == [each.tokens for each in others]
        assert [each.score for each in own] == pytest.approx([each.score for each in others], abs=1e-4)
