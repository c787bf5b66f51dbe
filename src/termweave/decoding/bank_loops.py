"""`vdba.choose_by_bank` on a CPU: compiled loops over what is possible, instead of some fifty small tensor operations.

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
from termweave.decoding.automaton import Automaton
from termweave.decoding.candidates import Candidates
from termweave.storage import Array

IMPOSSIBLE = np.float32(-np.inf)
FAR = 2**40  # more tokens than are ever missing


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


def choose(
    automaton: Automaton,
    place: tuple[Tensor, Tensor],  # nodes and bits
    best: Candidates,  # of the sentence
    own_best: Candidates,  # of each hypothesis
    token_scores: Tensor,  # (batch, beam, columns + 1) of each hypothesis with the automaton's tokens, and with the end
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
        Tables(*_arrays(*(getattr(automaton, name) for name in Tables._fields))),
        _arrays(automaton.ordered, automaton.inner_start, automaton.vocabulary_open_end),
        _arrays(*place),
        _arrays(best.scores, best.parents, best.tokens),
        _arrays(own_best.scores, own_best.tokens),
        _arrays(token_scores, base, wished),
        (limits - length).numpy(),
        end,
        aware,
        (scores.numpy(), others.numpy()),
    )
    parents, tokens, nodes, bits = others
    return Candidates(scores, parents, tokens), (nodes, bits)


def _arrays(*tensors: Tensor) -> tuple[Array, ...]:
    return tuple(tensor.numpy() for tensor in laid_out(*tensors))


@numba.njit(nogil=True, cache=True)
def _choose(
    tables: Tables,
    shared: tuple[Array, ...],
    place: tuple[Array, ...],
    best: tuple[Array, ...],
    own_best: tuple[Array, ...],
    given: tuple[Array, ...],
    room: Array,
    end: int,
    aware: bool,
    chosen: tuple[Array, ...],
) -> None:
    token_scores, base, wished = given
    beam, columns = base.shape[1], tables.tokens.shape[1]
    listed = best[0].shape[1]
    size = listed + beam + beam * (columns + 1)
    scores, keys = np.empty(size, dtype=np.float32), np.empty((5, size), dtype=np.int64)
    most = np.empty(beam, dtype=np.int64)
    for row in range(len(room)):
        own = Tables(
            tables.tokens[row],
            tables.next_node[row],
            tables.open_end[row],
            tables.completes[row],
            tables.lowest[row],
            tables.forbidden[row],
            tables.gains[row],
            tables.inner_gains[row],
            tables.phrase_bits[row],
            tables.bit_length[row],
        )
        is_ordered = shared[0][row]
        for index in range(beam):
            most[index] = room[row]
            # A hypothesis that would rather end must go on with what is missing.
            if wished[row, index] + base[row, index] > own_best[0][row, index]:
                before = _missing(own, place[0][row, index], place[1][row, index], is_ordered)
                most[index] = min(most[index], before - 1)
        count = _list(own, best, own_best, token_scores[row], row, end, scores, keys)
        for index in range(count):
            parent, token, column = keys[0, index], keys[1, index], keys[2, index]
            node, bits, missing = _follow(
                own, place[0][row, parent], place[1][row, parent], token, column, is_ordered, shared, end
            )
            keys[2, index], keys[3, index], keys[4, index] = node, bits, -missing
            if missing > most[parent]:
                scores[index] = IMPOSSIBLE
        _take(scores[:count], keys, aware, row, chosen)


@numba.njit(nogil=True, cache=True)
def _list(
    own: Tables,
    best: tuple[Array, ...],
    own_best: tuple[Array, ...],
    token_scores: Array,
    row: int,
    end: int,
    scores: Array,
    keys: Array,
) -> int:
    """Scores, parents, tokens and columns of all that is possible, nothing twice; returns how many they are."""
    count, columns = 0, len(own.tokens)
    listed, beam = best[0].shape[1], len(token_scores)
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
            if token >= 0 and token_scores[parent, column] > IMPOSSIBLE:
                scores[count], keys[0, count] = token_scores[parent, column], parent
                keys[1, count], keys[2, count] = token, column
                count += 1
    return count


@numba.njit(nogil=True, cache=True)
def _follow(
    own: Tables, node: int, bits: int, token: int, column: int, is_ordered: bool, shared: tuple[Array, ...], end: int
) -> tuple[int, int, int]:
    """Where a token leads, and what is missing then: too much where it would complete something forbidden."""
    joined = own.open_end[node] and shared[1][token]
    fulfilled = bits if joined else _closed(own, node, bits, is_ordered)
    if column < 0:
        column = len(own.tokens) + int(shared[2][token])
    following = own.next_node[node, column]
    if token == end:  # it leads nowhere; that it comes only when nothing is missing has been seen to already
        return following, fulfilled, 0
    if (own.forbidden[following] and not own.open_end[following]) or (own.forbidden[node] and not joined):
        return following, fulfilled, FAR
    return following, fulfilled, _missing(own, following, fulfilled, is_ordered)


@numba.njit(nogil=True, cache=True)
def _closed(own: Tables, node: int, bits: int, is_ordered: bool) -> int:
    """`Automaton.closed`."""
    completes = own.completes[node]
    if is_ordered:
        return int(bits | ((bits + 1) & completes))
    return int(bits | (((bits & completes) << 1 | own.lowest[node]) & completes))


@numba.njit(nogil=True, cache=True)
def _missing(own: Tables, node: int, bits: int, is_ordered: bool) -> int:
    """`Automaton.missing`."""
    fewest = FAR
    for inside in range(2):
        reached = bits if inside else _closed(own, node, bits, is_ordered)
        missing, saved = 0, 0
        for bit in range(len(own.bit_length)):
            if not reached >> bit & 1:
                missing += own.bit_length[bit]
        wanted = reached + 1 if is_ordered else ~reached
        for phrase in range(len(own.phrase_bits)):
            if wanted & own.phrase_bits[phrase]:
                saved = max(saved, own.inner_gains[node, phrase] if inside else own.gains[node, phrase])
        stuck = own.forbidden[node] and not (inside and saved)
        fewest = min(fewest, missing - saved + int(stuck))
    return fewest


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
