"""The endless stream of training batches: planned by length, shuffled by epoch, with fresh constraints each time.

Sentences of about the same length share a batch, so that little is padding. The stream is a
function of seed and position alone: a run that stops and resumes sees the same batches, and so do several processes
that share the work.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from termweave.config import SamplingConfig
from termweave.constraints.code_switching import WordMarks, code_switch_tokens, replace_source_tokens
from termweave.constraints.sampling import sample_constraints
from termweave.data.batches import SENTENCE_MULTIPLE, Batch, Rows
from termweave.data.corpus import DirectionData
from termweave.data.layout import Drawn, Markers, gather, lay_out, rows_of
from termweave.errors import DataError
from termweave.storage import Array, RaggedArray
from termweave.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Weighting:
    """Loss weights of target tokens, whether constraints are sampled at all, and whether they replace their source."""

    alpha: float = 1.0  # inside constraints
    beta: float = 1.0  # elsewhere
    constraints: bool = False
    replace: bool = False  # constraints stand in the source, in the place of what they translate


@dataclass(frozen=True)
class PlannedBatch:
    """Which sentences of which direction stand together."""

    direction: int
    rows: Array


def plan_epoch(directions: Sequence[DirectionData], batch_tokens: int, seed: int, epoch: int) -> list[PlannedBatch]:
    """Cut each direction into batches of sentences alike in length, and shuffle the batches."""
    random = np.random.default_rng([seed, epoch])
    batches: list[PlannedBatch] = []
    for index, direction in enumerate(directions):
        target = _widths(direction.target.lengths, 1)
        source = _widths(direction.source.lengths, 1 if direction.tag is None else 2)
        # Sources grow and shrink by turns from one target width to the next: so neighbours are always alike in both.
        turned = np.where(target // SENTENCE_MULTIPLE % 2 == 0, source, -source)
        order = np.lexsort((random.random(len(target)), turned, target))
        batches.extend(PlannedBatch(index, rows) for rows in _cut(order, np.maximum(target, source), batch_tokens))
    return [batches[index] for index in random.permutation(len(batches))]


def _widths(lengths: Array, markers: int) -> Array:
    """Padded widths, with room for so many markers: one at the end, and a tag before a source."""
    return -(-(lengths + markers) // SENTENCE_MULTIPLE) * SENTENCE_MULTIPLE


def _cut(order: Array, widths: Array, batch_tokens: int) -> Iterator[Array]:
    """Slices of an order, each as long as its widest sentence allows."""
    start = 0
    while start < len(order):
        most = order[start : start + batch_tokens // int(widths[order[start]])]
        needed = np.maximum.accumulate(widths[most]) * np.arange(1, len(most) + 1)
        count = max(int(np.searchsorted(needed, batch_tokens, side="right")), 1)
        if 8 < count < len(order) - start:
            count -= count % 8
        yield order[start : start + count]
        start += count


class BatchStream:
    """Batches from a given position on. `position` counts batches since the start of training."""

    def __init__(
        self,
        directions: Sequence[DirectionData],
        subwords: Vocabulary,
        *,
        batch_tokens: int,
        seed: int,
        sampling: SamplingConfig,
        weighting: Weighting,
    ) -> None:
        if not any(len(direction.source) for direction in directions):
            raise DataError("the prepared corpus is empty: every sentence was removed by cleaning")
        if weighting.constraints and any(direction.phrases is None for direction in directions):
            raise DataError("the prepared corpus has no phrase pairs yet; run `termweave prepare` to its end first")
        self.directions = directions
        self.subwords = subwords
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.sampling = sampling
        self.weighting = weighting
        self.marks = WordMarks(subwords.starts_word(np.arange(subwords.size)), subwords.lone_space)

    def planned(self, position: int, stride: int = 1) -> Iterator[tuple[int, PlannedBatch]]:
        """(epoch, planned batch) at position, position + stride, …, epoch after epoch without end."""
        epoch, first = 0, 0
        while True:
            plan = plan_epoch(self.directions, self.batch_tokens, self.seed, epoch)
            while position < first + len(plan):
                yield epoch, plan[position - first]
                position += stride
            first += len(plan)
            epoch += 1

    def batches(self, position: int, stride: int = 1, ahead: int = 8, pinned: bool = False) -> Generator[Batch]:
        """The batches themselves, built by a thread that runs `ahead`; pinned: ready to be copied to a GPU."""
        built: queue.Queue[Batch | BaseException] = queue.Queue(maxsize=ahead)
        stop = threading.Event()
        worker = threading.Thread(target=self._fill, args=(position, stride, pinned, built, stop), daemon=True)
        worker.start()
        try:
            while True:
                item = built.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()
            with suppress(queue.Empty):  # make room, so that a thread with a batch in its hands sees the end at once
                while True:
                    built.get_nowait()
            worker.join()  # a thread that is left alone would still be at work while the interpreter is taken down

    def _fill(
        self,
        position: int,
        stride: int,
        pinned: bool,
        built: queue.Queue[Batch | BaseException],
        stop: threading.Event,
    ) -> None:
        try:
            for epoch, planned in self.planned(position, stride):
                if not _hand_over(self.build(planned, epoch, pinned), built, stop):
                    return
        except BaseException as error:  # the consumer raises it
            _hand_over(error, built, stop)

    def build(self, planned: PlannedBatch, epoch: int, pinned: bool = False) -> Batch:
        """Pad the sentences of one batch and draw their constraints."""
        direction = self.directions[planned.direction]
        source, target = rows_of(direction.source, planned.rows), rows_of(direction.target, planned.rows)
        drawn = None
        if self.weighting.constraints:
            assert direction.phrases is not None
            phrases = direction.phrases
            drawn = Drawn(
                *sample_constraints(phrases.values, phrases.offsets, planned.rows, self.seed, epoch, self.sampling)
            )
            if self.sampling.code_switch:
                source, target, drawn = self._switch(source, target, drawn, epoch)
            if self.weighting.replace:
                source, drawn = self._replace(source, target, drawn)
        markers = Markers(self.subwords.pad, self.subwords.bos, self.subwords.eos, direction.tag)
        alpha, beta = self.weighting.alpha, self.weighting.beta
        return lay_out(source, target, markers, drawn=drawn, alpha=alpha, beta=beta, pinned=pinned)

    def _replace(self, source: Rows, target: Rows, drawn: Drawn) -> tuple[Rows, Drawn]:
        """Constraints take the place of their sources."""
        replaced, phrases = replace_source_tokens(gather(source), gather(target), _ragged(drawn), self.marks)
        return rows_of(replaced), Drawn(phrases.values, drawn.counts)

    def _switch(self, source: Rows, target: Rows, drawn: Drawn, epoch: int) -> tuple[Rows, Rows, Drawn]:
        """Code-switching: some target constraints become their source, in the reference too."""
        own_source = gather(source)
        switched, phrases = code_switch_tokens(
            own_source,
            gather(target),
            _ragged(drawn),
            source[2],
            self.seed,
            epoch,
            self.sampling.code_switch,
            self.marks,
        )
        return rows_of(own_source), rows_of(switched), Drawn(phrases.values, drawn.counts)


def _ragged(drawn: Drawn) -> RaggedArray:
    return RaggedArray(drawn.phrases, np.concatenate([[0], np.cumsum(drawn.counts)]))


def _hand_over(item: Batch | BaseException, built: queue.Queue[Batch | BaseException], stop: threading.Event) -> bool:
    """Wait for room, but not for a consumer that is gone; False if it is."""
    while not stop.is_set():
        with suppress(queue.Full):
            built.put(item, timeout=0.2)
            return True
    return False
