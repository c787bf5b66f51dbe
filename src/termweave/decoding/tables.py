"""From what the sentences of a batch demand to the tables of their automaton.

Python lays all phrases of the batch out end to end; what there is to compute is done by numba, in one call for all
sentences: a call for each of them would take longer than what it computes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.data.batches import round_up
from termweave.decoding.automaton import MOST_BITS, Automaton, Demands, Requirement, WordJoins
from termweave.errors import ConstraintError
from termweave.storage import Array

_NODE_TABLES = ("next_node", "open_end", "completes", "lowest", "forbidden", "gains", "inner_gains")


def compile_automaton(demands: Sequence[Demands], joins: WordJoins, multiple: int = 1) -> Automaton:
    """Tables for the sentences of a batch; sentences without demands get a single state that allows everything.

    multiple: sizes are rounded up to multiples of it, so that batches are more often alike.
    """
    layout = _Layout(demands, joins)
    tokens, ends, classes = layout.arrays()
    widest = int(np.diff(layout.token_ends, prepend=0).max(initial=0))
    own = np.full((len(demands), max(widest, 1)), -1, dtype=np.int64)
    distinct = int(_distinct(tokens, np.array(layout.token_ends), own).max(initial=1))
    tables = _empty_tables(
        len(demands),
        nodes=round_up(2 + widest, multiple),
        columns=round_up(max(distinct, 1), multiple),
        # At least one of each, unused: reductions over nothing are not defined.
        phrases=round_up(max(1, *layout.required), multiple),
        bits=round_up(max(1, *layout.bits), multiple),
    )
    tables["tokens"][:, : min(distinct, own.shape[1])] = own[:, :distinct]
    tables["ordered"][:] = [demand.ordered for demand in demands]
    nodes = _fill(
        tokens,
        ends,
        classes,
        np.array(layout.phrase_ends),
        np.array(layout.required),
        np.array(layout.bits),
        (joins.open_end, joins.inner_start),
        tuple(tables[name] for name in ("tokens", "everything", "phrase_bits", "bit_length")),
        tuple(tables[name] for name in _NODE_TABLES),
    )
    used = min(round_up(int(nodes.max(initial=2)), multiple), tables["open_end"].shape[1])
    for name in _NODE_TABLES:
        tables[name] = tables[name][:, :used]  # shared beginnings need fewer nodes than was feared
    return Automaton(
        **{name: torch.from_numpy(table) for name, table in tables.items()},
        inner_start=torch.from_numpy(joins.inner_start),
        vocabulary_open_end=torch.from_numpy(joins.open_end),
        forbids=any(demand.forbidden for demand in demands),
        orders=any(demand.ordered for demand in demands),
        never=_never_used(demands, len(joins.open_end)),
    )


def _never_used(demands: Sequence[Demands], vocabulary: int) -> Tensor | None:
    if not any(own.never for own in demands):
        return None
    never = torch.zeros(len(demands), vocabulary, dtype=torch.bool)
    for index, own in enumerate(demands):
        never[index, list(own.never)] = True
    return never


def _empty_tables(rows: int, nodes: int, columns: int, phrases: int, bits: int) -> dict[str, Array]:
    return {
        "tokens": np.full((rows, columns), -1, dtype=np.int64),
        "next_node": np.zeros((rows, nodes, columns + 2), dtype=np.int64),
        "open_end": np.zeros((rows, nodes), dtype=np.bool_),
        "completes": np.zeros((rows, nodes), dtype=np.int64),
        "lowest": np.zeros((rows, nodes), dtype=np.int64),
        "forbidden": np.zeros((rows, nodes), dtype=np.bool_),
        "gains": np.zeros((rows, nodes, phrases), dtype=np.int64),
        "inner_gains": np.zeros((rows, nodes, phrases), dtype=np.int64),
        "phrase_bits": np.zeros((rows, phrases), dtype=np.int64),
        "bit_length": np.zeros((rows, bits), dtype=np.int64),
        "everything": np.zeros(rows, dtype=np.int64),
        "ordered": np.zeros(rows, dtype=np.bool_),
    }


class _Layout:
    """The phrases of a batch end to end: those of the first sentence, required ones first, then of the second, …"""

    def __init__(self, demands: Sequence[Demands], joins: WordJoins) -> None:
        self.tokens: list[int] = []
        self.ends: list[int] = []  # of each phrase, among the tokens
        self.classes: list[tuple[int, int, int]] = []  # of each phrase: lowest and highest bit, tokens needed at most
        self.phrase_ends: list[int] = []  # of each sentence, among the phrases
        self.token_ends: list[int] = []  # of each sentence, among the tokens
        self.required: list[int] = []  # phrases of each sentence
        self.bits: list[int] = []  # of each sentence
        for index, own in enumerate(demands):
            self._add(own, f"sentence {index + 1}", joins.inner_start)

    def _add(self, demands: Demands, where: str, inner_start: Array) -> None:
        bits, before = 0, len(self.ends)
        for requirement in demands.required:
            shortest = _shortest(requirement, inner_start, where)
            lowest, bits = bits, bits + requirement.occurrences
            for phrase in requirement.alternatives:
                self._add_phrase(phrase, (lowest, bits - 1, shortest))
        if bits > MOST_BITS:
            raise ConstraintError(f"{where} has {bits} constraints; at most {MOST_BITS} can be guaranteed at once")
        self.required.append(len(self.ends) - before)
        self.bits.append(bits)
        for phrase in demands.forbidden:
            self._add_phrase(phrase, (0, 0, 0))
        self.phrase_ends.append(len(self.ends))
        self.token_ends.append(len(self.tokens))

    def _add_phrase(self, phrase: Sequence[int], class_: tuple[int, int, int]) -> None:
        self.tokens.extend(phrase)
        self.ends.append(len(self.tokens))
        self.classes.append(class_)

    def arrays(self) -> tuple[Array, Array, Array]:
        """Tokens, ends and classes."""
        return (
            np.array(self.tokens, dtype=np.int64),
            np.array(self.ends, dtype=np.int64),
            np.array(self.classes, dtype=np.int64).reshape(-1, 3),
        )


def _shortest(requirement: Requirement, inner_start: Array, where: str) -> int:
    """How many tokens suffice."""
    # What begins inside a word would need something before it; a promise needs a spelling that can stand anywhere.
    lengths = [len(phrase) for phrase in requirement.alternatives if not inner_start[phrase[0]]]
    if not lengths:
        raise ConstraintError(f"{where} has a constraint that can only stand inside a word")
    return min(lengths)


@numba.njit(cache=True)
def _distinct(tokens: Array, token_ends: Array, own: Array) -> Array:
    """Each sentence's distinct tokens, in order, into the rows of `own`; returns how many they are."""
    counts = np.zeros(len(own), dtype=np.int64)
    start = 0
    for row in range(len(own)):
        last = -1
        for token in np.sort(tokens[start : token_ends[row]]):
            if token != last:
                own[row, counts[row]] = token
                counts[row] += 1
                last = token
        start = token_ends[row]
    return counts


