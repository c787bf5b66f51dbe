"""Constraints of a batch as tables, so that the search can follow them with look-ups alone.

Required and forbidden phrases of a sentence form one Aho–Corasick automaton over token ids. It has two roots, for a
phrase may begin only where a word may: after a token that ends inside a word, only a token that begins a new one can
start a phrase. What a node completes counts once the next token shows that the word ended there. So a hypothesis needs
just two numbers: its node, and a bit for each requirement it has fulfilled.

A phrase needed several times has as many bits, filled one after the other. A phrase that is both required and forbidden
is forbidden as soon as its bits are set: it stands there as often as it is required, and no more often. The tables are
made on the host, by `tables`; the search then works on tensors only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from termweave.storage import Array

MOST_BITS = 62  # requirements of a sentence, repetitions counted
ALWAYS = 1 << MOST_BITS  # a bit beside them, which counts as set from the start

Phrase = tuple[int, ...]

# Nodes 0 and 1 are the roots: no phrase is under way, and the output ends between words (0) or inside one (1).


class Requirement(NamedTuple):
    """One of several spellings or wordings must stand in the output, so many times."""

    alternatives: tuple[Phrase, ...]
    times: int = 1

    @property
    def occurrences(self) -> int:
        """A phrase that overlaps with itself could be counted twice in one place; so many occurrences exclude that."""
        if self.times == 1:
            return 1
        return (self.times - 1) * max(map(_most_overlapping, self.alternatives)) + 1


class Demands(NamedTuple):
    """What the output of one sentence must and must not contain, as token ids."""

    required: tuple[Requirement, ...] = ()
    forbidden: tuple[Phrase, ...] = ()  # one that is required too: when that is fulfilled
    ordered: bool = False  # the requirements must be fulfilled in their order
    never: tuple[int, ...] = ()  # tokens that must not be used at all


@dataclass(frozen=True)
class WordJoins:
    """Which tokens run into each other: a word goes on from a to b if `open_end[a]` and `inner_start[b]`."""

    open_end: Array  # (vocabulary,) the token ends inside a word
    inner_start: Array  # (vocabulary,) the token begins without a space, inside a word
    _tensors: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Both as tensors of a device, where they stay: they are those of every batch."""
        if device not in self._tensors:
            self._tensors[device] = (
                torch.tensor(self.open_end, device=device),
                torch.tensor(self.inner_start, device=device),
            )
        return self._tensors[device]


