"""Sentences as the search sees them, and which of them are searched together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import torch
from torch import Tensor

from termweave.constraints.constraint import Constraint
from termweave.decoding.beam import NO_LENGTH, Hypothesis, Steps
from termweave.decoding.cdalign import Placed
from termweave.decoding.demands import Pair, Wishes
from termweave.decoding.terminology import TermPlan

UNKNOWN_EXPANSION = 1.5  # subwords of an output for each of its source, at most, as far as nothing better is known
LONG = 1.1  # times what a source expands to: from there on, an output gains nothing by being longer
MOST_FEW, SUBWORDS_FOR_ONE = 3, 10  # what is few: so many at most, and one for each so many subwords
MOST_CHOSEN = 1  # the same of words that a glossary chose
MOST_TIMES, MORE = 1.15, 6  # the same times, and so many tokens: as long as outputs get, but for what they must meet
NEEDED_MORE = 4  # of so many tokens that must be met, one stands there that would not be there else
DUE_MORE = 4  # than what a source expands to and a share of what must be met: by then words of a glossary stand there

Item = TypeVar("Item")


@dataclass(frozen=True)
class Request:
    """One sentence as ids, with what the model is told and what the search must see to."""

    index: int
    source: list[int]
    constraints: list[Pair]
    given: tuple[Constraint, ...]  # by the caller
    wishes: Wishes
    plan: TermPlan  # what the glossary adds
    found: tuple[Hypothesis, ...] = ()  # outputs of plain search that keep to the wishes, though not the best of it
    spoken: tuple[int, ...] = ()  # what the model says by itself, where that does not do
    placed: tuple[Placed, ...] = ()  # constraints that are put where the alignment points to
    expansion: float = UNKNOWN_EXPANSION  # of the direction

    @property
    def expected(self) -> float:
        """Tokens of its translation, if nothing must be met."""
        return len(self.source) * self.expansion


def has_few(request: Request) -> bool:
    """Can a model that knows constraints be trusted to meet them by itself? A few for its length, mostly.

    Those of a short sentence leave it little to say by itself; and words that somebody chose for all sentences are
    missed more often than those of a reference, or what is kept as it is.
    """
    few = min(MOST_FEW, max(1, len(request.source) // SUBWORDS_FOR_ONE))
    return len(request.wishes.required) <= few and request.plan.chosen <= MOST_CHOSEN


def wishes_of(constraints: Sequence[Constraint], plan: TermPlan, forbidden: Sequence[str], ordered: bool) -> Wishes:
    allowed = plan.allowed(constraints)
    counted = None if allowed is None else tuple(allowed.elements())
    return Wishes((*constraints, *plan.required), (*forbidden, *plan.forbidden), ordered, counted=counted)


def batches(requests: list[Request], batch_tokens: int, steps: Steps) -> Iterator[list[Request]]:
    """Longest first, so that memory is needed at the start; as many as fit together."""
    ordered = sorted(requests, key=lambda request: -len(request.source))
    start = 0
    while start < len(ordered):
        count = steps.fitting(max(batch_tokens // (len(ordered[start].source) + 2), 1))
        yield ordered[start : start + count]
        start += count


class Early(Generic[Item]):
    """An iterator whose next item can be made before it is asked for."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = iter(items)
        self._made: list[Item] = []

    def make(self) -> None:
        self._made = self._made or list(islice(self._items, 1))

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        self.make()
        if not self._made:
            raise StopIteration
        return self._made.pop()


def usual_lengths(batch: Sequence[Request], needed: Tensor) -> Tensor:
    """(batch,) As `beam_search` wants them: what the model said by itself and, to be met in it, so many tokens each.

    Where that is not known, the source says how long an output is, if it does not babble. What must be met mostly
    stands there instead of other words.
    """
    return torch.tensor([_usual_length(*each) for each in zip(batch, needed.tolist(), strict=True)]) + 1


def _usual_length(request: Request, needed: int) -> int:
    if request.spoken:
        return len(request.spoken) + needed
    return int(request.expected * LONG)


def may_be_cut_off(request: Request, length: int) -> bool:
    """Is an output so long that it may have ended at a tightened limit, in the middle of what it says?"""
    return length >= int(request.expected * MOST_TIMES) + MORE


def tightened(limits: Tensor, batch: Sequence[Request], needed: Tensor) -> Tensor:
    """(batch,) Limits that leave no room to babble, where tokens are needed: while they are missing, nothing can end.

    At its limit, an output has met everything: with so many tokens left as are missing, they are all that may come.
    """
    long = torch.tensor([int(request.expected * MOST_TIMES) for request in batch]) + needed // NEEDED_MORE
    most = torch.maximum(long, needed) + MORE
    return torch.where(needed > 0, torch.minimum(limits, most), limits)


def deadlines(batch: Sequence[Request], needed: Tensor) -> Tensor:
    """(batch,) Lengths by which outputs of a model that knows its constraints have met them.

    Forced in at the very end, a term would leave no room for an end that fits, and whoever waits for it babbles
    meanwhile. That happens to words that a glossary chose; all else has time, for its place may well be at the end. So
    has a sentence with something forbidden: words that begin with that would be taken for something missing.
    """
    usual = torch.tensor([int(request.expected) for request in batch])
    due = torch.maximum(usual + needed // NEEDED_MORE, needed) + DUE_MORE
    is_due = torch.tensor([bool(request.plan.chosen and not request.wishes.forbidden) for request in batch])
    return torch.where(is_due, due, NO_LENGTH)