@numba.njit(cache=True)
def _fill(
    tokens: Array,
    ends: Array,
    classes: Array,
    phrase_ends: Array,
    required: Array,
    bits: Array,
    joins: tuple[Array, Array],
    sentence_tables: tuple[Array, ...],
    node_tables: tuple[Array, ...],
) -> Array:
    """Fill the tables of all sentences; returns how many nodes each has."""
    own_tokens, everything, phrase_bits, bit_length = sentence_tables
    next_node, node_open, completes, lowest, forbidden, gains, inner_gains = node_tables
    nodes = np.full(len(phrase_ends), 2, dtype=np.int64)
    first, start = 0, 0
    for row in range(len(phrase_ends)):
        last = phrase_ends[row]
        stop = ends[last - 1] if last else 0
        count = 0
        while count < own_tokens.shape[1] and own_tokens[row, count] >= 0:
            count += 1
        own = own_tokens[row, :count]
        everything[row] = (1 << bits[row]) - 1
        for phrase in range(required[row]):
            low, high, shortest = classes[first + phrase]
            phrase_bits[row, phrase] = (2 << high) - (1 << low)
            bit_length[row, low : high + 1] = shortest
        nodes[row] = _build(
            np.searchsorted(own, tokens[start:stop]),
            np.diff(np.concatenate((np.array([start]), ends[first:last]))),
            required[row],
            classes[first:last],
            joins[0][own],
            joins[1][own],
            own_tokens.shape[1],
            next_node[row],
            node_open[row],
            completes[row],
            lowest[row],
            forbidden[row],
            gains[row],
            inner_gains[row],
        )
        first, start = last, stop
    return nodes


