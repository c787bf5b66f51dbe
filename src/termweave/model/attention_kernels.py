"""Attention of a decoding step on a GPU, where a few hypotheses of a sentence look at its keys, and what follows it.

`attention.py` and `cache.py` say what is to be done. The kernels that torch brings are made for many queries, and take
their time however few there are. Here a head of a sentence is a program, which reads every key it needs where it lies,
sums in float32, and writes the result as the product behind it wants it. Over the cache, each hypothesis follows its
ancestry to its own keys: there is no mask, and what nobody descends from is never read. Needs Triton, which CUDA builds
of torch bring along.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from termweave.accelerators import in_rows, laid_out
from termweave.model.attention import KeysValues

MOST_HYPOTHESES = 16  # of a sentence; with more, torch's kernels have enough to do
# Pairs of a hypothesis and a key at a time. Their sums stay in registers: with more of them, fewer programs would run
# at once; with fewer keys, each program would wait for memory more often.
LANES, FEWEST_KEYS = 32, 8
# Warps of a program, and registers of a thread at most. A processor of an H100 has 65,536 registers: with these, eight
# programs share it, and the 1,024 of 128 sentences with 8 heads run at once. With seven, some would run after the rest.
WARPS, REGISTERS = 2, 128
LOWEST = tl.constexpr(-1e30)  # below every score, but the difference of two such is a number


@triton.jit
def _look(queries, keys, values, visible, highest, total, summed):
    """Add a block of keys to the softmax so far; all are (hypotheses, block, width) or, summed up, without width.

    Every lane of the block has a softmax of its own, so that no lane waits for another before `_join`.
    """
    scores = tl.where(visible, tl.sum(queries * keys, axis=2), float("-inf"))
    higher = tl.maximum(highest, scores)
    kept, power = tl.exp(highest - higher), tl.exp(scores - higher)
    return higher, total * kept + power, summed * kept[:, :, None] + power[:, :, None] * values


@triton.jit
def _join(highest, total, summed, top):
    """The softmaxes of all lanes as one, (hypotheses,) and (hypotheses, width); top: at least the highest of each."""
    share = tl.exp(highest - top[:, None])
    return tl.sum(total * share, axis=1), tl.sum(summed * share[:, :, None], axis=1)


@triton.jit(do_not_specialize=("place_row",))
def _attend_memory(
    queries, keys, values, visible, attended,
    query_row, query_head, query_step, key_row, key_head, key_step, place_row, heads, hypotheses, scale,
    lanes: tl.constexpr, block: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """All hypotheses of a sentence look at the same keys; visible: see `Visible.places`. Hidden keys are not read."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    hypothesis, at = tl.arange(0, lanes), tl.arange(0, width)
    real = (hypothesis < hypotheses)[:, None]
    wide = hypothesis[:, None, None]
    place = queries + row * query_row + head * query_head + wide * query_step + at[None, None, :]
    query = tl.load(place, mask=wide < hypotheses, other=0.0).to(tl.float32) * scale
    start = row * key_row + head * key_head
    visible += row * place_row
    count = tl.load(visible)
    highest = tl.full([lanes, block], LOWEST, tl.float32)
    total = tl.zeros([lanes, block], tl.float32)
    summed = tl.zeros([lanes, block, width], tl.float32)
    for first in range(0, count, block):
        number = first + tl.arange(0, block)
        inside = number < count
        step = tl.load(visible + 1 + number, mask=inside, other=0)
        places = start + step[None, :, None] * key_step + at[None, None, :]
        key = tl.load(keys + places, mask=inside[None, :, None], other=0.0).to(tl.float32)
        value = tl.load(values + places, mask=inside[None, :, None], other=0.0).to(tl.float32)
        highest, total, summed = _look(query, key, value, inside[None, :], highest, total, summed)
    whole, result = _join(highest, total, summed, tl.max(highest, axis=1))
    to = attended + ((row * hypotheses + hypothesis) * heads + head)[:, None] * width + at[None, :]
    tl.store(to, result / whole[:, None], mask=real)


