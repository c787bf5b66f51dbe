"""The best continuations of each sentence on a GPU, as one kernel instead of some thirty small operations.

`candidates.py` says what is to be done, and why that is exact; this does the same with a sentence to each program.
What is sorted there is found one after the other here: the few best of numbers of which no two are equal, because the
bits of a score stand above the place it came from. Needs Triton, which CUDA builds of torch bring along.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from termweave.accelerators import laid_out, row_width

MOST_HYPOTHESES = 16
MOST_LANES = 8192  # chunks of all hypotheses of a sentence
# Of a hypothesis and a token, whose chunks are looked at again together; a few, or more where these would take turns.
PAIRS, MORE_PAIRS = 64, 128
LOWEST_KEY = tl.constexpr(-(2**63))
SIZES = ("beam", "count", "touched_count")


@triton.jit
def sortable(score, place):
    """Numbers in the order of the scores, equal ones by their place: see `candidates._best`."""
    bits = score.to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
    return ordered * 4294967296 - place


@triton.jit
def _place(key):
    return ((-key) & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def _score(key):
    ordered = ((key + 4294967295) >> 32).to(tl.int32)
    return tl.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered).to(tl.float32, bitcast=True)


@triton.jit
def _look_again(
    values, maxima, touched, row, width, vocabulary, chunks, beam, touched_count,
    chunk: tl.constexpr, pairs: tl.constexpr,
):  # fmt: skip
    """The maxima of chunks that hold tokens whose scores have changed."""
    for first in range(0, beam * touched_count, pairs):
        pair = first + tl.arange(0, pairs)
        is_pair = pair < beam * touched_count
        hypothesis = row * beam + pair // touched_count
        number = tl.load(touched + row * touched_count + pair % touched_count, mask=is_pair, other=0) // chunk
        token = number[:, None] * chunk + tl.arange(0, chunk)[None, :]
        there = is_pair[:, None] & (token < vocabulary)
        value = tl.load(values + hypothesis[:, None] * width + token, mask=there, other=float("-inf"))
        tl.store(maxima + hypothesis * chunks + number, tl.max(value, axis=1), mask=is_pair)
    tl.debug_barrier()


@triton.jit
def _best_chunks(maxima, so_far, offset, row, chunks, beam, count, lanes: tl.constexpr, kept: tl.constexpr):
    """(kept,): the places of the best `count` chunks, −1 behind them. The first are those of the first hypothesis."""
    lane = tl.arange(0, lanes)
    is_lane = lane < beam * chunks
    parent = row * beam + lane // chunks
    base = tl.load(so_far + parent, mask=is_lane, other=0.0) + tl.load(offset + parent, mask=is_lane, other=0.0)
    largest = tl.load(maxima + row * beam * chunks + lane, mask=is_lane, other=0.0)
    key = tl.where(is_lane, sortable(largest + base, lane), LOWEST_KEY)
    chosen = tl.full([kept], -1, tl.int32)
    for step in range(count):
        best = tl.max(key, axis=0)
        key = tl.where(key == best, LOWEST_KEY, key)
        here = (tl.arange(0, kept) == step) & (best > LOWEST_KEY)
        chosen = tl.where(here, _place(best), chosen)
    return chosen


@triton.jit
def _best_of_each(
    values, maxima, so_far, offset, own_scores, own_tokens, row, width, vocabulary, chunks, beam,
    hypotheses: tl.constexpr, chunk: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """`candidates.best_of_each`."""
    lane = tl.arange(0, hypotheses)
    real = lane < beam
    hypothesis = row * beam + lane
    best = tl.full([hypotheses], LOWEST_KEY, tl.int64)
    for first in range(0, chunks, block):
        number = first + tl.arange(0, block)[None, :]
        there = real[:, None] & (number < chunks)
        largest = tl.load(maxima + hypothesis[:, None] * chunks + number, mask=there, other=0.0)
        best = tl.maximum(best, tl.max(tl.where(there, sortable(largest, number), LOWEST_KEY), axis=1))
    token = _place(best)[:, None] * chunk + tl.arange(0, chunk)[None, :]
    there = real[:, None] & (token < vocabulary)
    value = tl.load(values + hypothesis[:, None] * width + token, mask=there, other=0.0)
    best = tl.max(tl.where(there, sortable(value, token), LOWEST_KEY), axis=1)
    score = _score(best) + tl.load(offset + hypothesis, mask=real, other=0.0)
    tl.store(own_scores + hypothesis, score + tl.load(so_far + hypothesis, mask=real, other=0.0), mask=real)
    tl.store(own_tokens + hypothesis, _place(best).to(tl.int64), mask=real)


@triton.jit(do_not_specialize=SIZES)
def _select(
    values, maxima, so_far, offset, touched, scores, parents, tokens, own_scores, own_tokens,
    width, vocabulary, chunks, beam, count, touched_count,
    lanes: tl.constexpr, kept: tl.constexpr, hypotheses: tl.constexpr, chunk: tl.constexpr, pairs: tl.constexpr,
    each: tl.constexpr,
):  # fmt: skip
    """`candidates.best_candidates` of one sentence, and with `each` the best of each hypothesis."""
    row = tl.program_id(0).to(tl.int64)
    _look_again(values, maxima, touched, row, width, vocabulary, chunks, beam, touched_count, chunk, pairs)
    chosen = _best_chunks(maxima, so_far, offset, row, chunks, beam, count, lanes, kept)
    parent, number = tl.maximum(chosen, 0) // chunks, tl.maximum(chosen, 0) % chunks
    token = number[:, None] * chunk + tl.arange(0, chunk)[None, :]
    there = (chosen >= 0)[:, None] & (token < vocabulary)
    base = tl.load(so_far + row * beam + parent) + tl.load(offset + row * beam + parent)
    value = tl.load(values + (row * beam + parent)[:, None] * width + token, mask=there, other=0.0)
    key = sortable(value + base[:, None], parent[:, None] * vocabulary + token)
    key = tl.where(there, key, LOWEST_KEY)
    for step in range(count):
        best = tl.max(tl.max(key, axis=1), axis=0)
        key = tl.where(key == best, LOWEST_KEY, key)
        exists = best > LOWEST_KEY
        place = tl.where(exists, _place(best), 0)
        tl.store(scores + row * count + step, tl.where(exists, _score(best), float("-inf")))
        tl.store(parents + row * count + step, (place // vocabulary).to(tl.int64))
        tl.store(tokens + row * count + step, (place % vocabulary).to(tl.int64))
    if each:
        _best_of_each(
            values, maxima, so_far, offset, own_scores, own_tokens, row, width, vocabulary, chunks, beam,
            hypotheses, chunk, 128,
        )  # fmt: skip


def can_select(beam: int, chunks: int) -> bool:
    return beam <= MOST_HYPOTHESES and beam * chunks <= MOST_LANES


def select(
    values: Tensor, maxima: Tensor, so_far: Tensor, offset: Tensor, touched: Tensor, count: int, chunk: int, each: bool
) -> tuple[Tensor, ...]:
    """Scores, parents and tokens of the best, (batch, count) each; scores and tokens of each hypothesis' own best.

    maxima: corrected in place where tokens are `touched`, (batch, n); own best: made only with `each`.
    """
    batch, beam, vocabulary = values.shape
    chunks = maxima.shape[2]
    of_sentence, of_each = (batch, count), (batch, beam if each else 0)
    found = tuple(
        torch.empty(shape, dtype=kind, device=values.device)
        for shape, kinds in (
            (of_sentence, (torch.float32, torch.long, torch.long)),
            (of_each, (torch.float32, torch.long)),
        )
        for kind in kinds
    )
    lanes, kept = int(triton.next_power_of_2(beam * chunks)), int(triton.next_power_of_2(count))
    pairs = PAIRS if beam * touched.shape[1] <= PAIRS else MORE_PAIRS
    assert maxima.is_contiguous()
    _select[(batch,)](
        values, maxima, *laid_out(so_far, offset, touched), *found,
        row_width(values), vocabulary, chunks, beam, count, touched.shape[1],
        lanes=lanes, kept=kept, hypotheses=int(triton.next_power_of_2(beam)), chunk=chunk, pairs=pairs, each=each,
        num_warps=8,
    )  # fmt: skip
    return found
