"""From what the sentences of a batch demand to the tables of their automaton.

Python lays all phrases of the batch out end to end; what there is to compute is done by numba, in two calls for all
sentences: a call for each of them would take longer than what it computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.accelerators import CPU, Piece, sent
from termweave.data.batches import round_up
from termweave.decoding.automaton import ALWAYS, MOST_BITS, Automaton, Demands, WordJoins
from termweave.decoding.missing_loops import note_savings
from termweave.errors import ConstraintError
from termweave.storage import Array

_SENTENCE_TABLES = ("tokens", "everything", "phrase_bits", "bit_length")
_NODE_TABLES = ("next_node", "open_end", "completes", "lowest", "forbidden", "gains", "inner_gains", "savings")

# The phrases of a batch end to end: the required ones of all sentences, then the forbidden ones.
Phrases = tuple[
    Array,  # their tokens
    Array,  # where each ends among the tokens, led by a 0
    Array,  # of each: lowest and highest bit of its requirement, tokens needed at most for that
    # Of each sentence: first required phrase and the one behind the last, the same of forbidden ones, bits, where its
    # distinct tokens begin and end.
    Array,
]
Sizes = tuple[int, int, int, int]  # required phrases, bits, tokens, distinct tokens, of the sentence with the most
# Of each node: the nodes after it, by column; its column, parent, depth and fall-back (its longest proper suffix), and
# then all nodes in the order of their depth; which required phrases go on from it.
Trie = tuple[Array, Array, Array]


def compile_automaton(demands: Sequence[Demands], joins: WordJoins, multiple: int = 1) -> Automaton:
    """See `compile_tables`; for a search on the host."""
    return compile_tables(demands, joins, multiple).on(CPU)


def compile_tables(
    demands: Sequence[Demands], joins: WordJoins, multiple: int = 1, pinned: bool = False
) -> CompiledTables:
    """Tables for the sentences of a batch; sentences without demands get a single state that allows everything.

    multiple: sizes are rounded up to multiples of it, those that count tokens of twice as much, so that batches are
    more often alike. pinned: see `Piece`.
    """
    phrases, own, (required, bits, most_tokens, distinct) = _lay_out(demands, joins)
    tokens = 2 * multiple if multiple > 1 else 1  # their numbers differ more than those of phrases
    shapes = _shapes(
        len(demands),
        nodes=round_up(2 + most_tokens, tokens),
        # At least one of each, unused: reductions over nothing are not defined.
        columns=round_up(max(distinct, 1), tokens),
        phrases=round_up(max(required, 1), multiple),
        bits=round_up(max(bits, 1), multiple),
    )
    piece = Piece(shapes.values(), pinned)
    arrays = dict(zip(shapes, piece.arrays(), strict=True))
    ordered = [demand.ordered for demand in demands]
    arrays["ordered"][:] = ordered
    nodes = _fill(
        phrases,
        own,
        (joins.open_end, joins.inner_start),
        tuple([arrays[name] for name in _SENTENCE_TABLES]),
        tuple([arrays[name] for name in _NODE_TABLES]),
    )
    return CompiledTables(
        piece,
        tuple(shapes),
        nodes=round_up(nodes, tokens),
        bit_length=arrays["bit_length"],
        joins=joins,
        forbids=any(demand.forbidden for demand in demands),
        orders=any(ordered),
        never=_never_used(demands, len(joins.open_end)),
    )


@dataclass(frozen=True)
class CompiledTables:
    """An automaton on the host, still to be put where the search is."""

    piece: Piece
    names: tuple[str, ...]  # of what lies in it
    nodes: int  # so many are used
    bit_length: Array
    joins: WordJoins
    forbids: bool
    orders: bool
    never: Tensor | None

    def on(self, device: torch.device) -> Automaton:
        tables = dict(zip(self.names, self.piece.tensors(device), strict=True))
        if self.nodes < tables["open_end"].shape[1]:  # shared beginnings need fewer than was feared
            for name in _NODE_TABLES:
                table = tables[name][:, : self.nodes]
                # What works on the host wants its tables without gaps; a device gets its own copy of them anyway.
                tables[name] = table.contiguous() if device.type == "cpu" else table
        open_end, inner_start = self.joins.on(device)
        return Automaton(
            **tables,
            inner_start=inner_start,
            vocabulary_open_end=open_end,
            forbids=self.forbids,
            orders=self.orders,
            never=None if self.never is None else sent(self.never, device),
        )

    @property
    def total(self) -> Tensor:
        """(batch,) tokens needed for everything."""
        return torch.from_numpy(self.bit_length.sum(axis=1))


def _never_used(demands: Sequence[Demands], vocabulary: int) -> Tensor | None:
    if not any(own.never for own in demands):
        return None
    never = torch.zeros(len(demands), vocabulary, dtype=torch.bool)
    for index, own in enumerate(demands):
        never[index, list(own.never)] = True
    return never


def _shapes(
    rows: int, nodes: int, columns: int, phrases: int, bits: int
) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    return {
        "tokens": (torch.long, (rows, columns)),
        "next_node": (torch.long, (rows, nodes, columns + 2)),
        "open_end": (torch.bool, (rows, nodes)),
        "completes": (torch.long, (rows, nodes)),
        "lowest": (torch.long, (rows, nodes)),
        "forbidden": (torch.long, (rows, nodes)),
        "gains": (torch.long, (rows, nodes, phrases)),
        "inner_gains": (torch.long, (rows, nodes, phrases)),
        "savings": (torch.long, (rows, nodes, 3)),
        "phrase_bits": (torch.long, (rows, phrases)),
        "bit_length": (torch.long, (rows, bits)),
        "everything": (torch.long, (rows,)),
        "ordered": (torch.bool, (rows,)),
    }


def _lay_out(demands: Sequence[Demands], joins: WordJoins) -> tuple[Phrases, Array, Sizes]:
    """The phrases, the distinct tokens of each sentence in order, end to end, and what the tables must have room for.

    Whole lists at a time, without a loop over sentences and their requirements: the device waits for this.
    """
    required = [own.required for own in demands]
    forbidden = [own.forbidden for own in demands]
    requirements = [*chain.from_iterable(required)]
    alternatives = [requirement.alternatives for requirement in requirements]
    phrases = [*chain.from_iterable(alternatives), *chain.from_iterable(forbidden)]
    tokens = _numbers(chain.from_iterable(phrases))
    ends, classes, spans, own, sizes, stuck = _measure(
        tokens,
        _numbers(map(len, phrases)),
        _numbers(map(len, alternatives)),
        _numbers([requirement.occurrences for requirement in requirements]),
        _numbers(map(len, required)),
        _numbers(map(len, forbidden)),
        joins.inner_start,
    )
    if stuck >= 0:
        raise ConstraintError(f"sentence {stuck + 1} has a constraint that can only stand inside a word")
    if sizes[1] > MOST_BITS:
        where = f"sentence {int(spans[:, 4].argmax()) + 1}"
        raise ConstraintError(f"{where} has {sizes[1]} constraints; at most {MOST_BITS} can be guaranteed at once")
    return (tokens, ends, classes, spans), own, sizes


def _numbers(values: Iterable[int]) -> Array:
    return np.fromiter(values, dtype=np.int64)


@numba.njit(nogil=True, cache=True)
def _measure(
    tokens: Array,
    lengths: Array,  # of each phrase
    alternatives: Array,  # of each requirement
    occurrences: Array,  # the same
    required: Array,  # requirements of each sentence
    forbidden: Array,  # phrases of each sentence
    inner_start: Array,
) -> tuple[Array, Array, Array, Array, Sizes, int]:
    """What `Phrases` has beside the tokens, and what else `_lay_out` returns; last a sentence, or −1 if there is none,
    with a constraint that can only stand inside a word."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    for phrase in range(len(lengths)):
        ends[phrase + 1] = ends[phrase] + lengths[phrase]
    classes = np.zeros((len(lengths), 3), dtype=np.int64)
    spans = np.zeros((len(required), 7), dtype=np.int64)
    own = np.empty(len(tokens), dtype=np.int64)
    most_phrases, most_bits, most_tokens, most_distinct = 0, 0, 0, 0
    item, phrase, stuck = 0, 0, -1
    barred, distinct = len(lengths) - forbidden.sum(), 0
    for row in range(len(required)):
        first, bits, start = phrase, 0, distinct
        for _ in range(required[row]):
            last = phrase + alternatives[item]
            shortest = _shortest(tokens, ends, phrase, last, inner_start)
            if shortest == 0 and stuck < 0:
                stuck = row
            while phrase < last:
                classes[phrase, 0], classes[phrase, 1] = bits, bits + occurrences[item] - 1
                classes[phrase, 2] = shortest
                phrase += 1
            bits += occurrences[item]
            item += 1
        last_barred = barred + forbidden[row]
        distinct = _collect(tokens, ends[first], ends[phrase], own, start, start)
        distinct = _collect(tokens, ends[barred], ends[last_barred], own, start, distinct)
        count = ends[phrase] - ends[first] + ends[last_barred] - ends[barred]
        for place, number in enumerate((first, phrase, barred, last_barred, bits, start, distinct)):
            spans[row, place] = number
        most_phrases, most_bits = max(most_phrases, phrase - first), max(most_bits, bits)
        most_tokens, most_distinct = max(most_tokens, count), max(most_distinct, distinct - start)
        barred = last_barred
    return ends, classes, spans, own, (most_phrases, most_bits, most_tokens, most_distinct), stuck


