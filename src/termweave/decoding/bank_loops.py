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
    beam, columns = base.shape[1], tables.tokens.shape[1]
    listed = best[0].shape[1]
    size = listed + beam + beam * (columns + 1)
    scores, keys = np.empty(size, dtype=np.float32), np.empty((5, size), dtype=np.int64)
    most = np.empty(beam, dtype=np.int64)
    # What is missing at each node: hypotheses of a sentence have mostly met the same, and tokens lead to few nodes.
    known = np.empty((2, tables.open_end.shape[1]), dtype=np.int64)
    for row in range(len(room)):
        known[0] = UNKNOWN
        # Tables are as wide as the sentence with the most asks for; most sentences use less than half of that.
        used = _used(tables.tokens[row], -1), _used(tables.phrase_bits[row], 0), _used(tables.bit_length[row], 0)
        own = Tables(
            tables.tokens[row, : used[0]],
            tables.next_node[row],
            tables.open_end[row],
            tables.completes[row],
            tables.lowest[row],
            tables.forbidden[row],
            tables.gains[row],
            tables.inner_gains[row],
            tables.phrase_bits[row, : used[1]],
            tables.bit_length[row, : used[2]],
        )
        before = place[0][row], place[1][row]
        is_ordered = shared[0][row]
        for index in range(beam):
            most[index] = room[row]
            # A hypothesis that would rather end must go on with what is missing.
            if wished[row, index] + base[row, index] > own_best[0][row, index]:
                missing = _missing_of(own, before[0][index], before[1][index], is_ordered)
                most[index] = min(most[index], missing - 1)
        count = _list(own, best, own_best, values[row], base[row], row, end, scores, keys)
        _follow(own, before, is_ordered, shared, end, most, known, scores[:count], keys)
        _take(scores[:count], keys, aware, row, chosen)


@numba.njit(nogil=True, cache=True)
def _list(
    own: Tables,
    best: tuple[Array, ...],
    own_best: tuple[Array, ...],
    values: Array,
    base: Array,
    row: int,
    end: int,
    scores: Array,
    keys: Array,
) -> int:
    """Scores, parents, tokens and columns of all that is possible, nothing twice; returns how many they are."""
    count, columns = 0, len(own.tokens)
    listed, beam = best[0].shape[1], len(base)
    for index in range(listed + beam):
        is_own = index >= listed
        parent = index - listed if is_own else best[1][row, index]
        token = own_best[1][row, parent] if is_own else best[2][row, index]
        score = own_best[0][row, parent] if is_own else best[0][row, index]
        again = token == end or score == IMPOSSIBLE
        for column in range(columns):
            again = again or own.tokens[column] == token
        for other in range(listed if is_own else 0):
            again = again or (best[1][row, other] == parent and best[2][row, other] == token)
        if not again:
            scores[count], keys[0, count], keys[1, count], keys[2, count] = score, parent, token, -1
            count += 1
    for parent in range(beam):
        for column in range(columns + 1):
            token = end if column == columns else own.tokens[column]
            score = values[parent, token] + base[parent] if token >= 0 else IMPOSSIBLE
            if score > IMPOSSIBLE:
                scores[count], keys[0, count], keys[1, count], keys[2, count] = score, parent, token, column
                count += 1
    return count


