"""Alignment-guided search (CDAlign, Chen et al., 2021): constraints are put where the alignment says they belong.

In every step, before a token is chosen, the alignment module says which source token each hypothesis is about to
translate. Three cases, for a hypothesis by itself:

| the hypothesis                                            | goes on with                                    |
|-----------------------------------------------------------|-------------------------------------------------|
| is inside a constraint                                    | the constraint's next token, and no other       |
| is aligned to the source of a constraint it has not used  | the constraint's first token, and no other      |
| neither                                                   | whatever the model likes, the end mark included |

Nothing more: no constraint is put anywhere else, and what the alignment never points to is missed. The state of all
hypotheses of a batch is a few tensors, and a step is the same operations for every batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from termweave.constraints.constraint import Constraint
from termweave.constraints.source_places import find_sources
from termweave.data.batches import round_up
from termweave.decoding.candidates import IMPOSSIBLE
from termweave.model.output import Scores
from termweave.text.vocabulary import Vocabulary
from termweave.text.words import UNSPACED_LANGUAGES, normalise


@dataclass(frozen=True)
class Placed:
    """A constraint whose source stands in the sentence."""

    first: int  # its first source token
    last: int  # one past the last
    target: tuple[int, ...]


def place_constraints(
    text: str, constraints: Sequence[Constraint], subwords: Vocabulary, direction: str
) -> tuple[Placed, ...]:
    """The constraints whose sources stand in a normalised sentence; the others cannot be put anywhere."""
    source_language, _, target_language = direction.partition("-")
    tokens = subwords.source.spans(text, subwords.source.encode(text))
    placed = []
    for span, constraint in zip(find_sources(text, constraints, source_language), constraints, strict=True):
        if span is None:
            continue
        inside = [index for index, (start, end) in enumerate(tokens) if start < span[1] and end > span[0]]
        target = normalise(constraint.target)
        attached = subwords.target.encode_attached(target) if target_language in UNSPACED_LANGUAGES else None
        placed.append(Placed(inside[0], inside[-1] + 1, tuple(attached or subwords.target.encode(target))))
    return tuple(placed)


@dataclass(frozen=True)
class Guide:
    """The placed constraints of a batch. Numbers of constraints count from 1; 0 is none."""

    owner: Tensor  # (batch, source) which constraint a source token belongs to
    tokens: Tensor  # (batch, constraints, longest) target tokens
    lengths: Tensor  # (batch, constraints)

    @staticmethod
    def of(rows: Sequence[Sequence[Placed]], width: int, lead: int = 0, multiple: int = 1) -> Guide:
        """width: of the padded source; lead: markers before its first token; sizes are multiples of `multiple`."""
        most = round_up(max((len(row) for row in rows), default=0) or 1, multiple)
        longest = round_up(max((len(item.target) for row in rows for item in row), default=0) or 1, multiple)
        owner = torch.zeros(len(rows), width, dtype=torch.long)
        tokens = torch.zeros(len(rows), most, longest, dtype=torch.long)
        lengths = torch.zeros(len(rows), most, dtype=torch.long)
        for index, row in enumerate(rows):
            for number, item in enumerate(row):
                owner[index, lead + item.first : lead + item.last] = number + 1
                tokens[index, number, : len(item.target)] = torch.tensor(item.target)
                lengths[index, number] = len(item.target)
        return Guide(owner, tokens, lengths)

    @property
    def total(self) -> Tensor:
        """(batch,) tokens of all constraints of a sentence."""
        return self.lengths.sum(dim=1)

    def to(self, device: torch.device) -> Guide:
        return Guide(self.owner.to(device), self.tokens.to(device), self.lengths.to(device))

    def select(self, rows: Tensor) -> Guide:
        return Guide(self.owner[rows], self.tokens[rows], self.lengths[rows])

    def start(self, hypotheses: int) -> Guidance:
        """Nothing has been put anywhere."""
        batch, most = self.lengths.shape
        nothing = torch.zeros(batch, hypotheses, dtype=torch.long, device=self.lengths.device)
        return Guidance(self, nothing.new_zeros(batch, hypotheses, most, dtype=torch.bool), nothing, nothing)


@dataclass(frozen=True)
class Guidance:
    """What the hypotheses have used of their constraints."""

    guide: Guide
    used: Tensor  # (batch, hypotheses, constraints)
    inside: Tensor  # (batch, hypotheses) number of the constraint a hypothesis is inside of
    place: Tensor  # (batch, hypotheses) which of its tokens comes next

    def impose(self, alignment: Tensor, scores: Scores, closing: Tensor) -> tuple[Guidance, Scores]:
        """The scores with all but the due tokens closed, and what is used when these have been produced.

        alignment: (batch, hypotheses, source); closing: (batch,) where the limit is reached, and nothing is due.
        A due token costs nothing: it was not the model that chose it, and hypotheses it is forced upon must not fall
        behind those that were never asked.
        """
        number, place = self._due(alignment)
        number = number.masked_fill(closing.unsqueeze(1), 0)
        index, due = (number - 1).clamp(min=0), number > 0
        longest = self.guide.tokens.shape[2]
        token = self.guide.tokens.flatten(1).gather(1, index * longest + place).unsqueeze(2)
        own = scores.values.gather(2, token)
        values = scores.values.masked_fill_(due.unsqueeze(2), IMPOSSIBLE)
        free = -scores.offset.unsqueeze(2)
        values = values.scatter_(2, token, torch.where(due.unsqueeze(2), free, own))
        begun = torch.zeros_like(self.used).scatter(2, index.unsqueeze(2), due.unsqueeze(2))
        goes_on = due & (place + 1 < self.guide.lengths.gather(1, index))
        after = replace(
            self,
            used=self.used | begun,
            inside=torch.where(goes_on, number, 0),
            place=torch.where(goes_on, place + 1, 0),
        )
        return after, Scores(values, scores.offset)

    def _due(self, alignment: Tensor) -> tuple[Tensor, Tensor]:
        """Which constraint is due in each hypothesis, and which of its tokens; (batch, hypotheses) each."""
        aligned = self.guide.owner.gather(1, alignment.argmax(dim=2))
        used = self.used.gather(2, (aligned - 1).clamp(min=0).unsqueeze(2)).squeeze(2)
        opened = aligned.masked_fill(used, 0)
        return torch.where(self.inside > 0, self.inside, opened), self.place

    def follow(self, parents: Tensor) -> Guidance:
        """Hypothesis i continues what was hypothesis parents[i]; parents: (batch, hypotheses)."""
        used = self.used.gather(1, parents.unsqueeze(2).expand(-1, -1, self.used.shape[2]))
        return Guidance(self.guide, used, self.inside.gather(1, parents), self.place.gather(1, parents))

    def select(self, rows: Tensor) -> Guidance:
        """That of some sentences of the batch."""
        return Guidance(self.guide.select(rows), self.used[rows], self.inside[rows], self.place[rows])
