"""`vdba.close_ends` and `vdba.choose_by_bank` on a CPU: compiled loops over what is possible, instead of some seventy
small tensor operations.

With a glossary most sentences have constraints at every step, and the tensors for them, small as they are, took a
tenth of the whole search.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.accelerators import laid_out
from termweave.decoding.automaton import ALWAYS, Automaton
from termweave.decoding.candidates import Candidates
from termweave.storage import Array

IMPOSSIBLE = np.float32(-np.inf)
FAR = 2**40  # more tokens than are ever missing
TAKEN = -1  # instead of how many tokens are missing
UNKNOWN = -1  # no bits: of those, the highest is never set


class Tables(NamedTuple):
    """Those of an `Automaton`, of all its sentences or of one."""

    tokens: Array
    next_node: Array
    open_end: Array
    completes: Array
    lowest: Array
    forbidden: Array
    gains: Array
    inner_gains: Array
    gaining: Array
    phrase_bits: Array
    bit_length: Array


def close(automaton: Automaton, place: tuple[Tensor, Tensor], values: Tensor, end: int) -> Tensor:
    """`Automaton.close`, in place; returns the scores of the ends that were closed, −inf where none was."""
    wished = torch.empty(values.shape[:2])
    if automaton.never is not None:
        values.masked_fill_(automaton.never.unsqueeze(1), float(IMPOSSIBLE))
    _close(
        _tables(automaton),
        automaton.everything.numpy(),
        _shared(automaton),
        _arrays(*place),
        end,
        values.numpy(),
        wished.numpy(),
    )
    return wished


@numba.njit(nogil=True, cache=True)
def _close(
    tables: Tables,
    everything: Array,
    shared: tuple[Array, ...],
    place: tuple[Array, ...],
    end: int,
    values: Array,
    wished: Array,
) -> None:
    for row in range(len(everything)):
        forbids = tables.forbidden[row].any()
        for index in range(wished.shape[1]):
            node, bits, own = place[0][row, index], place[1][row, index], values[row, index]
            closed = _closed(tables.completes[row, node], tables.lowest[row, node], bits, shared[0][row])
            wished[row, index] = IMPOSSIBLE
            if closed != everything[row] or _barred(tables.forbidden[row, node], bits):
                wished[row, index], own[end] = own[end], IMPOSSIBLE
            if forbids:
                _forbid(tables, row, node, bits, closed, shared, own)


@numba.njit(nogil=True, cache=True)
def _forbid(
    tables: Tables, row: int, node: int, bits: int, closed: int, shared: tuple[Array, ...], values: Array
) -> None:
    """Make impossible what would complete something forbidden; closed: the bits if the word ended here."""
    inner_start = shared[1]
    is_open, stuck = tables.open_end[row, node], _barred(tables.forbidden[row, node], bits)
    if stuck:  # a word that is forbidden as it stands must go on
        for token in range(len(values)):
            if not inner_start[token]:
                values[token] = IMPOSSIBLE
    for column in range(_used(tables.tokens[row], -1)):
        token, following = tables.tokens[row, column], tables.next_node[row, node, column]
        joined = is_open and inner_start[token]
        is_ending = not tables.open_end[row, following]
        if (stuck and not joined) or (
            is_ending and _barred(tables.forbidden[row, following], bits if joined else closed)
        ):
            values[token] = IMPOSSIBLE


def choose(
    automaton: Automaton,
    place: tuple[Tensor, Tensor],  # nodes and bits
    best: Candidates,  # of the sentence
    own_best: Candidates,  # of each hypothesis
    values: Tensor,  # (batch, beam, vocabulary) of `Scores`
    base: Tensor,  # (batch, beam) what every score of a hypothesis begins with
    wished: Tensor,
    limits: Tensor,
    length: Tensor,
    end: int,
    count: int,
    aware: bool,
) -> tuple[Candidates, tuple[Tensor, Tensor]]:
    """`count` candidates in the order of preference; where they stand: nodes and bits."""
    batch = len(limits)
    scores = torch.full((batch, count), float(IMPOSSIBLE))
    others = torch.zeros(4, batch, count, dtype=torch.long)
    _choose(
        _tables(automaton),
        _shared(automaton),
        _arrays(*place),
        _arrays(best.scores, best.parents, best.tokens),
        _arrays(own_best.scores, own_best.tokens),
        values.numpy(),
        _arrays(base, wished),
        (limits - length).numpy(),
        end,
        aware,
        (scores.numpy(), others.numpy()),
    )
    parents, tokens, nodes, bits = others
    return Candidates(scores, parents, tokens), (nodes, bits)


def _tables(automaton: Automaton) -> Tables:
    return Tables(*_arrays(*(getattr(automaton, name) for name in Tables._fields)))


def _shared(automaton: Automaton) -> tuple[Array, ...]:
    return _arrays(automaton.ordered, automaton.inner_start, automaton.vocabulary_open_end)


def _arrays(*tensors: Tensor) -> tuple[Array, ...]:
    return tuple(tensor.numpy() for tensor in laid_out(*tensors))


@numba.njit(nogil=True, cache=True)
def _choose(
    tables: Tables,
    shared: tuple[Array, ...],
    place: tuple[Array, ...],
    best: tuple[Array, ...],
    own_best: tuple[Array, ...],
    values: Array,
    given: tuple[Array, ...],
    room: Array,
    end: int,
    aware: bool,
    chosen: tuple[Array, ...],
) -> None:
    base, wished = given
    beam, nodes = base.shape[1], tables.open_end.shape[1]
    size = best[0].shape[1] + beam + beam * (tables.tokens.shape[1] + 1)
    scores, keys = np.empty(size, dtype=np.float32), np.empty((5, size), dtype=np.int64)
    most, order = np.empty(beam, dtype=np.int64), np.empty(chosen[0].shape[1], dtype=np.int64)
    # What is missing at each node: hypotheses of a sentence have mostly met the same, and tokens lead to few nodes.
    known, leaders = np.empty((2, nodes), dtype=np.int64), np.empty(max(room.max(), 0) + 1, dtype=np.int64)
    for row in range(len(room)):
        # Tables are as wide as the sentence with the most asks for; most sentences use less than half of that.
        used = _used(tables.tokens[row], -1), _used(tables.bit_length[row], 0)
        own = Tables(
            tables.tokens[row, : used[0]],
            tables.next_node[row],
            tables.open_end[row],
            tables.completes[row],
            tables.lowest[row],
            tables.forbidden[row],
            tables.gains[row],
            tables.inner_gains[row],
            tables.gaining[row],
            tables.phrase_bits[row],
            tables.bit_length[row, : used[1]],
        )
        before = place[0][row], place[1][row]
        is_ordered = shared[0][row]
        for index in range(beam):
            most[index] = room[row]
            # A hypothesis that would rather end must go on with what is missing.
            if wished[row, index] + base[row, index] > own_best[0][row, index]:
                missing = _missing_of(own, before[0][index], before[1][index], is_ordered)
                most[index] = min(most[index], missing - 1)
        count = _list_best(own, before, is_ordered, shared, best, own_best, row, end, scores, keys)
        count = _list_tokens(own, before, is_ordered, shared, values[row], base[row], end, count, scores, keys)
        known[0] = UNKNOWN
        _count_missing(own, is_ordered, end, most, known, scores[:count], keys)
        if aware:
            taken = _climb(scores[:count], keys[4], leaders[: max(room[row], 0) + 1], order)
        else:
            taken = _allocate(scores[:count], keys[4], order)
        for index in range(taken):
            found = order[index]
            chosen[0][row, index] = scores[found]
            for key in range(4):
                chosen[1][key, row, index] = keys[key, found]


@numba.njit(nogil=True, cache=True)
def _list_best(
    own: Tables,
    before: tuple[Array, Array],  # nodes and bits of the hypotheses
    is_ordered: bool,
    shared: tuple[Array, ...],
    best: tuple[Array, ...],
    own_best: tuple[Array, ...],
    row: int,
    end: int,
    scores: Array,
    keys: Array,
) -> int:
    """Scores, parents, tokens, nodes and bits of the best ones that are possible, except for the end and tokens of
    constraints; returns how many they are."""
    count, listed = 0, best[0].shape[1]
    for index in range(listed + len(before[0])):
        is_own = index >= listed
        parent = index - listed if is_own else best[1][row, index]
        token = own_best[1][row, parent] if is_own else best[2][row, index]
        score = own_best[0][row, parent] if is_own else best[0][row, index]
        again = token == end or score == IMPOSSIBLE or _is_among(token, own.tokens)
        for other in range(count if is_own else 0):
            again = again or (keys[0, other] == parent and keys[1, other] == token)
        node, bits = before[0][parent], before[1][parent]
        joined = own.open_end[node] and shared[1][token]
        if again or (not joined and _barred(own.forbidden[node], bits)):
            continue
        fulfilled = bits if joined else _closed(own.completes[node], own.lowest[node], bits, is_ordered)
        scores[count], keys[0, count], keys[1, count] = score, parent, token
        keys[2, count] = own.next_node[node, own.next_node.shape[1] - 2 + int(shared[2][token])]
        keys[3, count] = fulfilled
        count += 1
    return count


@numba.njit(nogil=True, cache=True)
def _is_among(token: int, tokens: Array) -> bool:
    among = False
    for index in range(len(tokens)):
        among |= tokens[index] == token
    return among


@numba.njit(nogil=True, cache=True)
def _list_tokens(
    own: Tables,
    before: tuple[Array, Array],
    is_ordered: bool,
    shared: tuple[Array, ...],
    values: Array,
    base: Array,
    end: int,
    count: int,
    scores: Array,
    keys: Array,
) -> int:
    """The same of the constraints' tokens and the end, behind those that are there; returns how many all are."""
    # Taken out of their tuples here: done at every use inside the loop, that takes longer than all of the rest.
    tokens, inner_start = own.tokens, shared[1]
    for parent in range(len(base)):
        node, bits = before[0][parent], before[1][parent]
        is_open, stuck = own.open_end[node], _barred(own.forbidden[node], bits)
        closed = _closed(own.completes[node], own.lowest[node], bits, is_ordered)
        following, row, added = own.next_node[node], values[parent], base[parent]
        for column in range(len(tokens) + 1):
            token = end if column == len(tokens) else tokens[column]
            score = row[token] + added
            joined = is_open and inner_start[token]
            if score > IMPOSSIBLE and (joined or not stuck or token == end):
                scores[count], keys[0, count], keys[1, count] = score, parent, token
                keys[2, count], keys[3, count] = following[column], bits if joined else closed
                count += 1
    return count


