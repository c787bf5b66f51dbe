"""From what the sentences of a batch demand to the tables of their automaton.

Python lays all phrases of the batch out end to end; what there is to compute is done by numba, in one call for all
sentences: a call for each of them would take longer than what it computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import prod

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.data.batches import round_up
from termweave.decoding.automaton import MOST_BITS, Automaton, Demands, Phrase, WordJoins
from termweave.errors import ConstraintError
from termweave.storage import Array

_NODE_TABLES = ("next_node", "open_end", "completes", "lowest", "forbidden", "gains", "inner_gains")
ALIGNMENT = 64  # bytes, of the tables in the memory they share


def compile_automaton(
    demands: Sequence[Demands], joins: WordJoins, multiple: int = 1, pinned: bool = False
) -> Automaton:
    """Tables for the sentences of a batch; sentences without demands get a single state that allows everything.

    multiple: sizes are rounded up to multiples of it, those that count tokens of twice as much, so that batches are
    more often alike. pinned: in memory a GPU can read by itself, which is also used again for the next batch.
    """
    layout = _Layout.of(demands, joins)
    tokens = 2 * multiple if multiple > 1 else 1  # their numbers differ more than those of phrases
    widest = int(np.diff(layout.token_ends, prepend=0).max(initial=0))
    own = np.full((len(demands), max(widest, 1)), -1, dtype=np.int64)
    distinct = int(_distinct(layout.tokens, layout.token_ends, own).max(initial=1))
    tables = _empty_tables(
        len(demands),
        len(joins.open_end),
        nodes=round_up(2 + widest, tokens),
        columns=round_up(max(distinct, 1), tokens),
        # At least one of each, unused: reductions over nothing are not defined.
        phrases=round_up(int(layout.required.max(initial=1)), multiple),
        bits=round_up(int(layout.bits.max(initial=1)), multiple),
        pinned=pinned,
    )
    arrays = {name: table.numpy() for name, table in tables.items()}
    arrays["tokens"].fill(-1)
    arrays["tokens"][:, : min(distinct, own.shape[1])] = own[:, :distinct]
    arrays["ordered"][:] = [demand.ordered for demand in demands]
    arrays["inner_start"][:], arrays["vocabulary_open_end"][:] = joins.inner_start, joins.open_end
    nodes = _fill(
        layout.tokens,
        layout.ends,
        layout.classes,
        layout.phrase_ends,
        layout.required,
        layout.bits,
        (joins.open_end, joins.inner_start),
        tuple(arrays[name] for name in ("tokens", "everything", "phrase_bits", "bit_length")),
        tuple(arrays[name] for name in _NODE_TABLES),
    )
    used = min(round_up(int(nodes.max(initial=2)), tokens), tables["open_end"].shape[1])
    for name in _NODE_TABLES:
        table = tables[name][:, :used]  # shared beginnings need fewer nodes than was feared
        tables[name] = table if pinned else table.contiguous()  # a GPU gets all in one piece
    return Automaton(
        **tables,
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


def _empty_tables(
    rows: int, vocabulary: int, nodes: int, columns: int, phrases: int, bits: int, pinned: bool
) -> dict[str, Tensor]:
    """Zeros, in one piece of memory: a single copy takes all tables to the device."""
    shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
        "tokens": (torch.long, (rows, columns)),
        "next_node": (torch.long, (rows, nodes, columns + 2)),
        "open_end": (torch.bool, (rows, nodes)),
        "completes": (torch.long, (rows, nodes)),
        "lowest": (torch.long, (rows, nodes)),
        "forbidden": (torch.bool, (rows, nodes)),
        "gains": (torch.long, (rows, nodes, phrases)),
        "inner_gains": (torch.long, (rows, nodes, phrases)),
        "phrase_bits": (torch.long, (rows, phrases)),
        "bit_length": (torch.long, (rows, bits)),
        "everything": (torch.long, (rows,)),
        "ordered": (torch.bool, (rows,)),
        "inner_start": (torch.bool, (vocabulary,)),
        "vocabulary_open_end": (torch.bool, (vocabulary,)),
    }
    sizes = [prod(shape) * kind.itemsize for kind, shape in shapes.values()]
    starts = [0, *accumulate(round_up(size, ALIGNMENT) for size in sizes)]
    memory = torch.zeros(starts[-1], dtype=torch.uint8, pin_memory=pinned)
    return {
        name: memory[start : start + size].view(kind).view(shape)
        for (name, (kind, shape)), start, size in zip(shapes.items(), starts, sizes, strict=False)
    }


@dataclass(frozen=True)
class _Layout:
    """The phrases of a batch end to end: those of the first sentence, required ones first, then of the second, …"""

    tokens: Array
    ends: Array  # of each phrase, among the tokens
    classes: Array  # of each phrase: lowest and highest bit, tokens needed at most
    phrase_ends: Array  # of each sentence, among the phrases
    token_ends: Array  # of each sentence, among the tokens
    required: Array  # phrases of each sentence
    bits: Array  # of each sentence

    @staticmethod
    def of(demands: Sequence[Demands], joins: WordJoins) -> _Layout:
        phrases: list[Phrase] = []
        items: list[tuple[int, int, int]] = []  # of each requirement: its sentence, alternatives, occurrences
        phrase_ends = []
        for row, own in enumerate(demands):
            for requirement in own.required:
                phrases += requirement.alternatives
                items.append((row, len(requirement.alternatives), requirement.occurrences))
            phrases += own.forbidden
            phrase_ends.append(len(phrases))
        tokens = np.fromiter(chain.from_iterable(phrases), dtype=np.int64)
        ends = np.cumsum(np.fromiter(map(len, phrases), dtype=np.int64))
        classes = np.zeros((len(phrases), 3), dtype=np.int64)
        required, bits = np.zeros((2, len(demands)), dtype=np.int64)
        sentence_ends = np.array(phrase_ends, dtype=np.int64)
        requirements = np.fromiter(chain.from_iterable(items), dtype=np.int64).reshape(-1, 3)
        stuck = _classify(tokens, ends, sentence_ends, requirements, joins.inner_start, classes, required, bits)
        if stuck >= 0:
            raise ConstraintError(f"sentence {stuck + 1} has a constraint that can only stand inside a word")
        if len(bits) and bits.max() > MOST_BITS:
            where = f"sentence {int(bits.argmax()) + 1}"
            raise ConstraintError(
                f"{where} has {bits.max()} constraints; at most {MOST_BITS} can be guaranteed at once"
            )
        token_ends = np.concatenate(([0], ends))[sentence_ends]
        return _Layout(tokens, ends, classes, sentence_ends, token_ends, required, bits)


@numba.njit(cache=True)
def _classify(
    tokens: Array,
    ends: Array,
    phrase_ends: Array,
    requirements: Array,  # of each: its sentence, alternatives, occurrences
    inner_start: Array,
    classes: Array,
    required: Array,
    bits: Array,
) -> int:
    """Fill the last three; returns a sentence with a constraint that can only stand inside a word, or −1."""
    for item in range(len(requirements)):
        row, alternatives, occurrences = requirements[item]
        first = required[row] + (phrase_ends[row - 1] if row else 0)
        low, shortest = bits[row], 0
        bits[row] += occurrences
        required[row] += alternatives
        for phrase in range(first, first + alternatives):
            start = ends[phrase - 1] if phrase else 0
            length = ends[phrase] - start
            # What begins inside a word would need something before it; a promise needs a spelling that stands anywhere.
            if not inner_start[tokens[start]] and (shortest == 0 or length < shortest):
                shortest = length
        if shortest == 0:
            return int(row)
        for phrase in range(first, first + alternatives):
            classes[phrase, 0], classes[phrase, 1], classes[phrase, 2] = low, bits[row] - 1, shortest
    return -1


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
    starts, inside = np.cumsum(lengths) - lengths, inner_start[tokens]
    for node in np.argsort(path[2, :count], kind="mergesort"):
        if node >= 2:
            completes[node] |= completes[fall_back[node]]
            lowest[node] |= lowest[fall_back[node]]
            forbidden[node] |= forbidden[fall_back[node]]
        for phrase in range(required):
            own = inside[starts[phrase] : starts[phrase] + lengths[phrase]]
            spare = classes[phrase, 2] - lengths[phrase]
            depth = _depth(node, phrase, own, False, node_open[node], fall_back, path[2], on_path)
            if depth or not (own[0] and node_open[node]):  # nothing to save where it cannot even begin
                gains[node, phrase] = max(spare + depth, 0)
            depth = _depth(node, phrase, own, True, node_open[node], fall_back, path[2], on_path)
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
def _depth(
    node: int, phrase: int, inside: Array, joined: bool, is_open: bool, fall_back: Array, depth: Array, on_path: Array
) -> int:
    """How many tokens of a phrase, not all of them, the node's string ends with.

    inside: which of its tokens begin inside a word; joined: is the next to go on with the word, if it is_open?
    """
    while node >= 2 and not (on_path[node, phrase] and (inside[depth[node]] and is_open) == joined):
        node = fall_back[node]
    return int(depth[node])