@dataclass(frozen=True)
class Automaton:
    """The tables of a batch. Columns of `next_node` are the sentence's own tokens, then any other token that ends
    between words, then any other that ends inside one."""

    tokens: Tensor  # (batch, columns) distinct tokens of the phrases; -1 where there is none
    next_node: Tensor  # (batch, nodes, columns + 2)
    open_end: Tensor  # (batch, nodes) the node's last token ends inside a word
    completes: Tensor  # (batch, nodes) bits of the requirements whose phrases end here
    lowest: Tensor  # (batch, nodes) the lowest bit of each of those requirements
    forbidden: Tensor  # (batch, nodes) bits that must be set to make forbidden what ends here; 0 where nothing is
    gains: Tensor  # (batch, nodes, phrases) tokens saved by going on with a phrase from here, in a new word
    inner_gains: Tensor  # the same inside the word, which undoes what the node completes
    # (batch, nodes, 3) the first phrase that saves anything from here, the one behind the last, and at most how much
    # less is missing here than to what is fulfilled already
    savings: Tensor
    phrase_bits: Tensor  # (batch, phrases) bits of the phrase's requirement
    bit_length: Tensor  # (batch, bits) tokens needed for a bit; 0 where there is none
    everything: Tensor  # (batch,) all bits
    ordered: Tensor  # (batch,)
    inner_start: Tensor  # (vocabulary,)
    vocabulary_open_end: Tensor  # (vocabulary,)
    forbids: bool  # is anything forbidden in this batch?
    orders: bool  # is any of its sentences ordered?
    never: Tensor | None  # (batch, vocabulary) tokens that must not be used at all, if there are any

    def map(self, function: Callable[[Tensor], Tensor]) -> Automaton:
        """A copy with a function applied to every table of the batch, not to those of the vocabulary."""
        shared = ("inner_start", "vocabulary_open_end", "forbids", "orders")
        changed: dict[str, Any] = {
            entry.name: function(table)
            for entry in fields(self)
            if entry.name not in shared and (table := getattr(self, entry.name)) is not None
        }
        return replace(self, **changed)

    def to(self, device: torch.device) -> Automaton:
        vocabulary = self.inner_start.to(device), self.vocabulary_open_end.to(device)
        moved = self.map(lambda table: table.to(device))
        return replace(moved, inner_start=vocabulary[0], vocabulary_open_end=vocabulary[1])

    def select(self, rows: Tensor) -> Automaton:
        return self.map(lambda table: table.index_select(0, rows))

    @property
    def closes_more_than_ends(self) -> bool:
        return self.forbids or self.never is not None

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
        if not self.orders:
            return unordered
        in_order = bits | ((bits + 1) & completes)  # all lower bits are set, so bits + 1 is the next one
        return torch.where(self.ordered.unsqueeze(1), in_order, unordered)

    def advance(self, nodes: Tensor, bits: Tensor, tokens: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States after one more token; the third tensor tells where that would complete something forbidden."""
        joined = self.look_up(self.open_end, nodes) & self.inner_start[tokens]
        fulfilled = torch.where(joined, bits, self.closed(nodes, bits))
        width = self.next_node.shape[2]
        following = self.next_node.flatten(1).gather(1, nodes * width + columns)
        if not self.forbids:
            return following, fulfilled, torch.zeros_like(joined)
        # A forbidden phrase is complete when its word ends: with the next token, or at once if no word can go on.
        ended = self.barred(following, fulfilled) & ~self.look_up(self.open_end, following)
        return following, fulfilled, (self.barred(nodes, bits) & ~joined) | ended

    def barred(self, nodes: Tensor, bits: Tensor) -> Tensor:
        """(batch, n): would something forbidden stand here, if the word ended?"""
        needed = self.look_up(self.forbidden, nodes)
        return (needed != 0) & (needed & ~(bits | ALWAYS) == 0)

    def close(self, values: Tensor, nodes: Tensor, bits: Tensor, end: int) -> None:
        """Make impossible, in scores (batch, n, vocabulary), what must not follow these states: in place."""
        may_end = self.may_end(nodes, bits)
        values[:, :, end] = values[:, :, end].masked_fill(~may_end, float("-inf"))
        if self.never is not None:
            values.masked_fill_(self.never.unsqueeze(1), float("-inf"))
        if not self.forbids:
            return
        stuck = self.barred(nodes, bits)  # a word that is forbidden as it stands must go on
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
        fulfilled = self.closed(nodes, bits) == self.everything.unsqueeze(1)
        return fulfilled & ~self.barred(nodes, bits) if self.forbids else fulfilled

    def missing(self, nodes: Tensor, bits: Tensor) -> Tensor:
        """(batch, n): tokens that suffice to fulfil the rest, the phrase under way taken into account."""
        # In a new word, which counts what the node completes, or on in the same word: both at once.
        gains = torch.cat([self.gains, self.inner_gains], dim=1)
        both_nodes = torch.cat([nodes, nodes + self.gains.shape[1]], dim=1)
        missing, saved = self._missing(gains, both_nodes, torch.cat([self.closed(nodes, bits), bits], dim=1))
        missing = missing - saved
        if self.forbids:
            # At a forbidden phrase neither the output can end nor the word: one more token, unless it is that of a
            # required phrase which goes on in the word.
            stuck, goes_on = self.barred(nodes, bits), saved[:, nodes.shape[1] :] > 0
            missing = missing + torch.cat([stuck, stuck & ~goes_on], dim=1).long()
        return torch.minimum(*missing.chunk(2, dim=1))

    def _missing(self, gains: Tensor, nodes: Tensor, bits: Tensor) -> tuple[Tensor, Tensor]:
        """All tokens of what is missing, and those that the phrase under way saves."""
        count = self.bit_length.shape[1]
        unset = ~bits.unsqueeze(2) >> torch.arange(count, device=bits.device) & 1
        missing = (unset * self.bit_length.unsqueeze(1)).sum(dim=2)
        open_bits = torch.where(self.ordered.unsqueeze(1), bits + 1, ~bits) if self.orders else ~bits
        wanted = (open_bits.unsqueeze(2) & self.phrase_bits.unsqueeze(1)) != 0
        saved = gains.gather(1, nodes.unsqueeze(2).expand(-1, -1, gains.shape[2])) * wanted
        return missing, saved.amax(dim=2)


def _most_overlapping(phrase: Phrase) -> int:
    """How many occurrences of a phrase can overlap in one stretch of its own length: length over period, rounded up."""
    period = next(shift for shift in range(1, len(phrase) + 1) if phrase[shift:] == phrase[: len(phrase) - shift])
    return -(-len(phrase) // period)
