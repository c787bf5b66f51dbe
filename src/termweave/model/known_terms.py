"""What constraints become in the model, remembered from batch to batch: the terms of a glossary come again and again.

Keys and values of a constraint depend on its tokens alone. On a CPU with weights of eight bits they are computed so
that its company does not matter either: products have a scale for each token, and loops attend. So it makes no
difference to a translation what was translated before it, or beside it by another thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from termweave.data.batches import ConstraintTensors, KnownConstraints, TermTokens
from termweave.model.output import CopyOutput
from termweave.model.quantised import QuantisedLinear
from termweave.model.vectors import FoldedAdapters
from termweave.storage import Array

if TYPE_CHECKING:
    from termweave.model.transformer import Transformer

MOST_BYTES = 256 << 20  # some 20,000 tokens of each side, with the ready model
TOGETHER = 256  # terms, where nothing says which belong together
LARGE = 16  # what takes more than one in so many of them is not kept: it would push out all the rest
ROW = np.dtype(np.int32)  # the number of one

Phrase = Sequence[int]
Pair = tuple[tuple[int, ...], tuple[int, ...]]


class KnownTerms:
    """Of one model. Threads may share it.

    All that is kept lies in one piece of memory, in half precision, which is finer than what eight bits leave of it. A
    row of it holds two vectors: for a source token, keys and values of a layer, so there are as many as layers; for a
    target token, key and context of `copy`.
    """

    def __init__(self, model: Transformer, most_bytes: int = MOST_BYTES) -> None:
        self._model = model
        self._layers = model.config.encoder_layers + model.config.decoder_layers
        self._shape = most_bytes // (4 * model.config.dimension), 2 * model.config.dimension
        self._memory = np.empty(self._shape, np.float16)  # takes no room before something is written there
        self._lock = Lock()
        self.forget()

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
            # Their rows; those asked for last at the end. As bytes, which Python keeps apart from large blocks: what is
            # small and stays would lie scattered among those, and leave no gap wide enough for the next large one.
            self._known: OrderedDict[Pair, bytes] = OrderedDict()
            self._met = 0  # rows that ever held something
            self._free = b""  # those of them that hold nothing any more

    @property
    def held_bytes(self) -> int:
        return (self._met - len(self._free) // ROW.itemsize) * self._memory.itemsize * self._shape[1]

    def recall(
        self, sentences: Sequence[Sequence[tuple[Phrase, Phrase]]], constraints: ConstraintTensors
    ) -> KnownConstraints:
        """constraints: those of the sentences."""
        pairs = [(tuple(source), tuple(target)) for own in sentences for source, target in own]
        terms, attention, copied = self._terms(list(dict.fromkeys(pairs)))
        number = {pair: index for index, pair in enumerate(terms)}
        which = np.array([number[pair] for pair in pairs])
        return KnownConstraints(
            attention,
            copied,
            _rows([len(pair[0]) for pair in terms], which)[constraints.source.token_of_slot()],
            _rows([len(pair[1]) for pair in terms], which)[constraints.target.token_of_slot()],
        )

    def _terms(self, pairs: list[Pair]) -> tuple[list[Pair], Tensor, Tensor]:
        """Of different pairs, maybe in another order: what the tokens of each side become, one pair after the other."""
        with self._lock:
            found = {pair: None for pair in pairs if pair in self._known}
            for pair in found:
                self._known.move_to_end(pair)
            kept = [torch.from_numpy(self._memory[rows]) for rows in self._rows_of(found)]  # copies
        if len(found) == len(pairs):
            return pairs, *self._by_token(*kept)
        # Two threads may do the same at once, and the same comes of it.
        missing = [pair for pair in pairs if pair not in found]
        computed = self._computed(missing)
        with self._lock:
            self._remember(missing, *computed)
        both = (torch.cat(own) for own in zip(kept, computed, strict=True))
        return [*found, *missing], *self._by_token(*both)

    def _by_token(self, attention: Tensor, copied: Tensor) -> tuple[Tensor, Tensor]:
        """Rows as `KnownConstraints` has them."""
        dimension = self._model.config.dimension
        return attention.view(-1, 2 * self._layers, dimension), copied.view(-1, 2, dimension)

    def _rows_of(self, pairs: Iterable[Pair]) -> tuple[Array, Array]:
        """Those of the source tokens of known pairs, and those of their target tokens."""
        each = [(self._known[pair], len(pair[0]) * self._layers * ROW.itemsize) for pair in pairs]
        source, target = b"".join([own[:cut] for own, cut in each]), b"".join([own[cut:] for own, cut in each])
        return np.frombuffer(source, ROW), np.frombuffer(target, ROW)

    def _remember(self, pairs: list[Pair], attention: Tensor, copied: Tensor) -> None:
        """attention, copied: rows of all of them."""
        for pair in pairs:
            count = len(pair[0]) * self._layers + len(pair[1])
            if pair not in self._known and count <= self._shape[0] // LARGE:
                self._known[pair] = self._room(count)
        kept = np.array([pair in self._known for pair in pairs])  # of very many, some have pushed out others
        rows = self._rows_of([pair for pair in pairs if pair in self._known])
        lengths = [len(pair[0]) * self._layers for pair in pairs], [len(pair[1]) for pair in pairs]
        for own, values, each in zip(rows, (attention, copied), lengths, strict=True):
            self._memory[own] = values.numpy() if kept.all() else values.numpy()[np.repeat(kept, each)]

    def _room(self, count: int) -> bytes:
        """So many rows; what was asked for long ago makes room."""
        while len(self._free) // ROW.itemsize < count - (self._shape[0] - self._met):
            self._free += self._known.popitem(last=False)[1]
        left = max(len(self._free) - count * ROW.itemsize, 0)
        used, self._free = self._free[left:], self._free[:left]
        first, self._met = self._met, self._met + count - len(used) // ROW.itemsize
        return used + np.arange(first, self._met, dtype=ROW).tobytes()

    def _computed(self, pairs: list[Pair]) -> tuple[Tensor, Tensor]:
        """Rows of the source tokens, and those of the target tokens."""
        sides = self._model.term_vectors(*(TermTokens.of(side) for side in zip(*pairs, strict=True)))
        attention, copied = (own.view(-1, self._shape[1]) for own in sides)
        return attention, copied


def _rows(lengths: list[int], which: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Tensor:
    """For each token of constraints end to end, its row among those of different ones end to end.

    lengths: of the different ones; which: of these each constraint is.
    """
    each = np.array(lengths)
    starts = np.cumsum(each) - each
    own = each[which]
    first = np.cumsum(own) - own
    return torch.from_numpy(np.repeat(starts[which] - first, own) + np.arange(own.sum()))
