"""The output layer `copy` on a GPU while decoding, as three kernels instead of ninety small operations.

`output.py` and `coverage.py` say what is to be done, in tensor operations that run anywhere and can be trained; this
does the same with a slot of a sentence to each program, and in steps with a hypothesis. Needs Triton, which CUDA builds
of torch bring along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from termweave.accelerators import laid_out, row_width
from termweave.data.batches import ConstraintTensors
from termweave.model.coverage import Progress, Slots

if TYPE_CHECKING:
    from termweave.model.output import CopyOutput, OutputMemory, Scores

CHUNK = 128  # dimensions at a time, at least
MOST_AT_ONCE = 512  # at most: every further round would wait for memory once more
WARPS, REGISTERS = 4, 128  # of a program; of a thread, at most: so four programs share a processor
MOST_SLOTS = 128  # of a sentence
FEWEST_LANES = 16  # kernels for fewer slots would hardly be faster, and each takes a second to compile


@triton.jit(do_not_specialize=("slots",))
def _remember(
    products, tokens, number, keys, context, filled, first, last, slots,
    dimension: tl.constexpr, lanes: tl.constexpr, slot_lanes: tl.constexpr,
):  # fmt: skip
    """What `CopyOutput.remember` keeps of one slot; zeros where it is empty."""
    program = tl.program_id(0).to(tl.int64)
    row, slot = program // slots, tl.arange(0, slot_lanes)
    own = tl.load(number + program)
    same = tl.load(number + row * slots + slot, mask=slot < slots, other=-1) == own
    first_slot = tl.min(tl.where(same, slot, slots), axis=0)
    tl.store(first + program, first_slot.to(tl.int64))
    tl.store(last + program, tl.max(tl.where(same, slot, 0), axis=0).to(tl.int64))
    tl.store(filled + program, own > 0)
    at = tl.arange(0, lanes)
    inside = at < dimension
    is_filled = tl.where(own > 0, inside, False)
    continues = tl.where(first_slot < program % slots, is_filled, False)
    here = products + tl.load(tokens + program) * (3 * dimension) + at
    before = products + tl.load(tokens + tl.maximum(program - 1, 0)) * (3 * dimension) + at
    key = tl.load(here, mask=is_filled, other=0.0) + tl.load(before + dimension, mask=continues, other=0.0)
    seen = tl.load(here + 2 * dimension, mask=is_filled, other=0.0)
    to = program * dimension + at
    tl.store(keys + to, key, mask=inside)
    tl.store(context + to, seen, mask=inside)


@triton.jit
def _marks(slot, is_slot, first, running, done):
    """`Slots.marks`: 0 START, 1 NEXT, 2 LATER, 3 DONE."""
    leads = tl.load(first + slot, mask=is_slot, other=-1) == slot
    before = tl.load(running + slot - 1, mask=is_slot & (slot > 0), other=0) != 0
    finished = tl.load(done + slot, mask=is_slot, other=1) != 0
    return tl.where(finished, 3, tl.where(leads, 0, tl.where(before, 1, 2)))


@triton.jit
def _with_copied(own, shares, token, is_filled, smallest):
    """log P of each slot's token. One that stands in several slots gets the sum of their shares, in each of them."""
    same = (token[:, None] == token[None, :]) & is_filled[None, :]
    copied = tl.log(tl.maximum(tl.sum(tl.where(same, shares[None, :], 0.0), axis=1), smallest))
    higher = tl.maximum(own, copied)
    return higher + tl.log(1 + tl.exp(tl.minimum(own, copied) - higher))