@numba.njit(cache=True)
def _build(
    tokens: Array,  # columns of all phrases, end to end
    lengths: Array,
    required: int,  # so many phrases are required, the rest forbidden
    classes: Array,  # of each phrase: lowest and highest bit, tokens needed at most
    open_end: Array,
    inner_start: Array,
    width: int,
    next_node: Array,
    node_open: Array,
    completes: Array,
    lowest: Array,
    forbidden: Array,
    gains: Array,
    inner_gains: Array,
) -> int:
    """Fill the tables of one sentence; returns the number of nodes."""
    most = next_node.shape[0]
    child = np.full((most, width), -1, dtype=np.int64)
    path = np.zeros((3, most), dtype=np.int64)  # token, parent and depth of every node
    on_path = np.zeros((most, required), dtype=np.bool_)
    count, start = 2, 0
    for phrase in range(len(lengths)):
        end, count = _insert(tokens[start : start + lengths[phrase]], phrase, child, path, on_path, count)
        if phrase < required:
            low, high = classes[phrase, 0], classes[phrase, 1]
            completes[end] |= (1 << (high + 1)) - (1 << low)
            lowest[end] |= 1 << low
        else:
            forbidden[end] = True
        start += lengths[phrase]
    node_open[1] = True
    for node in range(2, count):
        node_open[node] = open_end[path[0, node]]
    fall_back = _connect(child[:count], path, open_end, inner_start, next_node)
    starts = np.cumsum(lengths) - lengths
    for node in np.argsort(path[2, :count], kind="mergesort"):
        if node >= 2:
            completes[node] |= completes[fall_back[node]]
            lowest[node] |= lowest[fall_back[node]]
            forbidden[node] |= forbidden[fall_back[node]]
        for phrase in range(required):
            own = tokens[starts[phrase] : starts[phrase] + lengths[phrase]]
            spare = classes[phrase, 2] - lengths[phrase]
            joined = inner_start[own] & node_open[node]
            depth = _depth(node, phrase, ~joined, fall_back, path[2], on_path)
            if depth or not joined[0]:  # nothing to save where it cannot even begin
                gains[node, phrase] = max(spare + depth, 0)
            depth = _depth(node, phrase, joined, fall_back, path[2], on_path)
            if depth:
                inner_gains[node, phrase] = max(spare + depth, 0)
    return count


@numba.njit(cache=True)
def _insert(phrase: Array, number: int, child: Array, path: Array, on_path: Array, count: int) -> tuple[int, int]:
    """Put a phrase into the trie: (its last node, number of nodes)."""
    node = 0
    for place in range(len(phrase)):
        token = phrase[place]
        if child[node, token] < 0:
            child[node, token] = count
            path[0, count], path[1, count], path[2, count] = token, node, path[2, node] + 1
            count += 1
        node = child[node, token]
        if number < on_path.shape[1] and place < len(phrase) - 1:
            on_path[node, number] = True
    return node, count


@numba.njit(cache=True)
def _connect(child: Array, path: Array, open_end: Array, inner_start: Array, next_node: Array) -> Array:
    """Complete the transitions, shallow nodes first; returns each node's fall-back, its longest proper suffix."""
    count, width = child.shape
    fall_back = np.zeros(count, dtype=np.int64)
    for node in np.argsort(path[2, :count], kind="mergesort"):
        if node >= 2:
            root = 1 if open_end[path[0, node]] else 0
            fall_back[node] = root if path[2, node] == 1 else next_node[fall_back[path[1, node]], path[0, node]]
        for token in range(len(open_end)):
            following = child[node if node >= 2 else 0, token]
            if node == 1 and inner_start[token]:
                following = -1  # inside a word no phrase can begin without a space
            if following < 0:
                following = next_node[fall_back[node], token] if node >= 2 else (1 if open_end[token] else 0)
            next_node[node, token] = following
        next_node[node, width] = 0
        next_node[node, width + 1] = 1
    return fall_back


@numba.njit(cache=True)
def _depth(node: int, phrase: int, allowed: Array, fall_back: Array, depth: Array, on_path: Array) -> int:
    """How many tokens of a phrase, not all of them, the node's string ends with; allowed: those that may come next."""
    while node >= 2 and not (on_path[node, phrase] and allowed[depth[node]]):
        node = fall_back[node]
    return int(depth[node])
