"""Constraints of a batch as tables, so that the search can follow them with look-ups alone.

Required and forbidden phrases of a sentence form one Aho–Corasick automaton over token ids. It has two roots, for a
phrase may begin only where a word may: after a token that ends inside a word, only a token that begins a new one can
start a phrase. What a node completes counts once the next token shows that the word ended there. So a hypothesis needs
just two numbers: its node, and a bit for each requirement it has fulfilled.

A phrase needed several times has as many bits, filled one after the other. Tables are made on the host, compiled by
numba; the search then works on tensors only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.data.batches import round_up
from termweave.errors import ConstraintError
from termweave.storage import Array

MOST_BITS = 62  # requirements of a sentence, repetitions counted

Phrase = tuple[int, ...]

# Nodes 0 and 1 are the roots: no phrase is under way, and the output ends between words (0) or inside one (1).


@dataclass(frozen=True)
class Requirement:
    """One of several spellings or wordings must stand in the output, so many times."""

    alternatives: tuple[Phrase, ...]
    times: int = 1

    @property
    def occurrences(self) -> int:
        """A phrase that overlaps with itself could be counted twice in one place; so many occurrences exclude that."""
        if self.times == 1:
            return 1
        return (self.times - 1) * max(map(_most_overlapping, self.alternatives)) + 1


@dataclass(frozen=True)
class Demands:
    """What the output of one sentence must and must not contain, as token ids."""

    required: tuple[Requirement, ...] = ()
    forbidden: tuple[Phrase, ...] = ()
    ordered: bool = False  # the requirements must be fulfilled in their order
    never: tuple[int, ...] = ()  # tokens that must not be used at all


@dataclass(frozen=True)
class WordJoins:
    """Which tokens run into each other: a word goes on from a to b if `open_end[a]` and `inner_start[b]`."""

    open_end: Array  # (vocabulary,) the token ends inside a word
    inner_start: Array  # (vocabulary,) the token begins without a space, inside a word


@dataclass(frozen=True)
class Automaton:
    """The tables of a batch. Columns of `next_node` are the sentence's own tokens, then any other token that ends
    between words, then any other that ends inside one."""

    tokens: Tensor  # (batch, columns) distinct tokens of the phrases; -1 where there is none
    next_node: Tensor  # (batch, nodes, columns + 2)
    open_end: Tensor  # (batch, nodes) the node's last token ends inside a word
    completes: Tensor  # (batch, nodes) bits of the requirements whose phrases end here
    lowest: Tensor  # (batch, nodes) the lowest bit of each of those requirements
    forbidden: Tensor  # (batch, nodes) a forbidden phrase ends here
    gains: Tensor  # (batch, nodes, phrases) tokens saved by going on with a phrase from here, in a new word
    inner_gains: Tensor  # the same inside the word, which undoes what the node completes
    phrase_bits: Tensor  # (batch, phrases) bits of the phrase's requirement
    bit_length: Tensor  # (batch, bits) tokens needed for a bit; 0 where there is none
    everything: Tensor  # (batch,) all bits
    ordered: Tensor  # (batch,)
    inner_start: Tensor  # (vocabulary,)
    vocabulary_open_end: Tensor  # (vocabulary,)
    forbids: bool  # is anything forbidden in this batch?
    never: Tensor | None  # (batch, vocabulary) tokens that must not be used at all, if there are any

    def map(self, function: Callable[[Tensor], Tensor]) -> Automaton:
        """A copy with a function applied to every table of the batch, not to those of the vocabulary."""
        shared = ("inner_start", "vocabulary_open_end", "forbids")
        changed: dict[str, Any] = {
            entry.name: function(table)
            for entry in fields(self)
            if entry.name not in shared and (table := getattr(self, entry.name)) is not None
        }
        return replace(self, **changed)

    def to(self, device: torch.device) -> Automaton:
        moved = self.map(lambda table: table.to(device, non_blocking=True))
        return replace(
            moved,
            inner_start=self.inner_start.to(device),
            vocabulary_open_end=self.vocabulary_open_end.to(device),
        )

    def select(self, rows: Tensor) -> Automaton:
        return self.map(lambda table: table[rows])

    @property
    def total(self) -> Tensor:
        """(batch,) tokens needed for everything."""
        return self.bit_length.sum(dim=1)

    def columns(self, tokens: Tensor) -> Tensor:
        """(batch, n) tokens → their columns of `next_node`."""
        own = tokens.unsqueeze(2) == self.tokens.unsqueeze(1)
        other = self.tokens.shape[1] + self.vocabulary_open_end[tokens].long()
        return torch.where(own.any(dim=2), own.long().argmax(dim=2), other)

    def look_up(self, table: Tensor, nodes: Tensor) -> Tensor:
        """Entries of a (batch, nodes) table for (batch, n) nodes."""
        return table.gather(1, nodes)

    def closed(self, nodes: Tensor, bits: Tensor) -> Tensor:
        """(batch, n): the bits if the word ended here, that is with what the node completes."""
        completes, lowest = self.look_up(self.completes, nodes), self.look_up(self.lowest, nodes)
        # A requirement's bits fill up from below: shift what is there by one and put the lowest in.
        unordered = bits | (((bits & completes) << 1 | lowest) & completes)
        in_order = bits | ((bits + 1) & completes)  # all lower bits are set, so bits + 1 is the next one
        return torch.where(self.ordered.unsqueeze(1), in_order, unordered)

    def advance(self, nodes: Tensor, bits: Tensor, tokens: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States after one more token; the third tensor tells where that would complete something forbidden."""
        joined = self.look_up(self.open_end, nodes) & self.inner_start[tokens]
        fulfilled = torch.where(joined, bits, self.closed(nodes, bits))
        width = self.next_node.shape[2]
        following = self.next_node.flatten(1).gather(1, nodes * width + columns)
        # A forbidden phrase is complete when its word ends: with the next token, or at once if no word can go on.
        ended = self.look_up(self.forbidden, following) & ~self.look_up(self.open_end, following)
        return following, fulfilled, (self.look_up(self.forbidden, nodes) & ~joined) | ended

    def close(self, values: Tensor, nodes: Tensor, bits: Tensor, end: int) -> None:
        """Make impossible, in scores (batch, n, vocabulary), what must not follow these states: in place."""
        may_end = self.may_end(nodes, bits)
        values[:, :, end] = values[:, :, end].masked_fill(~may_end, float("-inf"))
        if self.never is not None:
            values.masked_fill_(self.never.unsqueeze(1), float("-inf"))
        if not self.forbids:
            return
        stuck = self.look_up(self.forbidden, nodes)  # a word that is forbidden as it stands must go on
        values.masked_fill_(stuck.unsqueeze(2) & ~self.inner_start, float("-inf"))
        count, columns = nodes.shape[1], self.tokens.shape[1]
        tokens = self.tokens.clamp(min=0).unsqueeze(1).expand(-1, count, -1)
        each = torch.arange(columns, device=nodes.device).expand(tokens.shape)
        states = [state.unsqueeze(2).expand(tokens.shape).flatten(1) for state in (nodes, bits)]
        banned = self.advance(states[0], states[1], tokens.flatten(1), each.flatten(1))[2].view(tokens.shape)
        banned = banned & (self.tokens >= 0).unsqueeze(1)
        values.scatter_(2, tokens, values.gather(2, tokens).masked_fill(banned, float("-inf")))

    def may_end(self, nodes: Tensor, bits: Tensor) -> Tensor:
        """(batch, n): is everything fulfilled, and nothing forbidden, if the output ends here?"""
        return (self.closed(nodes, bits) == self.everything.unsqueeze(1)) & ~self.look_up(self.forbidden, nodes)

    def missing(self, nodes: Tensor, bits: Tensor) -> Tensor:
        """(batch, n): tokens that suffice to fulfil the rest, the phrase under way taken into account."""
        new_word = self._missing(self.gains, nodes, self.closed(nodes, bits))
        same_word = self._missing(self.inner_gains, nodes, bits)
        # Inside a forbidden phrase the output cannot end: one more token at least.
        return torch.minimum(new_word, same_word) + self.look_up(self.forbidden, nodes).long()

    def _missing(self, gains: Tensor, nodes: Tensor, bits: Tensor) -> Tensor:
        count = self.bit_length.shape[1]
        unset = 1 - ((bits.unsqueeze(2) >> torch.arange(count, device=bits.device)) & 1)
        missing = (unset * self.bit_length.unsqueeze(1)).sum(dim=2)
        open_bits = torch.where(self.ordered.unsqueeze(1), bits + 1, ~bits)
        wanted = (open_bits.unsqueeze(2) & self.phrase_bits.unsqueeze(1)) != 0
        saved = gains.gather(1, nodes.unsqueeze(2).expand(-1, -1, gains.shape[2])) * wanted
        return missing - saved.amax(dim=2)