@triton.jit(do_not_specialize=("slots", "beam"))
def _mix(
    queries, from_state, keys, context, context_bias, mark_keys, null, mark_weights, gate_weight, gate_bias,
    tokens, filled, first, running, done, values, offset, new_offset,
    value_width, slots, beam, width, scale, smallest,
    dimension: tl.constexpr, lanes: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    """`CopyOutput.mix` of one hypothesis: changes `values` at the tokens of constraints, in place.

    width: how far apart the rows of `queries` and of `from_state` lie; mark_weights: (5, d).
    """
    program = tl.program_id(0).to(tl.int64)
    row = program // beam
    slot = tl.arange(0, lanes)
    is_slot = slot < slots
    is_filled = tl.load(filled + row * slots + slot, mask=is_slot, other=0) != 0
    token = tl.load(tokens + row * slots + slot, mask=is_slot, other=0)
    marks = _marks(slot, is_slot, first + row * slots, running + program * slots, done + program * slots)
    is_open = tl.max(((marks != 3) & is_filled).to(tl.int32), axis=0)
    # Asked for before they are needed, as below: memory takes as long to answer as all of the work here.
    where = values + program * value_width + token
    own = tl.load(where, mask=is_filled, other=0.0)
    so_far, bias = tl.load(offset + program), tl.load(gate_bias)

    # Attention over [null; slots]. Products are summed up behind the loop: in it, no thread need wait for another.
    products = tl.zeros([lanes, chunk], dtype=tl.float32)
    null_products = tl.zeros([chunk], dtype=tl.float32)
    place = (row * slots + slot)[:, None] * dimension
    for start in range(0, dimension, chunk):
        at = start + tl.arange(0, chunk)
        query = tl.load(queries + program * width + at) * scale
        key = tl.load(keys + place + at[None, :], mask=is_filled[:, None], other=0.0)
        key += tl.load(mark_keys + marks[:, None] * dimension + at[None, :], mask=is_filled[:, None], other=0.0)
        products += key * query[None, :]
        null_products += query * tl.load(null + is_open * dimension + at)
    score = tl.where(is_filled, tl.sum(products, axis=1), float("-inf"))
    null_score = tl.sum(null_products, axis=0)
    at = tl.arange(0, chunk)  # of the gate, the first time
    seen = tl.load(context + place + at[None, :], mask=is_filled[:, None], other=0.0)
    said = tl.load(from_state + program * width + at)
    highest = tl.maximum(tl.max(score, axis=0), null_score)
    power = tl.exp(score - highest)
    attention = power / (tl.sum(power, axis=0) + tl.exp(null_score - highest))

    # The gate. What the marks add depends on how much attention each of them gets, not on every slot.
    starts = tl.sum(tl.where(marks == 0, attention, 0.0), axis=0)
    nexts = tl.sum(tl.where(marks == 1, attention, 0.0), axis=0)
    laters = tl.sum(tl.where(marks == 2, attention, 0.0), axis=0)
    dones = tl.sum(tl.where(marks == 3, attention, 0.0), axis=0)
    gates = tl.zeros([chunk], dtype=tl.float32)
    for start in range(0, dimension, chunk):
        at = start + tl.arange(0, chunk)
        if start > 0:
            seen = tl.load(context + place + at[None, :], mask=is_filled[:, None], other=0.0)
            said = tl.load(from_state + program * width + at)
        weights = mark_weights + at
        hidden = starts * tl.load(weights) + nexts * tl.load(weights + dimension)
        hidden += laters * tl.load(weights + 2 * dimension) + dones * tl.load(weights + 3 * dimension)
        hidden += is_open * tl.load(weights + 4 * dimension)
        hidden += said + tl.load(context_bias + at) + tl.sum(seen * attention[:, None], axis=0)
        gates += (2 * tl.sigmoid(2 * hidden) - 1) * tl.load(gate_weight + at)  # the bracket is tanh
    shares = tl.sigmoid(tl.sum(gates, axis=0) + bias) * attention
    rest = tl.maximum(1 - tl.sum(shares, axis=0), smallest)
    base = so_far + tl.log(rest)
    tl.store(new_offset + program, base)
    tl.store(where, _with_copied(own + base, shares, token, is_filled, smallest) - base, mask=is_filled)


@triton.jit(do_not_specialize=("slots", "before", "beam"))
def _advance(
    tokens, first, last, running, done, used, parents, newest, new_running, new_done, new_used, slots, before, beam,
    lanes: tl.constexpr,
):  # fmt: skip
    """`Slots.advance` of one hypothesis, after `Progress.reorder`; before: how many hypotheses there were."""
    program = tl.program_id(0).to(tl.int64)
    row = program // beam
    slot = tl.arange(0, lanes)
    is_slot = slot < slots
    parent = (row * before + tl.load(parents + program)) * slots
    token = tl.load(newest + program)
    own, end = row * slots, tl.load(last + row * slots + slot, mask=is_slot, other=0)
    here = tl.load(tokens + own + slot, mask=is_slot, other=-1) == token
    begun = tl.load(running + parent + slot - 1, mask=is_slot & (slot > 0), other=0) != 0
    begun = begun | (tl.load(first + own + slot, mask=is_slot, other=-1) == slot)
    # The same for the last slot of the constraint: is the whole of it there?
    whole = tl.load(tokens + own + end, mask=is_slot, other=-1) == token
    up_to = tl.load(running + parent + end - 1, mask=is_slot & (end > 0), other=0) != 0
    whole = whole & (up_to | (tl.load(first + own + end, mask=is_slot, other=-1) == end))
    to = program * slots + slot
    tl.store(new_running + to, here & begun, mask=is_slot)
    tl.store(new_done + to, whole | (tl.load(done + parent + slot, mask=is_slot, other=0) != 0), mask=is_slot)
    tl.store(new_used + to, here | (tl.load(used + parent + slot, mask=is_slot, other=0) != 0), mask=is_slot)


def slot_lanes(slots: int) -> int:
    """Room for the slots of a sentence."""
    return max(int(triton.next_power_of_2(slots)), FEWEST_LANES)


def can_remember(constraints: ConstraintTensors) -> bool:
    return constraints.target.number.shape[1] <= MOST_SLOTS


def remember(constraints: ConstraintTensors, products: Tensor) -> tuple[Tensor, Tensor, Tensor, Slots]:
    """Keys, contexts, which slots are filled, and the slots themselves, as in `OutputMemory`.

    products: (tokens, 3 d), of each flat token its key, what it adds to the key of the token behind it, its context.
    There are fewer flat tokens than slots, and so less to multiply.
    """
    side = constraints.target
    batch, slots = side.number.shape
    dimension = products.shape[1] // 3
    keys, context = (products.new_empty(batch, slots, dimension) for _ in range(2))
    filled = torch.empty_like(side.number, dtype=torch.bool)
    first, last = torch.empty_like(side.number), torch.empty_like(side.number)
    _remember[(batch * slots,)](
        products, *laid_out(side.token_of_slot(), side.number), keys, context, filled, first, last, slots,
        dimension=dimension, lanes=int(triton.next_power_of_2(dimension)), slot_lanes=slot_lanes(slots),
    )  # fmt: skip
    return keys, context, filled, Slots(constraints.target_tokens, first, last)


def can_mix(memory: OutputMemory, dimension: int) -> bool:
    return memory.tokens.shape[1] <= MOST_SLOTS and dimension % CHUNK == 0


def mix(
    layer: CopyOutput, states: Tensor, model: Scores, memory: OutputMemory, progress: Progress, smallest: float
) -> Tensor:
    """Change the values of `model` in place; returns the new offset, (batch, hypotheses)."""
    assert memory.keys is not None and memory.context is not None and memory.slots is not None
    batch, beam, dimension = states.shape
    slots = memory.tokens.shape[1]
    new_offset = torch.empty(batch, beam, device=states.device)
    given = model.from_states
    queries, from_state = layer.from_states(states) if given is None else given.chunk(2, dim=-1)
    _mix[(batch * beam,)](
        queries, from_state, *laid_out(memory.keys, memory.context, layer.context.bias),
        *laid_out(layer.mark_keys, layer.null, layer.mark_weights, layer.gate.weight, layer.gate.bias),
        *laid_out(memory.tokens, memory.filled, memory.slots.first, progress.running, progress.done),
        model.values, model.offset.contiguous(), new_offset,
        row_width(model.values), slots, beam, row_width(queries), dimension**-0.5, smallest,
        dimension=dimension, lanes=slot_lanes(slots), chunk=min(dimension & -dimension, MOST_AT_ONCE),
        num_warps=WARPS, maxnreg=REGISTERS if slot_lanes(slots) == FEWEST_LANES else None,
    )  # fmt: skip
    return new_offset


def advance(slots: Slots, progress: Progress, parents: Tensor, tokens: Tensor) -> Progress:
    """The progress of hypotheses that continue `parents` with `tokens`, (batch, beam) each."""
    (batch, beam), (_, before, count) = parents.shape, progress.done.shape
    shape = (batch, beam, count)
    new = Progress(*(torch.empty(shape, dtype=torch.bool, device=parents.device) for _ in range(3)))
    _advance[(batch * beam,)](
        *laid_out(slots.tokens, slots.first, slots.last, progress.running, progress.done, progress.used),
        *laid_out(parents, tokens), new.running, new.done, new.used,
        count, before, beam, lanes=slot_lanes(count),
    )  # fmt: skip
    return new