@numba.njit(nogil=True, cache=True)
def _count_missing(
    own: Tables,
    is_ordered: bool,
    end: int,
    most: Array,  # tokens that may be missing after a hypothesis
    known: Array,  # (2, nodes) bits and what is missing with them, of the last time it was asked
    scores: Array,
    keys: Array,  # parents, tokens, nodes, bits, and what is missing then
) -> None:
    """What is missing after candidates: impossible where that is too much, or something forbidden."""
    open_end, forbidden, bit_length, gaining = own.open_end, own.forbidden, own.bit_length, own.gaining
    completes, lowest = own.completes, own.lowest
    phrase_bits, gains, inner_gains = own.phrase_bits, own.gains, own.inner_gains
    counted, inside = UNKNOWN, 0
    for index in range(len(scores)):
        node, bits = keys[2, index], keys[3, index]
        missing = 0
        if keys[1, index] != end:  # that comes only when nothing is missing, which has been seen to already
            if known[0, node] != bits:
                if counted != bits:  # hypotheses of a sentence have mostly met the same
                    counted, inside = bits, _tokens_of(bit_length, bits)
                closed = _closed(completes[node], lowest[node], bits, is_ordered)
                barred = _barred(forbidden[node], bits)
                missing = inside if closed == bits else _tokens_of(bit_length, closed)
                if barred or gaining[node, 1]:
                    tables = phrase_bits, gains, inner_gains, gaining
                    missing = _missing(missing, inside, tables, node, bits, closed, is_ordered, barred)
                known[0, node], known[1, node] = bits, FAR if barred and not open_end[node] else missing
            missing = known[1, node]
        keys[4, index] = missing
        if missing > most[keys[0, index]]:
            scores[index] = IMPOSSIBLE