def compile_automaton(demands: Sequence[Demands], joins: WordJoins, multiple: int = 1) -> Automaton:
    """Tables for the sentences of a batch; sentences without demands get a single state that allows everything.

    multiple: sizes are rounded up to multiples of it, so that batches are more often alike.
    """
    rows = [_Row(own, index, joins) for index, own in enumerate(demands)]
    nodes = round_up(2 + max(row.longest_trie for row in rows), multiple)
    # At least one of each, unused: reductions over nothing are not defined.
    columns = round_up(max(1, *(len(row.columns) for row in rows)), multiple)
    phrases = round_up(max(1, *(len(row.phrases) for row in rows)), multiple)
    bits = round_up(max(1, *(row.bits for row in rows)), multiple)
    tables = _empty_tables(len(rows), nodes, columns, phrases, bits)
    for index, row in enumerate(rows):
        row.fill(index, tables)
    tensors = {name: torch.from_numpy(table) for name, table in tables.items()}
    used = min(round_up(int(tables.pop("used").max(initial=2)), multiple), nodes)
    del tensors["used"]
    automaton = Automaton(
        **tensors,
        inner_start=torch.from_numpy(joins.inner_start),
        vocabulary_open_end=torch.from_numpy(joins.open_end),
        forbids=any(own.forbidden for own in demands),
        never=_never_used(demands, len(joins.open_end)),
    )
    # Shared beginnings need fewer nodes than was feared.
    kept: dict[str, Any] = {name: tensors[name][:, :used] for name in _NODE_TABLES}
    return replace(automaton, **kept)