@numba.njit(nogil=True, cache=True)
def _follow(
    own: Tables,
    before: tuple[Array, Array],  # nodes and bits of the hypotheses
    is_ordered: bool,
    shared: tuple[Array, ...],
    end: int,
    most: Array,  # tokens that may be missing after a hypothesis
    known: Array,  # (2, nodes) bits and what is missing with them, of the last time it was asked
    scores: Array,
    keys: Array,  # parents, tokens and columns; becomes parents, tokens, nodes, bits and banks
) -> None:
    """Where candidates lead, and what is missing then: impossible where that is too much, or something forbidden."""
    # Taken out of their tuples here: done at every use inside the loop, that took longer than all of the rest.
    nodes, bits = before
    next_node, open_end, forbidden = own.next_node, own.open_end, own.forbidden
    completes, lowest, bit_length = own.completes, own.lowest, own.bit_length
    phrase_bits, gains, inner_gains = own.phrase_bits, own.gains, own.inner_gains
    inner_start, vocabulary_open_end = shared[1], shared[2]
    counted, inside = UNKNOWN, 0
    for index in range(len(scores)):
        parent, token, column = keys[0, index], keys[1, index], keys[2, index]
        node = nodes[parent]
        joined = open_end[node] and inner_start[token]
        fulfilled = bits[parent] if joined else _closed(completes[node], lowest[node], bits[parent], is_ordered)
        if column < 0:
            column = next_node.shape[1] - 2 + int(vocabulary_open_end[token])
        following = next_node[node, column]
        missing = 0
        if token == end:  # it leads nowhere; that it comes only when nothing is missing has been seen to already
            pass
        elif (not open_end[following] and _barred(forbidden[following], fulfilled)) or (
            not joined and _barred(forbidden[node], bits[parent])
        ):
            missing = FAR
        else:
            if known[0, following] != fulfilled:
                if counted != fulfilled:  # hypotheses of a sentence have mostly met the same
                    counted, inside = fulfilled, _tokens_of(bit_length, fulfilled)
                closed = _closed(completes[following], lowest[following], fulfilled, is_ordered)
                known[0, following] = fulfilled
                known[1, following] = _missing(
                    inside if closed == fulfilled else _tokens_of(bit_length, closed),
                    inside,
                    phrase_bits,
                    gains[following],
                    inner_gains[following],
                    fulfilled,
                    closed,
                    is_ordered,
                    _barred(forbidden[following], fulfilled),
                )
            missing = known[1, following]
        keys[2, index], keys[3, index], keys[4, index] = following, fulfilled, -missing
        if missing > most[parent]:
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
    tokens = _tokens_of(own.bit_length, closed), _tokens_of(own.bit_length, bits)
    tables = own.phrase_bits, own.gains[node], own.inner_gains[node]
    return _missing(*tokens, *tables, bits, closed, is_ordered, _barred(own.forbidden[node], bits))


@numba.njit(nogil=True, cache=True)
def _barred(needed: int, bits: int) -> bool:
    """`Automaton.barred`, given what the node needs for that."""
    return bool(needed != 0 and needed & ~(bits | ALWAYS) == 0)


@numba.njit(nogil=True, cache=True)
def _missing(
    missing: int,  # tokens of all that is not met, if the word ended here
    missing_inside: int,  # the same if it goes on
    phrase_bits: Array,
    gains: Array,  # of the node, as the next
    inner_gains: Array,
    bits: int,
    closed: int,
    is_ordered: bool,
    stuck: bool,
) -> int:
    """`Automaton.missing`; stuck: the node is barred."""
    wanted, wanted_inside = (closed + 1, bits + 1) if is_ordered else (~closed, ~bits)
    saved, saved_inside = 0, 0
    for phrase in range(len(phrase_bits)):
        own = phrase_bits[phrase]
        saved = max(saved, gains[phrase] if own & wanted else 0)
        saved_inside = max(saved_inside, inner_gains[phrase] if own & wanted_inside else 0)
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
def _take(scores: Array, keys: Array, aware: bool, row: int, chosen: tuple[Array, ...]) -> None:
    """`vdba.climb` or `vdba.allocate`: one after the other, the scores of those taken made impossible."""
    cursor = -2 * FAR if aware else FAR
    for place in range(chosen[0].shape[1]):
        found, first = -1, 0
        for index in range(len(scores)):
            if scores[index] == IMPOSSIBLE:
                continue
            bank = keys[4, index]
            # To climb, who is ahead of all that score better comes before the others; else banks go round.
            turn = int(bank > cursor) if aware else (bank if bank < cursor else bank - FAR)
            if found < 0 or turn > first or (turn == first and scores[index] > scores[found]):
                found, first = index, turn
        if found < 0:
            return
        chosen[0][row, place] = scores[found]
        chosen[1][:, row, place] = keys[:4, found]
        cursor = max(cursor, keys[4, found]) if aware else keys[4, found]
        scores[found] = IMPOSSIBLE
