"""Bank allocation on a GPU, as two kernels instead of some hundred and forty small operations.

`vdba.py` says what is to be done, in tensor operations that run anywhere; this does the same, number for number, with a
sentence to each program: its candidates lie side by side in the program's registers, and where the tensors sort, those
that are kept are found one after the other. All sizes but the number of lanes are ordinary arguments, so that whatever
the constraints are, the kernels are compiled once. Needs Triton, which CUDA builds of torch bring along.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from termweave.accelerators import laid_out, row_width
from termweave.decoding.automaton import MOST_BITS, Automaton
from termweave.decoding.selection_kernels import sortable

LANES, MOST_LANES = 256, 1024  # candidates of a sentence: mostly, and at most
FAR = tl.constexpr(2**24)  # more tokens than are ever missing
ALWAYS = tl.constexpr(1 << MOST_BITS)  # `automaton.ALWAYS`
LOWEST, LOWEST_KEY = tl.constexpr(-(2**30)), tl.constexpr(-(2**63))
SIZES = ("width", "end", "count", "listed", "beam", "columns", "node_count", "phrases", "bit_count")


class Chosen(NamedTuple):
    """What `choose` returns, (batch, count) each."""

    scores: Tensor
    parents: Tensor
    tokens: Tensor
    nodes: Tensor
    bits: Tensor


@triton.jit
def _closed(node, bits, ordered, completes, lowest):
    """`Automaton.closed`."""
    complete = tl.load(completes + node)
    low = tl.load(lowest + node)
    unordered = bits | ((((bits & complete) << 1) | low) & complete)
    in_order = bits | ((bits + 1) & complete)
    return tl.where(ordered != 0, in_order, unordered)


@triton.jit
def _barred(node, bits, forbidden):
    """`Automaton.barred`."""
    needed = tl.load(forbidden + node)
    return (needed != 0) & ((needed & ~(bits | ALWAYS)) == 0)


@triton.jit
def _missing(node, bits, closed, ordered, forbidden, gains, inner_gains, phrase_bits, bit_length, phrases, bit_count):
    """`Automaton.missing`; closed: the bits if the word ended here."""
    new_word, same_word = tl.zeros_like(bits), tl.zeros_like(bits)
    for bit in range(bit_count):
        length = tl.load(bit_length + bit)
        new_word += (1 - ((closed >> bit) & 1)) * length
        same_word += (1 - ((bits >> bit) & 1)) * length
    new_open, same_open = tl.where(ordered != 0, closed + 1, ~closed), tl.where(ordered != 0, bits + 1, ~bits)
    new_saved, same_saved = tl.zeros_like(bits), tl.zeros_like(bits)
    for phrase in range(phrases):
        own, at = tl.load(phrase_bits + phrase), node * phrases + phrase
        new_saved = tl.maximum(new_saved, tl.where((new_open & own) != 0, tl.load(gains + at), 0))
        same_saved = tl.maximum(same_saved, tl.where((same_open & own) != 0, tl.load(inner_gains + at), 0))
    stuck = _barred(node, bits, forbidden).to(tl.int64)
    same_stuck = tl.where(same_saved > 0, 0, stuck)
    return tl.minimum(new_word - new_saved + stuck, same_word - same_saved + same_stuck)


@triton.jit
def _candidates(
    lane, is_best, is_own, is_column, best_scores, best_parents, best_tokens, own_scores, own_tokens, tokens, values,
    so_far, offset, width, end, listed, beam, columns,
):  # fmt: skip
    """`vdba._all_candidates`: the three kinds, side by side; what stands there twice is possible once."""
    own = lane - listed
    place = own - beam
    column = place % (columns + 1)  # the end stands behind the columns
    parent = tl.load(best_parents + lane, mask=is_best, other=0)
    parent = tl.where(is_own, own, parent)
    parent = tl.where(is_column, place // (columns + 1), parent)
    token = tl.load(best_tokens + lane, mask=is_best, other=-1)
    token = tl.where(is_own, tl.load(own_tokens + own, mask=is_own, other=-1), token)
    token = tl.where(is_column, tl.load(tokens + column, mask=is_column & (column < columns), other=end), token)
    possible = token >= 0
    token = tl.maximum(token, 0)
    score = tl.load(best_scores + lane, mask=is_best, other=float("-inf"))
    score = tl.where(is_own, tl.load(own_scores + own, mask=is_own, other=float("-inf")), score)
    value = tl.load(values + parent * width + token, mask=is_column, other=float("-inf"))
    score = tl.where(is_column, value + (tl.load(so_far + parent) + tl.load(offset + parent)), score)
    for index in range(listed):
        again = (token == tl.load(best_tokens + index)) & (parent == tl.load(best_parents + index))
        possible = possible & ~(is_own & again)
    for index in range(columns):
        possible = possible & (is_column | (token != tl.load(tokens + index)))
    possible = possible & (is_column | (token != end))
    return parent, token, score, possible, column


@triton.jit
def _next(is_open, key, bank, cursor, aware: tl.constexpr):
    """Who is next in `vdba.allocate` or `vdba.climb`: whether there is anyone, who, and the cursor behind it.

    cursor: the bank that was served last, or to climb, the fullest so far.
    """
    # To climb, who is ahead of all that score better comes before the others; else banks go round.
    turn = (bank > cursor).to(tl.int32) if aware else tl.where(bank < cursor, bank, bank - FAR)
    first = tl.max(tl.where(is_open, turn, LOWEST), axis=0)
    is_open = is_open & (turn == first)
    best = tl.max(tl.where(is_open, key, LOWEST_KEY), axis=0)
    is_next = is_open & (key == best)
    served = tl.max(tl.where(is_next, bank, LOWEST), axis=0)
    if aware:
        served = tl.maximum(served, cursor)
    return first > LOWEST, is_next, served


@triton.jit(do_not_specialize=SIZES)
def _choose(
    best_scores, best_parents, best_tokens, own_scores, own_tokens, values, so_far, offset, wished, nodes, bits, limits,
    position,
    tokens, next_node, open_end, completes, lowest, forbidden, gains, inner_gains, phrase_bits, bit_length,
    all_ordered, inner_start, vocabulary_open_end,
    out_scores, out_parents, out_tokens, out_nodes, out_bits,
    width, end, count, listed, beam, columns, node_count, phrases, bit_count,
    lanes: tl.constexpr, aware: tl.constexpr,
):  # fmt: skip
    """`vdba.choose_by_bank` of one sentence."""
    row = tl.program_id(0).to(tl.int64)
    hypotheses, table = row * beam, row * node_count
    lane = tl.arange(0, lanes)
    is_best = lane < listed
    is_own = (lane >= listed) & (lane < listed + beam)
    is_column = (lane >= listed + beam) & (lane < listed + beam + beam * (columns + 1))
    parent, token, score, possible, column = _candidates(
        lane, is_best, is_own, is_column, best_scores + row * listed, best_parents + row * listed,
        best_tokens + row * listed, own_scores + hypotheses, own_tokens + hypotheses, tokens + row * columns,
        values + hypotheses * width, so_far + hypotheses, offset + hypotheses, width, end, listed, beam,
        columns,
    )  # fmt: skip

    # `vdba._follow`: where they lead, what is missing then, and which of them must not be.
    ordered = tl.load(all_ordered + row).to(tl.int64)
    node, bit = tl.load(nodes + hypotheses + parent), tl.load(bits + hypotheses + parent)
    joined = (tl.load(open_end + table + node) != 0) & (tl.load(inner_start + token) != 0)
    closed = _closed(node, bit, ordered, completes + table, lowest + table)
    after_bits = tl.where(joined, bit, closed)
    other = columns + tl.load(vocabulary_open_end + token).to(tl.int32)
    move = tl.where(is_column & (column < columns), column, other)
    after_node = tl.load(next_node + (table + node) * (columns + 2) + move)
    word_ends = tl.load(open_end + table + after_node) == 0
    banned = _barred(after_node, after_bits, forbidden + table) & word_ends
    banned = banned | (_barred(node, bit, forbidden + table) & ~joined)
    after_closed = _closed(after_node, after_bits, ordered, completes + table, lowest + table)
    before = _missing(
        node, bit, closed, ordered, forbidden + table, gains + table * phrases, inner_gains + table * phrases,
        phrase_bits + row * phrases, bit_length + row * bit_count, phrases, bit_count,
    )  # fmt: skip
    missing = _missing(
        after_node, after_bits, after_closed, ordered, forbidden + table, gains + table * phrases,
        inner_gains + table * phrases, phrase_bits + row * phrases, bit_length + row * bit_count, phrases, bit_count,
    )  # fmt: skip
    is_end = token == end
    missing = tl.where(is_end, 0, missing)
    base = tl.load(so_far + hypotheses + parent) + tl.load(offset + hypotheses + parent)
    wants_end = tl.load(wished + hypotheses + parent) + base > tl.load(own_scores + hypotheses + parent)
    room = tl.load(limits + row) - tl.load(position)
    possible = possible & (is_end | ~banned) & (missing <= room) & ~(wants_end & (missing >= before))

    # Which of the impossible ones fill up what is missing does not matter; the first is as good as any.
    is_open = (is_best | is_own | is_column) & possible & (score > float("-inf"))
    key, bank = sortable(score, lane), -missing.to(tl.int32)
    cursor = LOWEST if aware else FAR
    for step in range(count):
        exists, is_next, cursor = _next(is_open, key, bank, cursor, aware)
        is_open = is_open & ~is_next
        kept = tl.where(exists, is_next, lane == 0)
        to = row * count + step + lane * 0
        tl.store(out_scores + to, tl.where(exists, score, float("-inf")), mask=kept)
        tl.store(out_parents + to, parent, mask=kept)
        tl.store(out_tokens + to, token, mask=kept)
        tl.store(out_nodes + to, after_node, mask=kept)
        tl.store(out_bits + to, after_bits, mask=kept)


@triton.jit(do_not_specialize=("width", "end", "beam", "node_count"))
def _close(
    values, nodes, bits, completes, lowest, forbidden, everything, all_ordered, wished, width, end, beam,
    node_count, lanes: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, lanes)
    here = lane < beam
    node = tl.load(nodes + row * beam + lane, mask=here, other=0)
    bit = tl.load(bits + row * beam + lane, mask=here, other=0)
    ordered = tl.load(all_ordered + row).to(tl.int64)
    closed = _closed(node, bit, ordered, completes + row * node_count, lowest + row * node_count)
    stuck = _barred(node, bit, forbidden + row * node_count)
    may_end = (closed == tl.load(everything + row)) & ~stuck
    place = values + (row * beam + lane) * width + end
    score = tl.load(place, mask=here, other=float("-inf"))
    still_open = may_end & (score > float("-inf"))
    tl.store(wished + row * beam + lane, tl.where(still_open, float("-inf"), score), mask=here)
    tl.store(place, tl.where(may_end, score, float("-inf")), mask=here)


def lane_count(listed: int, beam: int, columns: int) -> int:
    """Room for the candidates of a sentence; one of two sizes, for each is compiled anew."""
    return LANES if listed + beam + beam * (columns + 1) <= LANES else MOST_LANES


def can_choose(listed: int, beam: int, automaton: Automaton) -> bool:
    return listed + beam + beam * (automaton.tokens.shape[1] + 1) <= MOST_LANES


def choose(
    automaton: Automaton,
    place: tuple[Tensor, Tensor],  # nodes and bits
    best: tuple[Tensor, Tensor, Tensor],  # scores, parents and tokens of the sentence's best
    own_best: tuple[Tensor, Tensor],  # scores and tokens of each hypothesis' own
    values: Tensor,
    so_far: Tensor,
    offset: Tensor,
    wished: Tensor,
    limits: Tensor,
    length: Tensor,
    end: int,
    count: int,
    aware: bool,
) -> Chosen:
    """The same as `vdba.choose_by_bank`."""
    batch, beam, _ = values.shape
    listed, (_, node_count, width) = best[0].shape[1], automaton.next_node.shape
    integers = [torch.empty(batch, count, dtype=torch.long, device=values.device) for _ in range(4)]
    chosen = Chosen(torch.empty(batch, count, device=values.device), *integers)
    _choose[(batch,)](
        *laid_out(*best, *own_best), values, *laid_out(so_far, offset, wished, *place, limits, length),
        *laid_out(
            automaton.tokens, automaton.next_node, automaton.open_end, automaton.completes, automaton.lowest,
            automaton.forbidden, automaton.gains, automaton.inner_gains, automaton.phrase_bits, automaton.bit_length,
            automaton.ordered, automaton.inner_start, automaton.vocabulary_open_end,
        ),
        *chosen,
        row_width(values), end, count, listed, beam, width - 2, node_count, automaton.gains.shape[2],
        automaton.bit_length.shape[1],
        lanes=lane_count(listed, beam, width - 2),
        aware=aware,
    )  # fmt: skip
    return chosen


def close(automaton: Automaton, place: tuple[Tensor, Tensor], values: Tensor, end: int) -> Tensor:
    """Close the ends in `values`, in place, where something is missing: returns the scores of those."""
    batch, beam, _ = values.shape
    wished = torch.empty(batch, beam, device=values.device)
    _close[(batch,)](
        values, *laid_out(*place, automaton.completes, automaton.lowest, automaton.forbidden),
        automaton.everything, automaton.ordered, wished, row_width(values), end, beam,
        automaton.completes.shape[1], lanes=int(triton.next_power_of_2(beam)),
    )  # fmt: skip
    return wished