@numba.njit(nogil=True, cache=True)
def _closed(completes: int, lowest: int, bits: int, is_ordered: bool) -> int:
    """`Automaton.closed`, given what the node completes."""
    if is_ordered:
        return int(bits | ((bits + 1) & completes))
    return int(bits | (((bits & completes) << 1 | lowest) & completes))


@numba.njit(nogil=True, cache=True)
def _missing_of(own: Tables, node: int, bits: int, is_ordered: bool) -> int:
    closed = _closed(own.completes[node], own.lowest[node], bits, is_ordered)
    missing, inside = _tokens_of(own.bit_length, closed), _tokens_of(own.bit_length, bits)
    tables = own.phrase_bits, own.gains, own.inner_gains, own.gaining
    return _missing(missing, inside, tables, node, bits, closed, is_ordered, _barred(own.forbidden[node], bits))


@numba.njit(nogil=True, cache=True)
def _barred(needed: int, bits: int) -> bool:
    """`Automaton.barred`, given what the node needs for that."""
    return bool(needed != 0 and needed & ~(bits | ALWAYS) == 0)


@numba.njit(nogil=True, cache=True)
def _missing(
    missing: int,  # tokens of all that is not met, if the word ended here
    missing_inside: int,  # the same if it goes on
    tables: tuple[Array, Array, Array, Array],
    node: int,
    bits: int,
    closed: int,
    is_ordered: bool,
    stuck: bool,
) -> int:
    """`Automaton.missing`; stuck: the node is barred."""
    phrase_bits, gains, inner_gains, gaining = tables
    wanted, wanted_inside = (closed + 1, bits + 1) if is_ordered else (~closed, ~bits)
    saved, saved_inside = 0, 0
    for phrase in range(gaining[node, 0], gaining[node, 1]):
        own = phrase_bits[phrase]
        saved = max(saved, gains[node, phrase] if own & wanted else 0)
        saved_inside = max(saved_inside, inner_gains[node, phrase] if own & wanted_inside else 0)
    return min(missing - saved + int(stuck), missing_inside - saved_inside + int(stuck and not saved_inside))


