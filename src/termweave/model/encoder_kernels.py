"""Constraints embedded and as vectors, and attention over [constraints; sentence], on a GPU and for inference.

`vectors.py` says what is to be done: put the keys and values of the constraints before those of the sentence, and look
at both. To put them there is to copy all of them, in every layer. Here the encoder reads each key where it lies; for
the decoder, which looks at them again in every step, one kernel writes keys and values of a layer side by side. Needs
Triton, which CUDA builds of torch bring along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from termweave.accelerators import in_rows, laid_out
from termweave.data.batches import ConstraintTensors
from termweave.model.attention import KeysValues, MultiHeadAttention

if TYPE_CHECKING:
    from termweave.model.vectors import FlatKeysValues

NARROWEST = 16  # head that matrix units take
MOST_QUERIES, KEYS = 64, 16  # of a sentence and a head at a time
WARPS = 2  # of a program
MOST_SLOTS = 64  # of a sentence's constraints that are made vectors at once
ROWS = 8  # keys that a program copies
LOWEST = tl.constexpr(-1e30)  # below every score, but the difference of two such is a number


@triton.jit
def _embed(ids, positions, table, waves, embedded, dimension, scale, lanes: tl.constexpr):
    """One token: its row of the table, scaled, and on it that of its position."""
    program = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, lanes)
    inside = at < dimension
    vector = tl.load(table + tl.load(ids + program) * dimension + at, mask=inside, other=0.0).to(tl.float32)
    wave = tl.load(waves + tl.load(positions + program) * dimension + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(embedded + program * dimension + at, vector * scale + wave, mask=inside)


@triton.jit
def _load(own, extra, bias, table, own_step, dimension, place, slots, count, at):
    """(keys, width): the rows at these places of [constraints; sentence], zeros behind the last."""
    is_extra, is_own = place < slots, (place >= slots) & (place < count)
    token = tl.load(table + place, mask=is_extra, other=0)
    first = tl.load(extra + token[:, None] * dimension + at[None, :], mask=is_extra[:, None], other=0.0)
    second = tl.load(own + (place - slots)[:, None] * own_step + at[None, :], mask=is_own[:, None], other=0.0)
    first = first.to(tl.float32) + tl.load(bias + at).to(tl.float32)[None, :]
    return tl.where(is_extra[:, None], first, second.to(tl.float32))


@triton.jit(do_not_specialize=("slots", "count", "length"))
def _attend(
    queries, own_keys, own_values, extra_keys, extra_values, bias, table, mask, attended,
    query_row, query_head, query_step, own_row, own_head, own_step,
    slots, count, length, heads, scale,
    lanes: tl.constexpr, block: tl.constexpr, width: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    """Some queries of a sentence and a head look at all its keys, a block at a time, with a softmax that goes along.

    All is float32 here: a bfloat16 is one of TF32's numbers as it is.
    """
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    query, at = tl.program_id(1) * lanes + tl.arange(0, lanes), tl.arange(0, width)
    real = (query < length)[:, None]
    place = queries + row * query_row + head * query_head + query[:, None] * query_step + at[None, :]
    asked = tl.load(place, mask=real, other=0.0).to(tl.float32)
    own, extra, dimension = row * own_row + head * own_head, head * width, heads * width
    table += row * slots
    highest = tl.full([lanes], LOWEST, tl.float32)
    total = tl.zeros([lanes], tl.float32)
    summed = tl.zeros([lanes, width], tl.float32)
    for first in range(0, count, block):
        step = first + tl.arange(0, block)
        visible = tl.load(mask + row * count + step, mask=step < count, other=0) != 0
        key = _load(
            own_keys + own, extra_keys + extra, bias + extra, table, own_step, dimension, step, slots, count, at
        )  # fmt: skip
        value = _load(
            own_values + own, extra_values + extra, bias + dimension + extra, table, own_step, dimension,
            step, slots, count, at,
        )  # fmt: skip
        scores = tl.dot(asked, tl.trans(key), input_precision=precision) * scale
        scores = tl.where(visible[None, :], scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        kept, power = tl.exp(highest - higher), tl.exp(scores - higher[:, None])
        # What is hidden may hold anything, and nothing times NaN is NaN.
        value = tl.where(visible[:, None], value, 0.0)
        summed = summed * kept[:, None] + tl.dot(power, value, input_precision=precision)
        total = total * kept + tl.sum(power, axis=1)
        highest = higher
    to = attended + ((row * length + query) * heads + head)[:, None] * width + at[None, :]
    tl.store(to, summed / total[:, None], mask=real)


@triton.jit(do_not_specialize=("slots", "count"))
def _join(
    own_keys, own_values, extra_keys, extra_values, bias, table, keys, values,
    own_row, own_step, slots, count, heads,
    rows: tl.constexpr, lanes: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Some rows of [constraints; sentence]; their heads lie side by side, and are put apart."""
    row = tl.program_id(0).to(tl.int64)
    step, at = tl.program_id(1) * rows + tl.arange(0, rows), tl.arange(0, lanes)
    own, dimension = row * own_row, heads * width
    table += row * slots
    for first in range(0, dimension, lanes):
        here = first + at
        key = _load(own_keys + own, extra_keys, bias, table, own_step, dimension, step, slots, count, here)
        value = _load(
            own_values + own, extra_values, bias + dimension, table, own_step, dimension, step, slots, count, here
        )  # fmt: skip
        to = ((row * heads + here // width)[None, :] * count + step[:, None]) * width + (here % width)[None, :]
        tl.store(keys + to, key, mask=(step < count)[:, None])
        tl.store(values + to, value, mask=(step < count)[:, None])


@triton.jit(do_not_specialize=("source_slots", "target_slots"))
def _vectorise(
    queries, keys_values, source_token, source_number, target_token, target_number, attended,
    source_slots, target_slots, heads, scale,
    lanes: tl.constexpr, width: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    """One head of a sentence: the source tokens of each constraint look at its target tokens."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    slot, at, dimension = tl.arange(0, lanes), head * width + tl.arange(0, width), heads * width
    is_source, is_target = slot < source_slots, slot < target_slots
    asking = tl.load(source_number + row * source_slots + slot, mask=is_source, other=0)
    asked = tl.load(target_number + row * target_slots + slot, mask=is_target, other=0)
    real, seen = asking > 0, asked > 0
    source = tl.load(source_token + row * source_slots + slot, mask=is_source, other=0)
    target = tl.load(target_token + row * target_slots + slot, mask=is_target, other=0)
    query = tl.load(queries + source[:, None] * dimension + at[None, :], mask=real[:, None], other=0.0)
    there = keys_values + target[:, None] * (2 * dimension) + at[None, :]
    key = tl.load(there, mask=seen[:, None], other=0.0).to(tl.float32)
    value = tl.load(there + dimension, mask=seen[:, None], other=0.0).to(tl.float32)
    scores = tl.dot(query.to(tl.float32), tl.trans(key), input_precision=precision) * scale
    scores = tl.where((asking[:, None] == asked[None, :]) & seen[None, :], scores, LOWEST)
    power = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    result = tl.dot(power, value, input_precision=precision) / tl.sum(power, axis=1)[:, None]
    tl.store(attended + source[:, None] * dimension + at[None, :], result, mask=real[:, None])


def embed(table: Tensor, waves: Tensor, ids: Tensor, positions: Tensor, scale: float) -> Tensor:
    """Rows of `table` (vocabulary, d) times `scale`, and rows of `waves` added; ids and positions: (tokens,) each."""
    ids, positions, table, waves = laid_out(ids, positions, table, waves)
    dimension = table.shape[1]
    embedded = table.new_empty(len(ids), dimension)
    lanes = int(triton.next_power_of_2(dimension))
    _embed[(len(ids),)](ids, positions, table, waves, embedded, dimension, scale, lanes=lanes)
    return embedded


def can_attend(own: KeysValues, extra: FlatKeysValues | None) -> bool:
    """Is a head such that matrix units take it, and does everything have one type?"""
    return _suits(own.keys.shape[3]) and (extra is None or extra.keys.dtype == own.keys.dtype)


def attend(queries: Tensor, own: KeysValues, extra: FlatKeysValues | None, mask: Tensor) -> Tensor:
    """queries (batch, heads, length, width), mask (batch, 1, 1, keys), True where visible → (batch, length, d)."""
    batch, heads, length, width = queries.shape
    queries, own, mask = in_rows(queries), _alike(own), mask.contiguous()
    slots, told = _told(own, extra)
    attended = queries.new_empty(batch, length, heads * width)
    lanes = min(max(int(triton.next_power_of_2(length)), NARROWEST), MOST_QUERIES)
    _attend[(batch * heads, triton.cdiv(length, lanes))](
        queries, *own, *told, mask, attended, *queries.stride()[:3], *own.keys.stride()[:3],
        slots, slots + own.keys.shape[2], length, heads, width**-0.5,
        lanes=lanes, block=KEYS, width=width, precision=_precision(queries), num_warps=WARPS,
    )  # fmt: skip
    return attended


def can_join(own: KeysValues, extra: FlatKeysValues) -> bool:
    """Do the heads of a key lie side by side, as a projection puts them?"""
    _, heads, _, width = own.keys.shape
    beside = all(part.stride(3) == 1 and part.stride(1) == width for part in own)
    return beside and (heads * width).bit_count() == 1 and own.keys.dtype == extra.keys.dtype


def join(own: KeysValues, extra: FlatKeysValues) -> KeysValues:
    """[constraints; sentence], along the length."""
    own = _alike(own)
    slots, told = _told(own, extra)
    batch, heads, length, width = own.keys.shape
    count = slots + length
    both = own.keys.new_empty(2, batch, heads, count, width)
    _join[(batch, triton.cdiv(count, ROWS))](
        *own, *told, *both.unbind(0), own.keys.stride(0), own.keys.stride(2), slots, count, heads,
        rows=ROWS, lanes=min(heads * width, 128), width=width, num_warps=4,
    )  # fmt: skip
    return KeysValues(*both.unbind(0))


def can_vectorise(constraints: ConstraintTensors, attention: MultiHeadAttention) -> bool:
    most = max(constraints.source.number.shape[1], constraints.target.number.shape[1])
    return most <= MOST_SLOTS and _suits(attention.dimension // attention.heads)


def vectorise(attention: MultiHeadAttention, source: Tensor, target: Tensor, constraints: ConstraintTensors) -> Tensor:
    """V_c of every source token, (tokens, d); zeros for those that only fill up."""
    dimension, heads = attention.dimension, attention.heads
    queries = attention.input.part(source, 0, dimension)
    keys_values = attention.input.part(target, dimension, 3 * dimension)
    sides = (constraints.source, constraints.target)
    numbers = laid_out(*(side.number for side in sides))
    batch, source_slots = numbers[0].shape
    attended = torch.zeros_like(queries)
    _vectorise[(batch * heads,)](
        *laid_out(queries, keys_values), sides[0].token_of_slot(), numbers[0], sides[1].token_of_slot(), numbers[1],
        attended, source_slots, numbers[1].shape[1], heads, (dimension // heads) ** -0.5,
        lanes=max(int(triton.next_power_of_2(max(part.shape[1] for part in numbers))), NARROWEST),
        width=dimension // heads, precision=_precision(queries), num_warps=WARPS,
    )  # fmt: skip
    result: Tensor = attention.output(attended)
    return result


def _suits(width: int) -> bool:
    return width >= NARROWEST and width.bit_count() == 1


def _precision(tensor: Tensor) -> str:
    exact = tensor.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return "ieee" if exact else "tf32"


def _told(own: KeysValues, extra: FlatKeysValues | None) -> tuple[int, tuple[Tensor, ...]]:
    """How many slots there are, and what kernels want to know of them; without constraints, anything."""
    if extra is None:
        return 0, (*(own.keys,) * 3, own.keys.new_empty(0, dtype=torch.long))
    return extra.token.shape[1], laid_out(extra.keys, extra.values, extra.bias, extra.token)


def _alike(memory: KeysValues) -> KeysValues:
    """With keys and values that lie alike."""
    keys, values = in_rows(memory.keys), in_rows(memory.values)
    if keys.stride() != values.stride():
        keys, values = keys.contiguous(), values.contiguous()
    return KeysValues(keys, values)