def _never_used(demands: Sequence[Demands], vocabulary: int) -> Tensor | None:
    if not any(own.never for own in demands):
        return None
    never = torch.zeros(len(demands), vocabulary, dtype=torch.bool)
    for index, own in enumerate(demands):
        never[index, list(own.never)] = True
    return never


_NODE_TABLES = ("next_node", "open_end", "completes", "lowest", "forbidden", "gains", "inner_gains")


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
        "used": np.zeros(rows, dtype=np.int64),
    }


class _Row:
    """One sentence's phrases, laid out for the compiled part."""

    def __init__(self, demands: Demands, index: int, joins: WordJoins) -> None:
        self.demands = demands
        self.joins = joins
        self.where = f"sentence {index + 1}"
        self.phrases: list[Phrase] = []
        self.classes: list[tuple[int, int]] = []  # lowest and highest bit of each phrase's requirement
        self.shortest: list[int] = []  # tokens of the shortest phrase of that requirement
        self.bits = 0
        for requirement in demands.required:
            self._add(requirement)
        if self.bits > MOST_BITS:
            raise ConstraintError(
                f"{self.where} has {self.bits} constraints; at most {MOST_BITS} can be guaranteed at once"
            )
        tokens = {token for phrase in (*self.phrases, *demands.forbidden) for token in phrase}
        self.columns = sorted(tokens)
        self.longest_trie = sum(len(phrase) for phrase in (*self.phrases, *demands.forbidden))

    def _add(self, requirement: Requirement) -> None:
        times = requirement.occurrences
        lowest, highest = self.bits, self.bits + times - 1
        # What begins inside a word would need something before it; a promise needs a spelling that can stand anywhere.
        lengths = [len(phrase) for phrase in requirement.alternatives if not self.joins.inner_start[phrase[0]]]
        if not lengths:
            raise ConstraintError(f"{self.where} has a constraint that can only stand inside a word")
        shortest = min(lengths)
        for phrase in requirement.alternatives:
            self.phrases.append(phrase)
            self.classes.append((lowest, highest))
            self.shortest.append(shortest)
        self.bits += times

    def fill(self, index: int, tables: dict[str, Array]) -> None:
        forbidden = self.demands.forbidden
        everything = [*self.phrases, *forbidden]
        tables["tokens"][index, : len(self.columns)] = self.columns
        tables["everything"][index] = (1 << self.bits) - 1
        tables["ordered"][index] = self.demands.ordered
        for (lowest, highest), shortest in zip(self.classes, self.shortest, strict=True):
            tables["bit_length"][index, lowest : highest + 1] = shortest
        tables["phrase_bits"][index, : len(self.classes)] = [(2 << high) - (1 << low) for low, high in self.classes]
        width = tables["tokens"].shape[1]
        own = tables["tokens"][index, : len(self.columns)]
        flat = np.array([token for phrase in everything for token in phrase], dtype=np.int64)
        tables["used"][index] = _build(
            np.searchsorted(own, flat),
            np.array([len(phrase) for phrase in everything], dtype=np.int64),
            len(self.phrases),
            np.array(self.classes, dtype=np.int64).reshape(-1, 2),
            np.array(self.shortest, dtype=np.int64),
            self.joins.open_end[own],
            self.joins.inner_start[own],
            width,
            *(tables[name][index] for name in _NODE_TABLES),
        )


def _most_overlapping(phrase: Phrase) -> int:
    """How many occurrences of a phrase can overlap in one stretch of its own length: length over period, rounded up."""
    period = next(shift for shift in range(1, len(phrase) + 1) if phrase[shift:] == phrase[: len(phrase) - shift])
    return -(-len(phrase) // period)


@numba.njit(cache=True)
def _build(
    tokens: Array,  # columns of all phrases, end to end
    lengths: Array,
    required: int,  # so many phrases are required, the rest forbidden
    classes: Array,
    shortest: Array,
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
            low, high = classes[phrase]
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
            spare = shortest[phrase] - lengths[phrase]
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
