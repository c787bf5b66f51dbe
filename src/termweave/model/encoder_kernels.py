"""Attention over [constraints; sentence] on a GPU, for inference.

`vectors.py` says what is to be done: put the keys and values of the constraints before those of the sentence, and look
at both. To put them there is to copy all of them, in every layer. Here the encoder reads each key where it lies; for
the decoder, which looks at them again in every step, one kernel writes keys and values of a layer side by side. Needs
Triton, which CUDA builds of torch bring along.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from termweave.accelerators import in_rows
from termweave.model.attention import KeysValues

NARROWEST = 16  # head that matrix units take
MOST_QUERIES, KEYS = 64, 32  # of a sentence and a head at a time
ROWS = 16  # keys that a program copies
LOWEST = tl.constexpr(-1e30)  # below every score, but the difference of two such is a number


@triton.jit
def _load(own, extra, own_step, extra_step, place, slots, count, at):
    """(keys, width): the rows at these places of [constraints; sentence], zeros behind the last."""
    is_extra, is_own = place < slots, (place >= slots) & (place < count)
    first = tl.load(extra + place[:, None] * extra_step + at[None, :], mask=is_extra[:, None], other=0.0)
    second = tl.load(own + (place - slots)[:, None] * own_step + at[None, :], mask=is_own[:, None], other=0.0)
    return tl.where(is_extra[:, None], first, second)


@triton.jit(do_not_specialize=("slots", "count", "length"))
def _attend(
    queries, own_keys, own_values, extra_keys, extra_values, mask, attended,
    query_row, query_head, query_step, own_row, own_head, own_step, extra_row, extra_head, extra_step,
    slots, count, length, heads, scale,
    lanes: tl.constexpr, block: tl.constexpr, width: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    """Some queries of a sentence and a head look at all its keys, a block at a time, with a softmax that goes along."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    query, at = tl.program_id(1) * lanes + tl.arange(0, lanes), tl.arange(0, width)
    real = (query < length)[:, None]
    place = queries + row * query_row + head * query_head + query[:, None] * query_step + at[None, :]
    asked = tl.load(place, mask=real, other=0.0).to(tl.float32)  # a bfloat16 is one of TF32's numbers as it is
    own, extra = row * own_row + head * own_head, row * extra_row + head * extra_head
    highest = tl.full([lanes], LOWEST, tl.float32)
    total = tl.zeros([lanes], tl.float32)
    summed = tl.zeros([lanes, width], tl.float32)
    for first in range(0, count, block):
        step = first + tl.arange(0, block)
        visible = tl.load(mask + row * count + step, mask=step < count, other=0) != 0
        key = _load(own_keys + own, extra_keys + extra, own_step, extra_step, step, slots, count, at)
        value = _load(own_values + own, extra_values + extra, own_step, extra_step, step, slots, count, at)
        scores = tl.dot(asked, tl.trans(key.to(tl.float32)), input_precision=precision) * scale
        scores = tl.where(visible[None, :], scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        kept, power = tl.exp(highest - higher), tl.exp(scores - higher[:, None])
        # What is hidden may hold anything, and nothing times NaN is NaN.
        value = tl.where(visible[:, None], value.to(tl.float32), 0.0)
        summed = summed * kept[:, None] + tl.dot(power, value, input_precision=precision)
        total = total * kept + tl.sum(power, axis=1)
        highest = higher
    to = attended + ((row * length + query) * heads + head)[:, None] * width + at[None, :]
    tl.store(to, summed / total[:, None], mask=real)


@triton.jit(do_not_specialize=("slots", "count"))
def _join(
    own_keys, own_values, extra_keys, extra_values, keys, values,
    own_row, own_step, extra_row, extra_step, slots, count, heads,
    rows: tl.constexpr, lanes: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Some rows of [constraints; sentence]; their heads lie side by side, and are put apart."""
    row = tl.program_id(0).to(tl.int64)
    step, at = tl.program_id(1) * rows + tl.arange(0, rows), tl.arange(0, lanes)
    own, extra = row * own_row, row * extra_row
    for first in range(0, heads * width, lanes):
        here = first + at
        key = _load(own_keys + own, extra_keys + extra, own_step, extra_step, step, slots, count, here)
        value = _load(own_values + own, extra_values + extra, own_step, extra_step, step, slots, count, here)
        to = ((row * heads + here // width)[None, :] * count + step[:, None]) * width + (here % width)[None, :]
        tl.store(keys + to, key, mask=(step < count)[:, None])
        tl.store(values + to, value, mask=(step < count)[:, None])


def can_attend(own: KeysValues, extra: KeysValues | None) -> bool:
    """Is a head such that matrix units take it, and does everything have one type?"""
    width = own.keys.shape[3]
    alike = extra is None or extra.keys.dtype == own.keys.dtype
    return alike and width >= NARROWEST and width.bit_count() == 1


def attend(queries: Tensor, own: KeysValues, extra: KeysValues | None, mask: Tensor) -> Tensor:
    """queries (batch, heads, length, width), mask (batch, 1, 1, keys), True where visible → (batch, length, d)."""
    batch, heads, length, width = queries.shape
    queries, own, extra, slots = in_rows(queries), *_both(own, extra)
    mask = mask.contiguous()
    attended = queries.new_empty(batch, length, heads * width)
    lanes = min(max(int(triton.next_power_of_2(length)), NARROWEST), MOST_QUERIES)
    exact = queries.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    _attend[(batch * heads, triton.cdiv(length, lanes))](
        queries, *own, *extra, mask, attended,
        *queries.stride()[:3], *own.keys.stride()[:3], *extra.keys.stride()[:3],
        slots, slots + own.keys.shape[2], length, heads, width**-0.5,
        lanes=lanes, block=KEYS, width=width, precision="ieee" if exact else "tf32", num_warps=4,
    )  # fmt: skip
    return attended


def can_join(own: KeysValues, extra: KeysValues) -> bool:
    """Do the heads of a key lie side by side, as a projection puts them?"""
    dimension = own.keys.shape[1] * own.keys.shape[3]
    parts = (*own, *extra)
    beside = all(part.stride(3) == 1 and part.stride(1) == part.shape[3] for part in parts)
    return beside and dimension.bit_count() == 1 and own.keys.dtype == extra.keys.dtype


def join(own: KeysValues, extra: KeysValues) -> KeysValues:
    """[constraints; sentence], along the length."""
    own, extra, slots = _both(own, extra)
    batch, heads, length, width = own.keys.shape
    count = slots + length
    both = own.keys.new_empty(2, batch, heads, count, width)
    _join[(batch, triton.cdiv(count, ROWS))](
        *own, *extra, *both.unbind(0),
        own.keys.stride(0), own.keys.stride(2), extra.keys.stride(0), extra.keys.stride(2), slots, count, heads,
        rows=ROWS, lanes=min(heads * width, 128), width=width, num_warps=4,
    )  # fmt: skip
    return KeysValues(*both.unbind(0))


def _both(own: KeysValues, extra: KeysValues | None) -> tuple[KeysValues, KeysValues, int]:
    """With keys and values that lie alike; how many of the constraints there are."""
    own = _alike(own)
    return (own, own, 0) if extra is None else (own, _alike(extra), extra.keys.shape[2])


def _alike(memory: KeysValues) -> KeysValues:
    keys, values = in_rows(memory.keys), in_rows(memory.values)
    if keys.stride() != values.stride():
        keys, values = keys.contiguous(), values.contiguous()
    return KeysValues(keys, values)
