"""What constraints become in the model, remembered from batch to batch: the terms of a glossary come again and again.

Keys and values of a constraint depend on its tokens alone. On a CPU with weights of eight bits they are computed so
that its company does not matter either: products have a scale for each token, and loops attend. So it makes no
difference to a translation what was translated before it, or beside it by another thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, islice
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from termweave.data.batches import WIDTH_MULTIPLE, ConstraintTensors, KnownConstraints, constraints_from_ids
from termweave.model.output import CopyOutput
from termweave.model.quantised import QuantisedLinear
from termweave.model.vectors import FoldedAdapters

if TYPE_CHECKING:
    from termweave.model.transformer import Transformer

MOST_BYTES = 256 << 20  # some 20,000 tokens of each side, with the ready model
TOGETHER = 256  # terms, where nothing says which belong together
LARGE = 16  # what takes more than one in so many of them is not kept: it would push out all the rest

Phrase = Sequence[int]
Pair = tuple[tuple[int, ...], tuple[int, ...]]


class KnownTerm(NamedTuple):
    """In half precision, which is finer than what eight bits leave of it."""

    attention: Tensor  # (source tokens, 2 · layers, d) keys and values of each layer
    copied: Tensor  # (target tokens, 2, d) keys and context of `copy`

    @property
    def bytes(self) -> int:
        return self.attention.nbytes + self.copied.nbytes


class KnownTerms:
    """Of one model. Threads may share it."""

    def __init__(self, model: Transformer, most_bytes: int = MOST_BYTES) -> None:
        self._model, self._most_bytes = model, most_bytes
        self._known: OrderedDict[Pair, KnownTerm] = OrderedDict()  # those asked for last at the end
        self._bytes = 0
        self._lock = Lock()

    @staticmethod
    def can_know(model: Transformer) -> bool:
        """Only of products by eight bits is the rest of a batch so slow that this is worth its memory."""
        memory = model.constraint_memory
        folded = memory is not None and isinstance(memory.adapters, FoldedAdapters)
        return folded and isinstance(model.output, CopyOutput) and isinstance(model.vocabulary_product, QuantisedLinear)

    @torch.inference_mode()
    def meet(self, pairs: Iterable[Pair]) -> None:
        """Know these, as if they had just been asked for."""
        rest = iter(dict.fromkeys(pairs))
        while some := list(islice(rest, TOGETHER)):
            self._terms(some)

    def forget(self) -> None:
        with self._lock:
            self._known.clear()
            self._bytes = 0

    def recall(
        self, sentences: Sequence[Sequence[tuple[Phrase, Phrase]]], constraints: ConstraintTensors
    ) -> KnownConstraints:
        """constraints: those of the sentences."""
        number: dict[Pair, int] = {}
        pairs = ((tuple(source), tuple(target)) for own in sentences for source, target in own)
        which = np.array([number.setdefault(pair, len(number)) for pair in pairs])
        terms = self._terms(list(number))
        return KnownConstraints(
            torch.cat([term.attention for term in terms]),
            torch.cat([term.copied for term in terms]),
            _rows([len(pair[0]) for pair in number], which)[constraints.source.token_of_slot()],
            _rows([len(pair[1]) for pair in number], which)[constraints.target.token_of_slot()],
        )

    def _terms(self, pairs: list[Pair]) -> list[KnownTerm]:
        """Of different pairs."""
        with self._lock:
            found = {pair: self._known[pair] for pair in pairs if pair in self._known}
            for pair in found:
                self._known.move_to_end(pair)
        missing = [pair for pair in pairs if pair not in found]
        # By length, for there is room for the longest. Two threads may do the same at once, and the same comes of it.
        for _, group in groupby(sorted(missing, key=_room), _room):
            own = list(group)
            computed = dict(zip(own, self._computed(own), strict=True))
            found |= computed
            with self._lock:
                self._remember(computed)
        return [found[pair] for pair in pairs]

    def _remember(self, computed: dict[Pair, KnownTerm]) -> None:
        for pair, term in computed.items():
            if pair not in self._known and term.bytes <= self._most_bytes // LARGE:
                self._known[pair] = term
                self._bytes += term.bytes
        while self._bytes > self._most_bytes:
            self._bytes -= self._known.popitem(last=False)[1].bytes

    def _computed(self, pairs: list[Pair]) -> list[KnownTerm]:
        constraints = constraints_from_ids([[pair] for pair in pairs], self._model.padding)
        assert constraints is not None
        of_source, of_target = ([len(phrase) for phrase in side] for side in zip(*pairs, strict=True))
        # Few are new to a batch, so that work on filler tokens would be most of it.
        sides = constraints.source.without_filler(sum(of_source)), constraints.target.without_filler(sum(of_target))
        attention, copied = self._model.term_vectors(replace(constraints, source=sides[0], target=sides[1]))
        # Copies, so that what is forgotten gives its memory back.
        sources = (part.clone() for part in torch.split(attention.half(), of_source))
        targets = (part.clone() for part in torch.split(copied.half(), of_target))
        return [KnownTerm(*both) for both in zip(sources, targets, strict=True)]


def _room(pair: Pair) -> int:
    """Slots for its longer side, which are made by the eight."""
    return -(-max(map(len, pair)) // WIDTH_MULTIPLE)


def _rows(lengths: list[int], which: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Tensor:
    """For each token of constraints end to end, its row among those of different ones end to end.

    lengths: of the different ones; which: of these each constraint is.
    """
    each = np.array(lengths)
    starts = np.cumsum(each) - each
    own = each[which]
    first = np.cumsum(own) - own
    return torch.from_numpy(np.repeat(starts[which] - first, own) + np.arange(own.sum()))
