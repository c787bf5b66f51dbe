"""Token batches: padded sentences, and the constraints of a batch laid out flat.

Constraints are short and uneven, so a padded layout would be mostly padding. Their tokens are therefore kept flat,
end to end over the whole batch; `home` says where in the padded layout (sentence, slot) each token belongs. Work per
token (embedding, adaptation) runs on the flat tokens, and only attention sees the padded layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from termweave.accelerators import sent_together
from termweave.storage import Array

WIDTH_MULTIPLE = 8  # widths are rounded up to this: few distinct shapes, and what matrix units and masks like
FLAT_MULTIPLE = 64  # the same for the number of flat constraint tokens

Record = TypeVar("Record", "ConstraintSide", "TokenLinks", "Batch")


@dataclass(frozen=True)
class ConstraintSide:
    """One side of all constraints of a batch.

    ids, positions, home: (tokens,), positions restart at 0 in every constraint. home: index into (batch · width), or
    batch · width for filler tokens, which belong nowhere. number: (batch, width), which constraint of its sentence a
    slot belongs to, counted from 1; 0 is an empty slot.
    """

    ids: Tensor
    positions: Tensor
    home: Tensor
    number: Tensor

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
        batch, width = self.number.shape
        numbers = torch.arange(len(self.home), device=self.home.device)
        token = self.home.new_zeros(batch * width + 1).index_copy(0, self.home, numbers)
        return flat.index_select(-2, token[:-1]).view(*flat.shape[:-2], batch, width, flat.shape[-1])

    def pack(self, padded: Tensor) -> Tensor:
        """(batch, width, d) → (tokens, d); filler tokens hold whatever stands in the last slot."""
        rows = padded.flatten(0, 1)
        return rows.index_select(0, self.home.clamp(max=rows.shape[0] - 1))


@dataclass(frozen=True)
class ConstraintTensors:
    """The constraints of a batch of sentences."""

    source: ConstraintSide
    target: ConstraintSide
    target_tokens: Tensor  # (batch, width): target ids in the padded layout, padding id where empty

    def map(self, function: Callable[[Tensor], Tensor]) -> ConstraintTensors:
        return ConstraintTensors(self.source.map(function), self.target.map(function), function(self.target_tokens))

    def to(self, device: torch.device) -> ConstraintTensors:
        tensors = (*vars(self.source).values(), *vars(self.target).values(), self.target_tokens)
        *sides, tokens = sent_together(tensors, device)
        return ConstraintTensors(ConstraintSide(*sides[:4]), ConstraintSide(*sides[4:]), tokens)


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


def ranges(starts: Array, lengths: Array) -> Array:
    """The index ranges start … start+length, one after the other, as one flat array."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def pad_rows(values: Array, lengths: Array, width: int, filler: int) -> Array:
    """Rows given end to end → (rows, width), filled up on the right."""
    padded = np.full((len(lengths), width), filler, dtype=np.int64)
    padded[np.arange(width) < lengths[:, None]] = values
    return padded


def constraint_side(ids: Array, lengths: Array, per_sentence: Array, alike: bool = False) -> ConstraintSide:
    """Lay out one side: ids of all constraints end to end, the length of each, constraints per sentence.

    alike: sizes are rounded up so far that few of them are different.
    """
    sentences = np.repeat(np.arange(len(per_sentence)), per_sentence)
    first = np.cumsum(per_sentence) - per_sentence
    number = np.arange(len(lengths)) - np.repeat(first, per_sentence) + 1
    token_sentence = np.repeat(sentences, lengths)
    tokens = np.bincount(token_sentence, minlength=len(per_sentence))
    width = round_up(max(int(tokens.max(initial=0)), 1), 2 * WIDTH_MULTIPLE if alike else WIDTH_MULTIPLE)
    slot = ranges(np.zeros_like(tokens), tokens)
    home = token_sentence * width + slot
    padded_number = np.zeros((len(per_sentence), width), dtype=np.int64)
    padded_number.reshape(-1)[home] = np.repeat(number, lengths)
    flat = round_up(max(len(ids), 1), FLAT_MULTIPLE)
    flat = 1 << (flat - 1).bit_length() if alike else flat
    positions = ranges(np.zeros_like(lengths), lengths)
    return ConstraintSide(
        ids=_filled_up(ids, flat, 0),
        positions=_filled_up(positions, flat, 0),
        home=_filled_up(home, flat, padded_number.size),
        number=torch.from_numpy(padded_number),
    )


def _filled_up(values: Array, size: int, filler: int) -> Tensor:
    """What numpy's own function does in a tenth of the time: a device waits for it."""
    filled = np.full(size, filler, dtype=np.int64)
    filled[: len(values)] = values
    return torch.from_numpy(filled)


def constraint_tensors(source: ConstraintSide, target: ConstraintSide, padding: int) -> ConstraintTensors:
    batch, width = target.number.shape
    tokens = np.full(batch * width + 1, padding, dtype=np.int64)
    tokens[target.home.numpy()] = target.ids.numpy()  # numpy's indexing is much the faster for so little
    return ConstraintTensors(source, target, torch.from_numpy(tokens[:-1].reshape(batch, width)))


def constraints_from_ids(
    sentences: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]], padding: int, alike: bool = False
) -> ConstraintTensors | None:
    """Lay out constraints given as (source ids, target ids) per sentence; None if there is none at all.

    alike: see `constraint_side`.
    """
    per_sentence = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    if not per_sentence.sum():
        return None
    pairs = [pair for sentence in sentences for pair in sentence]
    sides = []
    for side in (0, 1):
        lengths = np.array([len(pair[side]) for pair in pairs], dtype=np.int64)
        ids = np.array([token for pair in pairs for token in pair[side]], dtype=np.int64)
        sides.append(constraint_side(ids, lengths, per_sentence, alike))
    return constraint_tensors(sides[0], sides[1], padding)