@numba.njit(nogil=True, cache=True)
def _shortest(tokens: Array, ends: Array, first: int, last: int, inner_start: Array) -> int:
    """Tokens of the shortest of some phrases that can stand anywhere, 0 if none can.

    What begins inside a word would need something before it; a promise needs a spelling that stands anywhere.
    """
    shortest = 0
    for phrase in range(first, last):
        length = ends[phrase + 1] - ends[phrase]
        if not inner_start[tokens[ends[phrase]]] and (shortest == 0 or length < shortest):
            shortest = length
    return shortest


@numba.njit(nogil=True, cache=True)
def _collect(tokens: Array, first: int, last: int, own: Array, start: int, stop: int) -> int:
    """Put tokens[first:last] among the distinct ones own[start:stop], which are in order; returns their new end."""
    for index in range(first, last):
        place = _find(tokens[index], own, start, stop)
        if place == stop or own[place] != tokens[index]:
            for later in range(stop, place, -1):
                own[later] = own[later - 1]
            own[place] = tokens[index]
            stop += 1
    return stop


@numba.njit(nogil=True, cache=True)
def _find(token: int, own: Array, start: int, stop: int) -> int:
    """The first place in own[start:stop] of a token that is not lower. What numpy has for that is slow for so few."""
    while start < stop:
        middle = (start + stop) // 2
        if own[middle] < token:
            start = middle + 1
        else:
            stop = middle
    return start


