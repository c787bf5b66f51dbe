"""The endless stream of training batches: planned by length, shuffled by epoch, with fresh constraints each time.

Sentences of about the same length share a batch, so that little is padding and few shapes occur. The stream is a
function of seed and position alone: a run that stops and resumes sees the same batches, and so do several processes
that share the work.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from termweave.config import SamplingConfig
from termweave.constraints.code_switching import WordMarks, code_switch_tokens
from termweave.constraints.sampling import sample_constraints
from termweave.data.batches import (
    WIDTH_MULTIPLE,
    Batch,
    ConstraintTensors,
    constraint_side,
    constraint_tensors,
    gather_rows,
    pad_rows,
    ranges,
    round_up,
)
from termweave.data.corpus import DirectionData
from termweave.errors import DataError
from termweave.storage import Array, RaggedArray
from termweave.text.subwords import Subwords


@dataclass(frozen=True)
class Weighting:
    """Loss weights of target tokens, and whether constraints are sampled at all."""

    alpha: float = 1.0  # inside constraints
    beta: float = 1.0  # elsewhere
    constraints: bool = False


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
        widths = np.stack([_widths(direction.target.lengths, 1), _widths(direction.source.lengths, 2)])
        order = np.lexsort((random.random(widths.shape[1]), widths[1], widths[0]))
        batches.extend(PlannedBatch(index, rows) for rows in _cut(order, widths.max(axis=0), batch_tokens))
    return [batches[index] for index in random.permutation(len(batches))]


def _widths(lengths: Array, markers: int) -> Array:
    """Padded widths, with room for the begin, end and tag markers."""
    return -(-(lengths + markers) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


def _cut(order: Array, widths: Array, batch_tokens: int) -> Iterator[Array]:
    start = 0
    while start < len(order):
        count = max(batch_tokens // int(widths[order[start]]), 1)
        # The widest sentence of the slice decides how many fit; a shorter slice is never wider.
        fitting = max(batch_tokens // int(widths[order[start : start + count]].max()), 1)
        fitting = fitting // 8 * 8 if fitting > 8 else fitting
        yield order[start : start + min(count, fitting)]
        start += min(count, fitting)


class BatchStream:
    """Batches from a given position on. `position` counts batches since the start of training."""

    def __init__(
        self,
        directions: Sequence[DirectionData],
        subwords: Subwords,
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

    def batches(self, position: int, stride: int = 1, ahead: int = 8) -> Iterator[Batch]:
        """The batches themselves, built by a thread that runs `ahead`."""
        built: queue.Queue[Batch | BaseException] = queue.Queue(maxsize=ahead)
        stop = threading.Event()
        worker = threading.Thread(target=self._fill, args=(position, stride, built, stop), daemon=True)
        worker.start()
        try:
            while True:
                item = built.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()

    def _fill(
        self, position: int, stride: int, built: queue.Queue[Batch | BaseException], stop: threading.Event
    ) -> None:
        try:
            for epoch, planned in self.planned(position, stride):
                batch = self.build(planned, epoch)
                if torch.cuda.is_available():  # from pinned memory, copies to the GPU overlap with its work
                    batch = batch.map(Tensor.pin_memory)
                while not stop.is_set():
                    try:
                        built.put(batch, timeout=0.2)
                        break
                    except queue.Full:
                        continue
                if stop.is_set():
                    return
        except BaseException as error:  # handed to the consumer, which raises it
            built.put(error)

    def build(self, planned: PlannedBatch, epoch: int) -> Batch:
        """Pad the sentences of one batch and draw their constraints."""
        direction = self.directions[planned.direction]
        source_ids, source_lengths = gather_rows(direction.source, planned.rows)
        target_ids, target_lengths = gather_rows(direction.target, planned.rows)
        constraints, inside = None, None
        if self.weighting.constraints:
            drawn = _Drawn(direction, planned.rows, self.seed, epoch, self.sampling)
            target_ids, target_lengths = drawn.switch(
                (source_ids, source_lengths), (target_ids, target_lengths), self.marks
            )
            constraints = drawn.tensors(source_ids, source_lengths, target_ids, target_lengths, self.subwords.pad)
            inside = drawn.target_positions()
        return padded_batch(
            (source_ids, source_lengths),
            (target_ids, target_lengths),
            subwords=self.subwords,
            tag=direction.tag,
            constraints=constraints,
            weighting=self.weighting,
            inside=inside,
        )


def padded_batch(
    source: tuple[Array, Array],
    target: tuple[Array, Array],
    *,
    subwords: Subwords,
    tag: int | None,
    constraints: ConstraintTensors | None,
    weighting: Weighting,
    inside: tuple[Array, Array] | None = None,
) -> Batch:
    """Sentences given end to end with their lengths → one batch; inside: (row, column) of constraint tokens."""
    lead = 0 if tag is None else 1
    source_width = round_up(int(source[1].max()) + 1 + lead, WIDTH_MULTIPLE)
    width = round_up(int(target[1].max()) + 1, WIDTH_MULTIPLE)
    rows = np.arange(len(source[1]))
    padded_source = np.roll(pad_rows(*source, source_width, subwords.pad), lead, axis=1)
    if tag is not None:
        padded_source[:, 0] = tag
    padded_source[rows, source[1] + lead] = subwords.eos
    expected = pad_rows(*target, width, subwords.pad)
    given = np.roll(expected, 1, axis=1)
    given[:, 0] = subwords.bos
    expected[rows, target[1]] = subwords.eos
    weights = np.where(np.arange(width) <= target[1][:, None], np.float32(weighting.beta), np.float32(0))
    if inside is not None:
        weights[inside] = weighting.alpha
    return Batch(
        source=torch.from_numpy(padded_source),
        target_input=torch.from_numpy(given),
        target=torch.from_numpy(expected),
        weights=torch.from_numpy(weights),
        constraints=constraints,
        tokens=int(target[1].sum()) + len(rows),
        weight=float(weights.sum(dtype=np.float64)),
    )


class _Drawn:
    """The constraints drawn for one batch."""

    def __init__(self, direction: DirectionData, rows: Array, seed: int, epoch: int, sampling: SamplingConfig) -> None:
        assert direction.phrases is not None
        self.rows, self.seed, self.epoch, self.sampling = rows, seed, epoch, sampling
        phrases = direction.phrases
        self.chosen, self.per_sentence = sample_constraints(
            phrases.values, phrases.offsets, rows, seed, epoch, sampling
        )

    def switch(self, source: tuple[Array, Array], target: tuple[Array, Array], marks: WordMarks) -> tuple[Array, Array]:
        """Code-switching: some target constraints become their source, in the reference too."""
        if not self.sampling.code_switch:
            return target
        switched, phrases = code_switch_tokens(
            _ragged(*source),
            _ragged(*target),
            _ragged(self.chosen, self.per_sentence),
            self.rows,
            self.seed,
            self.epoch,
            self.sampling.code_switch,
            marks,
        )
        self.chosen = phrases.values
        return switched.values, switched.lengths

    def tensors(
        self, source_ids: Array, source_lengths: Array, target_ids: Array, target_lengths: Array, padding: int
    ) -> ConstraintTensors:
        sides = []
        for ids, lengths, start, tokens in (
            (source_ids, source_lengths, "source_start", "source_tokens"),
            (target_ids, target_lengths, "target_start", "target_tokens"),
        ):
            first = np.repeat(np.cumsum(lengths) - lengths, self.per_sentence)
            sizes = self.chosen[tokens].astype(np.int64)
            picked = ids[ranges(first + self.chosen[start], sizes)]
            sides.append(constraint_side(picked, sizes, self.per_sentence))
        return constraint_tensors(sides[0], sides[1], padding)

    def target_positions(self) -> tuple[Array, Array]:
        """(row, column) of every target token inside a constraint."""
        sizes = self.chosen["target_tokens"].astype(np.int64)
        rows = np.repeat(np.repeat(np.arange(len(self.per_sentence)), self.per_sentence), sizes)
        return rows, ranges(self.chosen["target_start"].astype(np.int64), sizes)


def _ragged(values: Array, lengths: Array) -> RaggedArray:
    return RaggedArray(values, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]))
