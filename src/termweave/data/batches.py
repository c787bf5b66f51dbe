"""Token batches: padded sentences, and the constraints of a batch laid out flat.

Constraints are short and uneven, so a padded layout would be mostly padding. Their tokens are therefore kept flat,
end to end over the whole batch; `home` says where in the padded layout (sentence, slot) each token belongs. Work per
token (embedding, adaptation) runs on the flat tokens, and only attention sees the padded layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.accelerators import CPU, Piece
from termweave.storage import Array

WIDTH_MULTIPLE = 8  # widths are rounded up to this: few distinct shapes, and what matrix units and masks like
SENTENCE_MULTIPLE = 2  # the same for sentences in training, which are many and sorted: there it would be mostly padding
FLAT_MULTIPLE = 64  # the same for the number of flat constraint tokens

Rows = tuple[Array, Array, Array]  # values and offsets of a ragged array, and which of its rows are meant
Spans = tuple[Array, Array]  # first token in its sentence and number of tokens of each constraint
Flat = tuple[Array, Array]  # ids of all phrases end to end, and the length of each
Side = tuple[Array, ...]  # ids, positions, home, number of a `ConstraintSide`

Record = TypeVar("Record", "ConstraintSide", "TokenLinks", "Batch")


@dataclass(frozen=True)
class ConstraintSide:
    """One side of all constraints of a batch.

    ids, positions, home: (tokens,), positions restart at 0 in every constraint. home: index into (batch · width), or
    batch · width for filler tokens, which belong nowhere. number: (batch, width), which constraint of its sentence a
    slot belongs to, counted from 1; 0 is an empty slot. token: (batch, width), see `token_of_slot`; None where nobody
    is expected to ask, as in training.
    """

    ids: Tensor
    positions: Tensor
    home: Tensor
    number: Tensor
    token: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> ConstraintSide:
        return _mapped(self, function)

    def pad(self, flat: Tensor) -> Tensor:
        """(…, tokens, d) → (…, batch, width, d); empty slots hold zeros."""
        batch, width = self.number.shape
        *lead, _, dimension = flat.shape
        padded = flat.new_zeros(*lead, batch * width + 1, dimension).index_copy(-2, self.home, flat)
        return padded[..., :-1, :].view(*lead, batch, width, dimension)

    def spread(self, flat: Tensor) -> Tensor:
        """The same in a single pass; empty slots hold whatever stands in the first token."""
        token = self.token_of_slot()
        return flat.index_select(-2, token.flatten()).view(*flat.shape[:-2], *token.shape, flat.shape[-1])

    def once(self, product: Callable[[Tensor], Tensor], flat: Tensor) -> Tensor:
        """A product of embedded tokens (tokens, d), on a CPU done once for those that are the same at the same place.

        The sentences of a batch share many terms, and terms many words.
        """
        if flat.device.type != "cpu":
            return product(flat)
        keys = self.ids.numpy() * len(self.ids) + self.positions.numpy()
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        return product(flat[torch.from_numpy(first)])[torch.from_numpy(place)]

    def token_of_slot(self) -> Tensor:
        """(batch, width): which token stands in a slot; the first one in empty slots."""
        if self.token is not None:
            return self.token
        batch, width = self.number.shape
        numbers = torch.arange(len(self.home), device=self.home.device)
        token = self.home.new_zeros(batch * width + 1).index_copy(0, self.home, numbers)
        return token[:-1].view(batch, width)

    def pack(self, padded: Tensor) -> Tensor:
        """(batch, width, d) → (tokens, d); filler tokens hold whatever stands in the last slot."""
        rows = padded.flatten(0, 1)
        return rows.index_select(0, self.home.clamp(max=rows.shape[0] - 1))


class TermTokens(NamedTuple):
    """One side of some constraints, each for itself, end to end."""

    ids: Tensor  # (tokens,) as the next
    positions: Tensor
    ends: Array  # (constraints,) one past the last token of each

    @staticmethod
    def of(phrases: Sequence[Sequence[int]]) -> TermTokens:
        ids, lengths = _flat(phrases)
        ends = lengths.cumsum()
        positions = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)
        return TermTokens(torch.from_numpy(ids), torch.from_numpy(positions), ends)


@dataclass(frozen=True)
class KnownConstraints:
    """What the different constraints of a batch become in a model, and which row of it belongs to which slot."""

    attention: Tensor  # (source tokens, 2 · layers, d)
    copied: Tensor  # (target tokens, 2, d)
    source: Tensor  # (batch, source width); any row for empty slots, here and below
    target: Tensor  # (batch, target width)


@dataclass(frozen=True)
class ConstraintTensors:
    """The constraints of a batch of sentences."""

    source: ConstraintSide
    target: ConstraintSide
    target_tokens: Tensor  # (batch, width): target ids in the padded layout, padding id where empty
    known: KnownConstraints | None = None  # where a model need not compute it

    def map(self, function: Callable[[Tensor], Tensor]) -> ConstraintTensors:
        return ConstraintTensors(self.source.map(function), self.target.map(function), function(self.target_tokens))

    def to(self, device: torch.device) -> ConstraintTensors:
        return self.map(lambda tensor: tensor.to(device))


@dataclass(frozen=True)
class TokenLinks:
    """Which source tokens the target tokens of a batch translate; (links,) each, filled up with links of no share."""

    places: Tensor  # index into (batch · target width · source width)
    shares: Tensor  # those of a target token sum to 1

    def map(self, function: Callable[[Tensor], Tensor]) -> TokenLinks:
        return _mapped(self, function)


@dataclass(frozen=True)
class Batch:
    """Sentences for one training step. Shapes: source (batch, source width), the others (batch, target width)."""

    source: Tensor  # ids, each sentence led by its tag if there are several directions, closed by end-of-sentence
    target_input: Tensor  # ids, led by begin-of-sentence
    target: Tensor  # ids, closed by end-of-sentence
    weights: Tensor  # loss weights: alpha inside constraints, beta elsewhere, 0 on padding
    constraints: ConstraintTensors | None
    tokens: int  # target tokens that are not padding
    weight: float  # sum of `weights`; with links, how many target tokens have any
    links: TokenLinks | None = None  # only where the alignment module is trained

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        constraints = None if self.constraints is None else self.constraints.map(function)
        links = None if self.links is None else self.links.map(function)
        return replace(_mapped(self, function), constraints=constraints, links=links)

    def to(self, device: torch.device) -> Batch:
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))


def _mapped(record: Record, function: Callable[[Tensor], Tensor]) -> Record:
    """A copy with a function applied to every tensor."""
    tensors: dict[str, Any] = {
        entry.name: function(value)
        for entry in fields(record)
        if isinstance(value := getattr(record, entry.name), Tensor)
    }
    return replace(record, **tensors)


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def pad_rows(values: Array, lengths: Array, width: int, filler: int) -> Array:
    """Rows given end to end → (rows, width), filled up on the right."""
    padded = np.full((len(lengths), width), filler, dtype=np.int64)
    padded[np.arange(width) < lengths[:, None]] = values
    return padded


def constraints_from_ids(
    sentences: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]],
    padding: int,
    alike: bool = False,
    device: torch.device = CPU,
) -> ConstraintTensors | None:
    """Lay out constraints given as (source ids, target ids) per sentence; None if there is none at all.

    alike: see `lay_out_constraints`.
    """
    phrases = [*chain.from_iterable(chain.from_iterable(sentences))]  # of the source and the target by turns
    if not phrases:
        return None
    source, target = _flat(phrases[::2]), _flat(phrases[1::2])
    return lay_out_constraints(source, target, _numbers(map(len, sentences)), padding, alike, device)


def _flat(phrases: Sequence[Sequence[int]]) -> Flat:
    return _numbers(chain.from_iterable(phrases)), _numbers(map(len, phrases))


def _numbers(values: Iterable[int]) -> Array:
    return np.fromiter(values, dtype=np.int64)


def lay_out_constraints(
    source: Flat, target: Flat, counts: Array, padding: int, alike: bool = False, device: torch.device = CPU
) -> ConstraintTensors:
    """The same, given as the flat phrases of each side and how many constraints each sentence has.

    alike: sizes are rounded up so far that few of them are different; both sides have as many flat tokens.
    """
    measured = measure_side(source[1], counts), measure_side(target[1], counts)
    most = max(total for _, total in measured)
    shapes: list[tuple[torch.dtype, tuple[int, ...]]] = []
    for longest, total in measured:
        width = round_up(max(longest, 1), 2 * WIDTH_MULTIPLE if alike else WIDTH_MULTIPLE)
        flat = _alike(most) if alike else round_up(max(total, 1), FLAT_MULTIPLE)
        shapes += [*[(torch.long, (flat,))] * 3, *[(torch.long, (len(counts), width))] * 2]
    piece = Piece([*shapes, shapes[-1]], pinned=device.type == "cuda")
    *arrays, target_tokens = piece.arrays()
    _fill_constraints(source, target, counts, padding, tuple(arrays), target_tokens)
    *sides, tokens = piece.tensors(device)
    return ConstraintTensors(ConstraintSide(*sides[:5]), ConstraintSide(*sides[5:]), tokens)


def _alike(total: int) -> int:
    """Room for so many flat tokens, in eighths of a power of two: all layers work on those that only fill up, too."""
    power = 1 << max(total - 1, 0).bit_length()
    return round_up(max(total, 1), max(power // 8, FLAT_MULTIPLE))


@numba.njit(nogil=True, cache=True)
def measure_side(lengths: Array, counts: Array) -> tuple[int, int]:
    """Tokens of the sentence with the most constraint tokens, and of all sentences together."""
    longest, total, constraint = 0, 0, 0
    for sentence in range(len(counts)):
        tokens = 0
        for _ in range(counts[sentence]):
            tokens += lengths[constraint]
            constraint += 1
        longest = max(longest, tokens)
        total += tokens
    return longest, total


@numba.njit(nogil=True, cache=True)
def _fill_constraints(
    source: Flat, target: Flat, counts: Array, padding: int, sides: tuple[Array, ...], target_tokens: Array
) -> None:
    # Like phrases of a corpus, all in its only sentence.
    offsets, rows = np.zeros(1, dtype=np.int64), np.zeros(len(counts), dtype=np.int64)
    starts = np.cumsum(source[1]) - source[1], np.cumsum(target[1]) - target[1]
    count = fill_side((source[0], offsets, rows), (starts[0], source[1]), counts, sides[:4])
    _number_tokens(sides[2], count, sides[4])
    count = fill_side((target[0], offsets, rows), (starts[1], target[1]), counts, sides[5:9])
    _number_tokens(sides[7], count, sides[9])
    fill_target_tokens(sides[5:9], count, padding, target_tokens)


@numba.njit(nogil=True, cache=True)
def _number_tokens(home: Array, tokens: int, token_of_slot: Array) -> None:
    """token_of_slot: zeros, to be filled in."""
    flat = token_of_slot.reshape(-1)
    for token in range(tokens):
        flat[home[token]] = token


@numba.njit(nogil=True, cache=True)
def fill_side(text: Rows, spans: Spans, counts: Array, side: Side) -> int:
    """One side as `ConstraintSide` describes it; returns the number of tokens that are no filler."""
    values, offsets, rows = text
    starts, lengths = spans
    ids, positions, home, number = side
    width = number.shape[1]
    put(number.reshape(-1), 0, number.size, 0)
    token, constraint = 0, 0
    for sentence in range(len(counts)):
        slot = 0
        for place in range(counts[sentence]):
            first = offsets[rows[sentence]] + starts[constraint]
            for position in range(np.int64(lengths[constraint])):
                ids[token] = values[first + position]
                positions[token] = position
                home[token] = sentence * width + slot
                number[sentence, slot] = place + 1
                token += 1
                slot += 1
            constraint += 1
    put(ids, token, len(ids), 0)
    put(positions, token, len(ids), 0)
    put(home, token, len(ids), number.size)
    return token


@numba.njit(nogil=True, cache=True)
def fill_target_tokens(side: Side, tokens: int, padding: int, target_tokens: Array) -> None:
    """Those of `ConstraintTensors`; so many tokens are no filler."""
    ids, _, home, _ = side
    flat = target_tokens.reshape(-1)
    put(flat, 0, len(flat), padding)
    for token in range(tokens):
        flat[home[token]] = ids[token]


@numba.njit(nogil=True, cache=True)
def put(row: Array, first: int, last: int, value: float) -> None:
    """row[first:last] = value, which takes numba much longer to compile."""
    for place in range(first, last):
        row[place] = value