@numba.njit(nogil=True, cache=True)
def _fill(
    phrases: Phrases,
    own: Array,
    joins: tuple[Array, Array],
    sentence_tables: tuple[Array, ...],
    node_tables: tuple[Array, ...],
) -> int:
    """Fill the tables of all sentences; returns the most nodes that one of them has."""
    tokens, ends, classes, spans = phrases
    own_tokens, everything, phrase_bits, bit_length = sentence_tables
    next_node, node_open, completes, lowest, forbidden, gains, inner_gains, savings = node_tables
    _, nodes, width = next_node.shape
    width -= 2
    # Made once, and used for one sentence after the other: to allocate memory takes longer than to fill it.
    columns, inside = np.empty(len(tokens), dtype=np.int64), np.empty(len(tokens), dtype=np.bool_)
    open_end, inner_start = np.empty((2, width), dtype=np.bool_)
    trie = (
        np.empty((nodes, width), dtype=np.int64),
        np.empty((5, nodes), dtype=np.int64),
        np.empty((nodes, gains.shape[2]), dtype=np.bool_),
    )
    most = 2
    for row in range(len(spans)):
        first, last, barred, last_barred, bits, start, stop = spans[row]
        everything[row] = (1 << bits) - 1
        for phrase in range(first, last):
            low, high, shortest = classes[phrase]
            phrase_bits[row, phrase - first] = (2 << high) - (1 << low)
            for bit in range(low, high + 1):
                bit_length[row, bit] = shortest
        for column in range(width):
            token = own[start + column] if column < stop - start else -1
            own_tokens[row, column] = token
            if token >= 0:
                open_end[column], inner_start[column] = joins[0][token], joins[1][token]
        for index in range(ends[first], ends[last]):
            columns[index] = _find(tokens[index], own, start, stop) - start
            inside[index] = inner_start[columns[index]]
        for index in range(ends[barred], ends[last_barred]):
            columns[index] = _find(tokens[index], own, start, stop) - start
        count = _build(
            (columns, ends, classes, inside),
            spans[row],
            (open_end[: stop - start], inner_start),
            trie,
            (completes[row], lowest[row], forbidden[row]),
            next_node[row],
            node_open[row],
            (gains[row], inner_gains[row]),
        )
        numbers = gains[row, :count], inner_gains[row, :count], completes[row], bit_length[row]
        note_savings(*numbers, last - first, savings[row, :count])
        most = max(most, count)
    return most