@numba.njit(nogil=True, cache=True)
def _tokens_of(bit_length: Array, reached: int) -> int:
    """Those of all bits that are not reached."""
    missing = 0
    for bit in range(len(bit_length)):
        missing += bit_length[bit] * (~reached >> bit & 1)
    return missing


@numba.njit(nogil=True, cache=True)
def _used(row: Array, nothing: int) -> int:
    """How much of a row there is up to the last place that holds something."""
    count = len(row)
    while count and row[count - 1] == nothing:
        count -= 1
    return count


@numba.njit(nogil=True, cache=True)
def _climb(scores: Array, missing: Array, leaders: Array, order: Array) -> int:
    """`vdba.climb`: which to take, in that order; returns how many.

    leaders: room for the best of each bank, as many as what is missing can be.
    """
    leaders[:] = -1
    listed, room = 0, len(order)
    best = np.empty(room, dtype=np.int64)  # of all, whatever their banks
    for index in range(len(scores)):
        score = scores[index]
        if score == IMPOSSIBLE:
            continue
        leader = leaders[missing[index]]
        if leader < 0 or score > scores[leader]:
            leaders[missing[index]] = index
        if listed < room or score > scores[best[room - 1]]:
            at = min(listed, room - 1)
            while at and score > scores[best[at - 1]]:
                best[at] = best[at - 1]
                at -= 1
            best[at] = index
            listed = min(listed + 1, room)
    # Ahead of all that score better are leaders that come before those of all fuller banks.
    ahead = 0
    for fewest in range(len(leaders)):
        leader = leaders[fewest]
        if leader >= 0:
            before = scores[leader] - scores[leaders[ahead - 1]] if ahead else np.float32(1)
            if before > 0 or (before == 0 and leader < leaders[ahead - 1]):
                leaders[ahead] = leader
                ahead += 1
    taken = 0
    while taken < room and ahead:
        ahead -= 1
        order[taken], missing[leaders[ahead]] = leaders[ahead], TAKEN
        taken += 1
    for index in range(listed):
        if taken < room and missing[best[index]] != TAKEN:
            order[taken] = best[index]
            taken += 1
    return taken


@numba.njit(nogil=True, cache=True)
def _allocate(scores: Array, missing: Array, order: Array) -> int:
    """`vdba.allocate`: which to take, in that order; returns how many. Banks go round, from the fullest down."""
    cursor = -1
    for place in range(len(order)):
        found, first = -1, 0
        for index in range(len(scores)):
            if scores[index] == IMPOSSIBLE or missing[index] == TAKEN:
                continue
            turn = missing[index] if missing[index] > cursor else missing[index] + FAR
            if found < 0 or turn < first or (turn == first and scores[index] > scores[found]):
                found, first = index, turn
        if found < 0:
            return place
        order[place], cursor, missing[found] = found, missing[found], TAKEN
    return len(order)
