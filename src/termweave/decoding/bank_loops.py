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
from termweave.decoding.automaton import Automaton
from termweave.decoding.candidates import Candidates
from termweave.decoding.missing_loops import FAR, Tables, barred, closed, missing_at, missing_of, tokens_of
from termweave.decoding.order_loops import IMPOSSIBLE, allocate, best_of, climb
from termweave.decoding.selection_loops import correct
from termweave.model.score_loops import CHUNK
from termweave.storage import Array

OTHER = -1  # instead of a column
UNKNOWN = -1  # no bits: of those, the highest is never set


class Sentence(NamedTuple):
    """What is known of one before its candidates are looked at."""

    tables: Tables
    is_ordered: bool
    nodes: Array  # where its hypotheses stand
    bits: Array
    most: Array  # tokens that may be missing after each of them
    inner_start: Array  # of the vocabulary
    open_end: Array
    end: int


class Kept(NamedTuple):
    """Candidates that are looked at."""

    scores: Array
    parents: Array
    tokens: Array
    columns: Array
    nodes: Array
    bits: Array
    missing: Array


def close(
    automaton: Automaton, place: tuple[Tensor, Tensor], values: Tensor, end: int, maxima: Tensor | None = None
) -> Tensor:
    """`Automaton.close`, in place; returns the scores of the ends that were closed, −inf where none was.

    maxima: of the chunks of the values, corrected for all that is closed but the ends.
    """
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
        (values.new_empty(*wished.shape, 0) if maxima is None else maxima).numpy(),
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
    maxima: Array,
    wished: Array,
) -> None:
    for row in range(len(everything)):
        forbids = tables.forbidden[row].any()
        for index in range(wished.shape[1]):
            node, bits, own = place[0][row, index], place[1][row, index], values[row, index]
            done = closed(tables.completes[row, node], tables.lowest[row, node], bits, shared[0][row])
            wished[row, index] = IMPOSSIBLE
            if done != everything[row] or barred(tables.forbidden[row, node], bits):
                wished[row, index], own[end] = own[end], IMPOSSIBLE
            if forbids:
                _forbid(tables, row, node, bits, done, shared, own, maxima[row, index])


