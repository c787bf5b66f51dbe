"""What follows from the candidates of a step, on a GPU: one kernel instead of some fifty small operations.

`beam.py` says what is to be done, in `_collect_finished`, `_keep_best` and `_done`; this does the same with a sentence
to each program, and writes it where the state was. So nothing is copied back onto a stage. All that a program reads of
what it overwrites, it reads before a barrier. Needs Triton, which CUDA builds of torch bring along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl
from torch import Tensor

from termweave.accelerators import laid_out, row_width
from termweave.decoding.selection_kernels import LOWEST_KEY, sortable
from termweave.model.copy_kernels import slot_lanes

if TYPE_CHECKING:
    from termweave.decoding.beam import BeamState, SearchOptions
    from termweave.decoding.candidates import Candidates
    from termweave.decoding.vdba import Place
    from termweave.model.output import Scores

MOST_HYPOTHESES = 16
MOST_SLOTS = 128  # tokens of a sentence's constraints
BLOCK = 64  # tokens of an output at a time
SIZES = ("value_width", "end", "beam", "width", "capacity", "slots")


@triton.jit
def _power(length, penalty):
    """length ** penalty; exactly so where there is none, and with the usual one."""
    length = length.to(tl.float32)
    return tl.where(penalty == 1.0, length, tl.exp(penalty * tl.log(length)))


@triton.jit
def _rank(key):
    """How many are before each, that is larger; no two are equal."""
    return tl.sum((key[None, :] > key[:, None]).to(tl.int32), axis=1)


@triton.jit
def _only_ending(scores, parents, tokens, values, so_far, offset, value_width, end, beam, lane):
    """`candidates.only_ending`; all are those of one sentence."""
    real, is_lane = lane < beam, lane < 2 * beam
    total = tl.load(so_far + lane, mask=real, other=0.0) + tl.load(offset + lane, mask=real, other=0.0)
    total += tl.load(values + lane * value_width + end, mask=real, other=float("-inf"))
    rank = _rank(tl.where(is_lane, sortable(tl.where(real, total, float("-inf")), lane), LOWEST_KEY))
    tl.store(scores + rank, tl.where(real, total, float("-inf")), mask=is_lane)
    tl.store(parents + rank, tl.where(real, lane, 0).to(tl.int64), mask=is_lane)
    tl.store(tokens + rank, (lane * 0 + end).to(tl.int64), mask=is_lane)


@triton.jit
def _follow(
    slot_tokens, first, last, running, done, used, parent, token, to, kept, slots, slot_lanes: tl.constexpr
):  # fmt: skip
    """`Slots.follow`; all are those of one sentence."""
    slot = tl.arange(0, slot_lanes)
    is_slot = slot < slots
    here = (tl.load(slot_tokens + slot, mask=is_slot, other=-1)[None, :] == token[:, None]) & is_slot[None, :]
    leads = tl.load(first + slot, mask=is_slot, other=-1) == slot
    end = tl.load(last + slot, mask=is_slot, other=0)
    end_leads = tl.load(first + end, mask=is_slot, other=-1) == end
    end_token = tl.load(slot_tokens + end, mask=is_slot, other=-1)
    there = kept[:, None] & is_slot[None, :]
    own = parent[:, None] * slots
    begun = tl.load(running + own + slot[None, :] - 1, mask=there & (slot > 0)[None, :], other=0) != 0
    up_to = tl.load(running + own + end[None, :] - 1, mask=there & (end > 0)[None, :], other=0) != 0
    whole = (end_token[None, :] == token[:, None]) & (up_to | end_leads[None, :])
    whole = whole | (tl.load(done + own + slot[None, :], mask=there, other=0) != 0)
    seen = here | (tl.load(used + own + slot[None, :], mask=there, other=0) != 0)
    tl.debug_barrier()
    places = to[:, None] * slots + slot[None, :]
    tl.store(running + places, here & (begun | leads[None, :]), mask=there)
    tl.store(done + places, whole, mask=there)
    tl.store(used + places, seen, mask=there)


@triton.jit
def _pool(scores, parents, tokens, finished_scores, finished_logs, searching, now, limit, counted, end, beam, penalty,
          lane, cut: tl.constexpr):  # fmt: skip
    """Who competes for a place in the finished list: what is there, and behind it the best `beam` candidates."""
    is_old, is_new = lane < beam, (lane >= beam) & (lane < 2 * beam)
    token = tl.load(tokens + lane - beam, mask=is_new, other=0)
    parent = tl.load(parents + lane - beam, mask=is_new, other=0)
    ends = token == end
    if cut:
        ends = tl.where(now >= limit, is_new, ends)
    log = tl.load(scores + lane - beam, mask=is_new & ends, other=float("-inf"))
    log = tl.where(searching, log, float("-inf"))
    normalised = log / _power(tl.minimum(now, counted), penalty)
    log = tl.where(is_old, tl.load(finished_logs + lane, mask=is_old, other=0.0), log)
    normalised = tl.where(is_old, tl.load(finished_scores + lane, mask=is_old, other=0.0), normalised)
    rank = _rank(tl.where(is_old | is_new, sortable(normalised, lane), LOWEST_KEY))
    return token, parent, log, normalised, rank, (is_old | is_new) & (rank < beam)


@triton.jit
def _kept(score, token, end, beam, lane):
    """Where each candidate goes, those that end behind the others; whether it gets a place; whether it is open."""
    is_lane = lane < 2 * beam
    is_open = is_lane & (token != end) & (score != float("-inf"))
    before = lane[None, :] < lane[:, None]
    open_before = tl.sum((is_open[None, :] & before).to(tl.int32), axis=1)
    others_before = tl.sum(((is_lane & ~is_open)[None, :] & before).to(tl.int32), axis=1)
    to = tl.where(is_open, open_before, tl.sum(is_open.to(tl.int32), axis=0) + others_before)
    return to, is_lane & (to < beam), is_open


@triton.jit
def _copy_rows(
    state_tokens, finished_tokens, ancestry, parent, token, to, kept, new_parent, new_token, rank, chosen, lane,
    now, beam, width, capacity, block: tl.constexpr,
):  # fmt: skip
    """The tokens of hypotheses and of the finished list with one more, and who descends from whom.

    Behind the newest token nothing differs between rows: all have end marks there, and no ancestors.
    """
    is_old = (lane < beam)[:, None]
    for start in range(0, now + 1, block):
        at = (start + tl.arange(0, block))[None, :]
        past = at < now
        own = tl.load(state_tokens + parent[:, None] * width + at, mask=kept[:, None] & past, other=0)
        slot = tl.load(ancestry + parent[:, None] * capacity + at, mask=kept[:, None] & past, other=0)
        listed = chosen[:, None] & (at <= now)
        other = tl.load(finished_tokens + lane[:, None] * width + at, mask=listed & is_old, other=0)
        ended = tl.load(state_tokens + new_parent[:, None] * width + at, mask=listed & ~is_old & past, other=0)
        ended = tl.where(past, ended, new_token[:, None])
        tl.debug_barrier()
        own = tl.where(past, own, token[:, None])
        tl.store(state_tokens + to[:, None] * width + at, own, mask=kept[:, None] & (at <= now))
        tl.store(ancestry + to[:, None] * capacity + at, slot, mask=kept[:, None] & past)
        tl.store(finished_tokens + rank[:, None] * width + at, tl.where(is_old, other, ended), mask=listed)


@triton.jit(do_not_specialize=SIZES)
def _finish(
    scores, parents, tokens, values, offset, limits, position, searching, state_scores, newest, state_tokens, ancestry,
    finished_scores, finished_logs, finished_tokens, enough, usual, new_nodes, new_bits, nodes, bits,
    slot_tokens, first, last, running, done, used,
    value_width, end, beam, width, capacity, slots, penalty,
    lanes: tl.constexpr, slot_lanes: tl.constexpr, block: tl.constexpr, cut: tl.constexpr,
    has_place: tl.constexpr, has_progress: tl.constexpr,
):  # fmt: skip
    """The rest of `beam.take_step`, of one sentence."""
    row = tl.program_id(0).to(tl.int64)
    hypotheses, candidates = row * beam, row * beam * 2
    lane = tl.arange(0, lanes)
    is_lane = lane < 2 * beam
    now, limit = tl.load(position).to(tl.int32), tl.load(limits + row).to(tl.int32)
    is_searching, counted = tl.load(searching + row) != 0, tl.load(usual + row).to(tl.int32)
    if now > limit:
        _only_ending(
            scores + candidates, parents + candidates, tokens + candidates, values + hypotheses * value_width,
            state_scores + hypotheses, offset + hypotheses, value_width, end, beam, lane,
        )  # fmt: skip
        tl.debug_barrier()

    score = tl.load(scores + candidates + lane, mask=is_lane, other=float("-inf"))
    parent = tl.load(parents + candidates + lane, mask=is_lane, other=0)
    token = tl.load(tokens + candidates + lane, mask=is_lane, other=0)
    new_token, new_parent, log, normalised, rank, chosen = _pool(
        scores + candidates, parents + candidates, tokens + candidates, finished_scores + hypotheses,
        finished_logs + hypotheses, is_searching, now, limit, counted, end, beam, penalty, lane, cut,
    )  # fmt: skip
    to, kept, is_open = _kept(score, token, end, beam, lane)
    _copy_rows(
        state_tokens + hypotheses * width, finished_tokens + hypotheses * width, ancestry + hypotheses * capacity,
        parent, token, to, kept, new_parent, new_token, rank, chosen, lane, now, beam, width, capacity, block,
    )  # fmt: skip
    if has_progress:
        own, table = hypotheses * slots, row * slots
        _follow(
            slot_tokens + table, first + table, last + table, running + own, done + own, used + own,
            parent, token, to, kept, slots, slot_lanes,
        )  # fmt: skip
    if has_place:
        node = tl.load(new_nodes + candidates + lane, mask=kept, other=0)
        tl.store(nodes + hypotheses + to, node, mask=kept)
        tl.store(bits + hypotheses + to, tl.load(new_bits + candidates + lane, mask=kept, other=0), mask=kept)
    score = tl.where(is_open, score, float("-inf"))
    tl.store(state_scores + hypotheses + to, score, mask=kept)
    tl.store(newest + hypotheses + to, token, mask=kept)
    tl.store(finished_scores + hypotheses + rank, normalised, mask=chosen)
    tl.store(finished_logs + hypotheses + rank, log, mask=chosen)

    # `_done`: is enough finished, and would the best open hypothesis not get among that by ending now?
    awaited = tl.load(enough + row).to(tl.int32) - 1
    worst = tl.max(tl.where(chosen & (rank == awaited), normalised, float("-inf")), axis=0)
    ending_now = tl.max(tl.where(kept, score, float("-inf")), axis=0)
    ending_now /= _power(tl.minimum(now + 1, counted), penalty)
    is_done = (worst >= ending_now) | ((now >= limit) if cut else (now > limit))
    tl.store(searching + row, tl.where(is_done, False, is_searching))


def can_finish(state: BeamState) -> bool:
    slots = state.progress.done.shape[2] if state.progress else 0
    return state.cache.beam <= MOST_HYPOTHESES and slots <= MOST_SLOTS


def finish(
    state: BeamState, candidates: Candidates, places: Place | None, scores: Scores, end: int, options: SearchOptions
) -> None:
    """Change the tensors of the state; candidates: overwritten where a sentence has reached its limit."""
    batch, beam, width = state.tokens.shape
    slots, progress = _progress(state)
    count = slots[0].shape[1] if state.progress else 0
    nothing = (state.limits, state.limits)
    before = nothing if places is None else (places.nodes, places.bits)
    after = nothing if state.place is None else (state.place.nodes, state.place.bits)
    hypotheses = (state.searching, state.scores, state.newest, state.tokens, state.cache.ancestry)
    finished = (state.finished_scores, state.finished_logs, state.finished_tokens, state.enough, state.usual)
    assert all(tensor.is_contiguous() for tensor in (*hypotheses, *finished, *before, *after, *progress))
    _finish[(batch,)](
        candidates.scores, candidates.parents, candidates.tokens, scores.values,
        *laid_out(scores.offset, state.limits, state.length),
        *hypotheses, *finished, *before, *after, *slots, *progress,
        row_width(scores.values), end, beam, width, state.cache.capacity, count, options.length_penalty,
        lanes=int(triton.next_power_of_2(2 * beam)), slot_lanes=slot_lanes(count),
        block=BLOCK, cut=options.cut, has_place=places is not None, has_progress=state.progress is not None,
    )  # fmt: skip


def _progress(state: BeamState) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The slots of constraints, and how far they have been produced; where nobody asks, anything."""
    if state.progress is None:
        return (state.limits,) * 3, (state.limits,) * 3
    assert state.memory.output is not None and state.memory.output.slots is not None
    slots, own = state.memory.output.slots, state.progress
    return laid_out(slots.tokens, slots.first, slots.last), (own.running, own.done, own.used)