@numba.njit(nogil=True, cache=True)
def _build(
    phrases: Phrases,  # columns instead of tokens, and last, which of them begin inside a word
    span: Array,
    joins: tuple[Array, Array],
    trie: Trie,
    ending: tuple[Array, Array, Array],  # the tables of what ends in each node
    next_node: Array,
    node_open: Array,
    gains: tuple[Array, Array],
) -> int:
    """Fill the tables of one sentence; returns the number of nodes."""
    columns, ends, classes, inside = phrases
    completes, lowest, forbidden = ending
    first, last = span[0], span[1]
    own_column, _, _, fall_back, order = trie[1]
    for root in range(2):
        _add_node(root, 0, 0, 0, trie)
    count = 2
    for phrase in range(first, last):
        end, count = _insert(columns, ends[phrase], ends[phrase + 1], phrase - first, trie, count)
        low, high = classes[phrase, 0], classes[phrase, 1]
        completes[end] |= (1 << (high + 1)) - (1 << low)
        lowest[end] |= 1 << low
    for phrase in range(span[2], span[3]):
        end, count = _insert(columns, ends[phrase], ends[phrase + 1], -1, trie, count)
        forbidden[end] = completes[end] or ALWAYS
    node_open[1] = True
    for node in range(2, count):
        node_open[node] = joins[0][own_column[node]]
    _connect(trie, joins, next_node)
    for node in order[:count]:
        if node >= 2:
            completes[node] |= completes[fall_back[node]]
            lowest[node] |= lowest[fall_back[node]]
            if not forbidden[node] or forbidden[fall_back[node]] == ALWAYS:
                forbidden[node] = forbidden[fall_back[node]]
        for phrase in range(first, last):
            start, number = ends[phrase], phrase - first
            spare = classes[phrase, 2] - (ends[phrase + 1] - start)
            apart, joined = _depths(node, number, inside[start:], node_open[node], trie)
            if apart or not (inside[start] and node_open[node]):  # nothing to save where it cannot even begin
                gains[0][node, number] = max(spare + apart, 0)
            if joined:
                gains[1][node, number] = max(spare + joined, 0)
    return count


@numba.njit(nogil=True, cache=True)
def _add_node(node: int, column: int, parent: int, depth: int, trie: Trie) -> None:
    """Nothing follows it yet, and no phrase goes on from it."""
    child, path, on_path = trie
    path[0, node], path[1, node], path[2, node], path[3, node] = column, parent, depth, 0
    for following in range(child.shape[1]):
        child[node, following] = -1
    for phrase in range(on_path.shape[1]):
        on_path[node, phrase] = False


@numba.njit(nogil=True, cache=True)
def _insert(columns: Array, start: int, end: int, number: int, trie: Trie, count: int) -> tuple[int, int]:
    """Put the phrase columns[start:end] into the trie: (its last node, number of nodes). number: -1 if forbidden."""
    child, path, on_path = trie
    node = 0
    for place in range(start, end):
        token = columns[place]
        if child[node, token] < 0:
            child[node, token] = count
            _add_node(count, token, node, path[2, node] + 1, trie)
            count += 1
        node = child[node, token]
        if number >= 0 and place < end - 1:
            on_path[node, number] = True
    return node, count


@numba.njit(nogil=True, cache=True)
def _connect(trie: Trie, joins: tuple[Array, Array], next_node: Array) -> None:
    """Complete the transitions, shallow nodes first, and note that order and each node's fall-back."""
    child, path, _ = trie
    open_end, inner_start = joins
    own_column, parent, depth, fall_back, order = path
    width = child.shape[1]
    order[0], order[1] = 0, 1
    done, known = 0, 2
    while done < known:
        node = order[done]
        if node >= 2:
            root = 1 if open_end[own_column[node]] else 0
            fall_back[node] = root if depth[node] == 1 else next_node[fall_back[parent[node]], own_column[node]]
        for token in range(len(open_end)):
            following = child[node if node >= 2 else 0, token]
            if following >= 0 and node != 1:
                order[known] = following
                known += 1
            if node == 1 and inner_start[token]:
                following = -1  # inside a word no phrase can begin without a space
            if following < 0:
                following = next_node[fall_back[node], token] if node >= 2 else (1 if open_end[token] else 0)
            next_node[node, token] = following
        next_node[node, width] = 0
        next_node[node, width + 1] = 1
        done += 1


@numba.njit(nogil=True, cache=True)
def _depths(node: int, phrase: int, inside: Array, is_open: bool, trie: Trie) -> tuple[int, int]:
    """How many tokens of a phrase, not all of them, the node's string ends with: if the next begins a new word, and if
    it goes on with the word, which it can if that is_open.

    inside: which tokens of the phrase begin inside a word.
    """
    _, path, on_path = trie
    apart, joined = 0, 0
    while node >= 2 and not (apart and joined):  # longer ones come first
        depth = path[2, node]
        if on_path[node, phrase] and inside[depth] and is_open:
            joined = max(joined, depth)
        elif on_path[node, phrase]:
            apart = max(apart, depth)
        node = path[3, node]
    return apart, joined