@triton.jit
def _attend_past(
    queries, own_keys, own_values, keys, values, ancestry, position, attended,
    query_row, query_head, query_step, own_row, own_head, own_step, capacity, heads, hypotheses, scale,
    lanes: tl.constexpr, block: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Every hypothesis looks at the keys it descends from, and at its own, which join the cache.

    No program reads what it or another writes: at this step, a hypothesis sees none but itself.
    """
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    hypothesis, at = tl.arange(0, lanes), tl.arange(0, width)
    real = hypothesis < hypotheses
    now = tl.load(position).to(tl.int32)
    place = queries + row * query_row + head * query_head + hypothesis[:, None] * query_step + at[None, :]
    query = tl.load(place, mask=real[:, None], other=0.0).to(tl.float32) * scale
    start = (row * heads + head) * capacity * hypotheses
    highest = tl.full([lanes, block], LOWEST, tl.float32)
    total = tl.zeros([lanes, block], tl.float32)
    summed = tl.zeros([lanes, block, width], tl.float32)
    for first in range(0, now, block):
        step = first + tl.arange(0, block)
        visible = real[:, None] & (step < now)[None, :]
        lines = (row * hypotheses + hypothesis[:, None]) * capacity + step[None, :]
        slot = tl.load(ancestry + lines, mask=visible, other=0)
        places = (start + step[None, :] * hypotheses + slot)[:, :, None] * width + at[None, None, :]
        key = tl.load(keys + places, mask=visible[:, :, None], other=0.0).to(tl.float32)
        value = tl.load(values + places, mask=visible[:, :, None], other=0.0).to(tl.float32)
        highest, total, summed = _look(query[:, None, :], key, value, visible, highest, total, summed)

    own = row * own_row + head * own_head + hypothesis[:, None] * own_step + at[None, :]
    key = tl.load(own_keys + own, mask=real[:, None], other=0.0)
    value = tl.load(own_values + own, mask=real[:, None], other=0.0)
    slots = (start + now * hypotheses + hypothesis)[:, None] * width + at[None, :]
    tl.store(keys + slots, key, mask=real[:, None])
    tl.store(values + slots, value, mask=real[:, None])
    score = tl.sum(query * key.to(tl.float32), axis=1)
    top = tl.maximum(tl.max(highest, axis=1), score)
    whole, result = _join(highest, total, summed, top)
    power = tl.exp(score - top)
    result = (result + power[:, None] * value.to(tl.float32)) / (whole + power)[:, None]
    to = attended + ((row * hypotheses + hypothesis) * heads + head)[:, None] * width + at[None, :]
    tl.store(to, result, mask=real[:, None])


@triton.jit
def _add_norm(
    states, change, weight, bias, stream, normed, dimension, epsilon,
    lanes: tl.constexpr, keep: tl.constexpr,
):  # fmt: skip
    """The sum of a state and its change, if it is to be kept, and its layer normalisation."""
    row = tl.program_id(0).to(tl.int64) * dimension
    at = tl.arange(0, lanes)
    inside = at < dimension
    summed = tl.load(states + row + at, mask=inside, other=0.0).to(tl.float32)
    summed += tl.load(change + row + at, mask=inside, other=0.0).to(tl.float32)
    rounded = summed.to(stream.dtype.element_ty)  # what is normalised is what the stream holds
    if keep:
        tl.store(stream + row + at, rounded, mask=inside)
    summed = rounded.to(tl.float32)
    centred = tl.where(inside, summed - tl.sum(summed, axis=0) / dimension, 0.0)
    deviation = tl.sqrt(tl.sum(centred * centred, axis=0) / dimension + epsilon)
    scale = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed + row + at, centred / deviation * scale + shift, mask=inside)


def can_attend(hypotheses: int, width: int) -> bool:
    """width: of a head."""
    return hypotheses <= MOST_HYPOTHESES and width.bit_count() == 1


def attend_memory(queries: Tensor, memory: KeysValues, places: Tensor) -> Tensor:
    """queries (batch, heads, hypotheses, width), places as in `Visible` → (batch, hypotheses, d)."""
    batch, heads, hypotheses, width = queries.shape
    queries, keys, values, places = (in_rows(tensor) for tensor in (queries, *memory, places))
    if keys.stride() != values.stride():
        keys, values = keys.contiguous(), values.contiguous()
    attended = queries.new_empty(batch, hypotheses, heads * width)
    _attend_memory[(batch * heads,)](
        queries, keys, values, places, attended,
        *queries.stride()[:3], *keys.stride()[:3], places.stride(0), heads, hypotheses, width**-0.5,
        **_shape(hypotheses, width),
    )  # fmt: skip
    return attended


def attend_past(queries: Tensor, own: KeysValues, past: KeysValues, ancestry: Tensor, position: Tensor) -> Tensor:
    """queries and own (batch, heads, hypotheses, width) → (batch, hypotheses, d); writes `own` into `past`.

    past: (batch, heads, steps · hypotheses, width); ancestry: (batch, hypotheses, steps); position: (), steps written.
    """
    batch, heads, hypotheses, width = queries.shape
    assert past.keys.is_contiguous() and past.values.is_contiguous() and ancestry.is_contiguous()
    queries, keys, values = (in_rows(tensor) for tensor in (queries, *own))
    if keys.stride() != values.stride():
        keys, values = keys.contiguous(), values.contiguous()
    attended = queries.new_empty(batch, hypotheses, heads * width)
    _attend_past[(batch * heads,)](
        queries, keys, values, *past, ancestry, position, attended,
        *queries.stride()[:3], *keys.stride()[:3], ancestry.shape[2], heads, hypotheses, width**-0.5,
        **_shape(hypotheses, width),
    )  # fmt: skip
    return attended


def add_norm(states: Tensor, change: Tensor, norm: nn.LayerNorm, keep: bool) -> tuple[Tensor, Tensor]:
    """states + change, and its normalisation, (batch, hypotheses, d) each; with `keep` false, twice the latter."""
    states, change = laid_out(states, change)
    dimension = states.shape[-1]
    normed = torch.empty_like(states)
    stream = torch.empty_like(states) if keep else normed
    _add_norm[(states.numel() // dimension,)](
        states, change, norm.weight, norm.bias, stream, normed, dimension, norm.eps,
        lanes=int(triton.next_power_of_2(dimension)), keep=keep,
    )  # fmt: skip
    return stream, normed


def _shape(hypotheses: int, width: int) -> dict[str, int | None]:
    lanes = int(triton.next_power_of_2(hypotheses))
    block = max(LANES // lanes, FEWEST_KEYS)
    shape = {"lanes": lanes, "block": block, "width": width}
    if lanes * block <= LANES and width <= 64:
        return {**shape, "num_warps": WARPS, "maxnreg": REGISTERS}
    return {**shape, "num_warps": 4 if lanes * block <= 2 * LANES else 8, "maxnreg": None}