@numba.njit(nogil=True, cache=True)
def _forbid(
    tables: Tables,
    row: int,
    node: int,
    bits: int,
    done: int,
    shared: tuple[Array, ...],
    values: Array,
    maxima: Array,
) -> None:
    """Make impossible what would complete something forbidden; done: the bits if the word ended here."""
    inner_start = shared[1]
    is_open, stuck = tables.open_end[row, node], barred(tables.forbidden[row, node], bits)
    if stuck:  # a word that is forbidden as it stands must go on
        for token in range(len(values)):
            if not inner_start[token]:
                values[token] = IMPOSSIBLE
        for number in range(len(maxima)):
            correct(maxima, values, number)
    for column in range(_used(tables.tokens[row], -1)):
        token, following = tables.tokens[row, column], tables.next_node[row, node, column]
        joined = is_open and inner_start[token]
        is_ending = not tables.open_end[row, following]
        if (stuck and not joined) or (is_ending and barred(tables.forbidden[row, following], bits if joined else done)):
            values[token] = IMPOSSIBLE
            if len(maxima):
                correct(maxima, values, token // CHUNK)


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
    beam, count = base.shape[1], chosen[0].shape[1]
    plain = best[0].shape[1] + beam
    scores = np.empty(plain + beam * (tables.tokens.shape[1] + 1), dtype=np.float32)
    kept = _empty(len(scores))
    listed, order = np.empty((2, plain), dtype=np.int64), np.empty(count, dtype=np.int64)
    most, leaders = np.empty(beam, dtype=np.int64), np.empty(max(room.max(), 0) + 1, dtype=np.int64)
    # What is missing at each node: hypotheses of a sentence have mostly met the same, and tokens lead to few nodes.
    known = np.empty((2, tables.open_end.shape[1]), dtype=np.int64)
    for row in range(len(room)):
        known[0] = UNKNOWN
        own = Sentence(
            _of_row(tables, row), shared[0][row], place[0][row], place[1][row], most, shared[1], shared[2], end
        )
        for index in range(beam):
            most[index] = room[row]
            # A hypothesis that would rather end must go on with what is missing.
            if wished[row, index] + base[row, index] > own_best[0][row, index]:
                missing = missing_of(own.tables, own.nodes[index], own.bits[index], own.is_ordered)
                most[index] = min(most[index], missing - 1)
        tokens = own.tables.tokens
        own_scores = scores[: plain + beam * (len(tokens) + 1)]
        _score_best(tokens, best, own_best, row, end, own_scores, listed)
        _score_tokens(tokens, end, values[row], base[row], own_scores[plain:])
        found, least = 0, FAR
        if aware:  # most others cannot be ahead of as many as are taken: nothing need be known of those
            found = best_of(own_scores, order)
            _keep_best(tokens, end, own_scores, listed, order[:found], kept)
            least = _follow(own, known, 0, found, kept)
        size = _keep_others(own, own_scores, listed, found, least, kept) if least else found
        _follow(own, known, found, size, kept)
        if aware:
            taken = climb(kept.scores[:size], kept.missing, leaders[: max(room[row], 0) + 1], order)
        else:
            taken = allocate(kept.scores[:size], kept.missing, order)
        _write(kept, order[:taken], row, chosen)


@numba.njit(nogil=True, cache=True)
def _empty(size: int) -> Kept:
    return Kept(
        np.empty(size, dtype=np.float32),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
    )


@numba.njit(nogil=True, cache=True)
def _of_row(tables: Tables, row: int) -> Tables:
    """Tables are as wide as the sentence with the most asks for; most sentences use less than half of that."""
    return Tables(
        tables.tokens[row, : _used(tables.tokens[row], -1)],
        tables.next_node[row],
        tables.open_end[row],
        tables.completes[row],
        tables.lowest[row],
        tables.forbidden[row],
        tables.gains[row],
        tables.inner_gains[row],
        tables.savings[row],
        tables.phrase_bits[row],
        tables.bit_length[row, : _used(tables.bit_length[row], 0)],
    )


@numba.njit(nogil=True, cache=True)
def _used(row: Array, nothing: int) -> int:
    """How much of a row there is up to the last place that holds something."""
    count = len(row)
    while count and row[count - 1] == nothing:
        count -= 1
    return count


@numba.njit(nogil=True, cache=True)
def _score_best(
    tokens: Array, best: tuple[Array, ...], own_best: tuple[Array, ...], row: int, end: int, scores: Array, keys: Array
) -> None:
    """Scores, parents and tokens of the best; impossible where one was there before, or is listed with the others."""
    beam, lead = own_best[0].shape[1], best[0].shape[1]
    for index in range(lead + beam):
        is_own = index >= lead
        parent = index - lead if is_own else best[1][row, index]
        token = own_best[1][row, parent] if is_own else best[2][row, index]
        again = token == end or _is_among(token, tokens)
        for other in range(lead if is_own else 0):
            again |= keys[0, other] == parent and keys[1, other] == token
        score = own_best[0][row, parent] if is_own else best[0][row, index]
        scores[index], keys[0, index], keys[1, index] = IMPOSSIBLE if again else score, parent, token


@numba.njit(nogil=True, cache=True)
def _is_among(token: int, tokens: Array) -> bool:
    among = False
    for index in range(len(tokens)):
        among |= tokens[index] == token
    return among


@numba.njit(nogil=True, cache=True)
def _score_tokens(tokens: Array, end: int, values: Array, base: Array, scores: Array) -> None:
    """Scores of the constraints' tokens and the end after each hypothesis.

    They lie far apart in memory; where nothing else is done between, several are on their way at once.
    """
    width = len(tokens) + 1
    for parent in range(len(base)):
        row, added, own = values[parent], base[parent], scores[parent * width : (parent + 1) * width]
        for column in range(len(tokens)):
            own[column] = row[tokens[column]] + added
        own[len(tokens)] = row[end] + added


@numba.njit(nogil=True, cache=True)
def _keep_best(tokens: Array, end: int, scores: Array, listed: Array, best: Array, kept: Kept) -> None:
    """Keep the best, in their order; they are no longer among the scores then."""
    plain, width = listed.shape[1], len(tokens) + 1
    kept_scores, parents, kept_tokens, columns = kept.scores, kept.parents, kept.tokens, kept.columns
    for place in range(len(best)):
        index = best[place]
        kept_scores[place], scores[index] = scores[index], IMPOSSIBLE
        if index < plain:
            parents[place], kept_tokens[place], columns[place] = listed[0, index], listed[1, index], OTHER
        else:
            parent = (index - plain) // width
            column = index - plain - parent * width
            token = end if column == width - 1 else tokens[column]
            parents[place], kept_tokens[place], columns[place] = parent, token, column


@numba.njit(nogil=True, cache=True)
def _keep_others(own: Sentence, scores: Array, listed: Array, first: int, least: int, kept: Kept) -> int:
    """Keep what could be taken beside the best, the `first` ones, behind these; returns how many all are.

    Behind as many others as are taken, one is taken only if it is ahead of them: if less is missing than the least
    that is after one of those.
    """
    # Taken out of their tuples here: done at every use inside a loop, that takes longer than all of the rest.
    tokens, savings, next_node, end = own.tables.tokens, own.tables.savings, own.tables.next_node, own.end
    completes, lowest, bit_length = own.tables.completes, own.tables.lowest, own.tables.bit_length
    nodes, bits, is_ordered = own.nodes, own.bits, own.is_ordered
    kept_scores, parents, kept_tokens, columns = kept.scores, kept.parents, kept.tokens, kept.columns
    plain, width, size = listed.shape[1], len(tokens) + 1, first
    for index in range(plain):
        if scores[index] > IMPOSSIBLE:
            kept_scores[size], parents[size] = scores[index], listed[0, index]
            kept_tokens[size], columns[size] = listed[1, index], OTHER
            size += 1
    index = plain
    for parent in range(len(nodes)):
        node = nodes[parent]
        # If the word goes on instead, no less is missing.
        done = closed(completes[node], lowest[node], bits[parent], is_ordered)
        spare = tokens_of(bit_length, done) - least
        for column in range(width):
            score = scores[index]
            if score > IMPOSSIBLE:
                token = end if column == width - 1 else tokens[column]
                if savings[next_node[node, column], 2] > spare or token == end:
                    kept_scores[size], parents[size], kept_tokens[size], columns[size] = score, parent, token, column
                    size += 1
            index += 1
    return size


@numba.njit(nogil=True, cache=True)
def _follow(own: Sentence, known: Array, first: int, last: int, kept: Kept) -> int:
    """Where candidates lead, and what is missing then: impossible where that is too much, or something forbidden.

    Returns the least that is missing, FAR if one of them is impossible. known: (2, nodes) bits and what is missing with
    them, of the last time it was asked.
    """
    nodes, all_bits, most, end, is_ordered = own.nodes, own.bits, own.most, own.end, own.is_ordered
    inner_start, vocabulary_open_end, tables = own.inner_start, own.open_end, own.tables
    next_node, open_end, forbidden = tables.next_node, tables.open_end, tables.forbidden
    completes, lowest, bit_length = tables.completes, tables.lowest, tables.bit_length
    phrases = tables.phrase_bits, tables.gains, tables.inner_gains, tables.savings
    kept_scores, parents, tokens, columns = kept.scores, kept.parents, kept.tokens, kept.columns
    kept_nodes, kept_bits, kept_missing = kept.nodes, kept.bits, kept.missing
    any_impossible = False
    least, counted, inside = FAR, UNKNOWN, 0
    for index in range(first, last):
        parent, token, column = parents[index], tokens[index], columns[index]
        node, bits = nodes[parent], all_bits[parent]
        joined = open_end[node] and inner_start[token]
        if column == OTHER:
            column = next_node.shape[1] - 2 + int(vocabulary_open_end[token])
        following = next_node[node, column]
        fulfilled = bits if joined else closed(completes[node], lowest[node], bits, is_ordered)
        missing = 0
        if token == end:  # it leads nowhere; that it comes only when nothing is missing has been seen to already
            pass
        elif not joined and barred(forbidden[node], bits):
            missing = FAR
        else:
            if known[0, following] != fulfilled:
                if counted != fulfilled:  # hypotheses of a sentence have mostly met the same
                    counted, inside = fulfilled, tokens_of(bit_length, fulfilled)
                done = closed(completes[following], lowest[following], fulfilled, is_ordered)
                stuck = barred(forbidden[following], fulfilled)
                outside = inside if done == fulfilled else tokens_of(bit_length, done)
                if stuck and not open_end[following]:
                    outside = FAR
                elif stuck or phrases[3][following, 1]:
                    outside = missing_at(outside, inside, phrases, following, fulfilled, done, is_ordered, stuck)
                known[0, following], known[1, following] = fulfilled, outside
            missing = known[1, following]
        kept_nodes[index], kept_bits[index], kept_missing[index] = following, fulfilled, missing
        least = min(least, missing)
        if missing > most[parent]:
            kept_scores[index], any_impossible = IMPOSSIBLE, True
    return FAR if any_impossible else least


@numba.njit(nogil=True, cache=True)
def _write(kept: Kept, order: Array, row: int, chosen: tuple[Array, ...]) -> None:
    for place in range(len(order)):
        found = order[place]
        chosen[0][row, place] = kept.scores[found]
        chosen[1][0, row, place], chosen[1][1, row, place] = kept.parents[found], kept.tokens[found]
        chosen[1][2, row, place], chosen[1][3, row, place] = kept.nodes[found], kept.bits[found]
