"""The probability of every token of a given output, by one pass over all of it (forced decoding).

P is what the search saw when it produced the token: mixed by the output layer, knowing what was produced before. For
`paper` and `released` it does not sum to 1 over the vocabulary; it is left as it is. What the search rules out
(padding, an end before all constraints are met) takes nothing away from P, and so it does not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from termweave.data.batches import constraints_from_ids, pad_rows
from termweave.errors import DataError
from termweave.model.coverage import Progress, Slots
from termweave.model.transformer import POSITIONS, Transformer
from termweave.text.vocabulary import Vocabulary

AT_ONCE = 512  # positions whose probabilities over the whole vocabulary are in memory together


class Request(Protocol):
    """A sentence, as ids, and what the model is told of its constraints."""

    @property
    def source(self) -> Sequence[int]: ...

    @property
    def constraints(self) -> Sequence[tuple[Sequence[int], Sequence[int]]]: ...


@dataclass(frozen=True)
class _Row:
    source: list[int]  # with its tag and end mark
    output: Sequence[int]  # without marks
    constraints: Sequence[tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True)
class ScoredOutput:
    """An output, subword by subword."""

    tokens: tuple[int, ...]
    pieces: tuple[str, ...]  # the same for people to look at
    probabilities: tuple[float, ...]  # P of each, given the source, the constraints and those before it
    end: float  # P that the output ends here

    @property
    def log_probability(self) -> float:
        """log P of the whole output, its end included: what the search adds up."""
        return sum(math.log(each) if each else -math.inf for each in (*self.probabilities, self.end))


@torch.inference_mode()
def score_outputs(
    model: Transformer,
    subwords: Vocabulary,
    requests: Sequence[Request],
    outputs: Sequence[Sequence[int]],
    tag: int | None,
    batch_tokens: int,
) -> list[ScoredOutput]:
    """Score an output for each request, in their order. tag: what leads the source, if the model has directions.

    batch_tokens bounds memory: subwords, padding included, that run at once.
    """
    _require_outputs(len(requests), outputs)
    lead = [] if tag is None else [tag]
    rows = [
        _Row([*lead, *request.source, subwords.eos], output, request.constraints)
        for request, output in zip(requests, outputs, strict=True)
    ]
    results: dict[int, ScoredOutput] = {}
    for batch in _batches(rows, batch_tokens):
        logs = _batch_logs(model, subwords, [rows[index] for index in batch]).cpu().double()
        for index, found in zip(batch, logs, strict=True):
            tokens = tuple(map(int, rows[index].output))
            *each, end = found[: len(tokens) + 1].exp().tolist()
            results[index] = ScoredOutput(tokens, tuple(subwords.pieces(tokens)), tuple(each), end)
    return [results[index] for index in range(len(rows))]


def _require_outputs(sentences: int, outputs: Sequence[Sequence[int]]) -> None:
    if len(outputs) != sentences:
        raise DataError(f"there are {sentences} sentences but {len(outputs)} outputs; give one output a sentence")
    for number, tokens in enumerate(outputs, start=1):
        if len(tokens) > POSITIONS - 2:
            raise DataError(f"output {number} has {len(tokens)} subwords, the limit is {POSITIONS - 2}; split it first")


def _batches(rows: Sequence[_Row], batch_tokens: int) -> Iterator[list[int]]:
    """Indices of rows of like length, longest first."""

    def length(index: int) -> int:
        return max(len(rows[index].source), len(rows[index].output) + 1)

    ordered = sorted(range(len(rows)), key=length, reverse=True)
    start = 0
    while start < len(ordered):
        count = max(batch_tokens // length(ordered[start]), 1)
        yield ordered[start : start + count]
        start += count


def _batch_logs(model: Transformer, subwords: Vocabulary, rows: Sequence[_Row]) -> Tensor:
    """(rows, longest output + 1): log P of every token, the end mark last; padding behind it."""
    device = model.embedding.device

    def padded(lines: list[list[int]]) -> Tensor:
        lengths = np.array([len(line) for line in lines])
        filled = pad_rows(np.concatenate(lines), lengths, int(lengths.max()), subwords.pad)
        return torch.from_numpy(filled).to(device)

    target = padded([[*row.output, subwords.eos] for row in rows])
    given = constraints_from_ids([row.constraints for row in rows], subwords.pad, device=device)
    encoded = model.encode(padded([row.source for row in rows]), given)
    states = model.decode(padded([[subwords.bos, *row.output] for row in rows]), encoded)
    slots = encoded.output.slots if encoded.output else None
    progress = progress_along(slots, target) if slots else None
    width = max(AT_ONCE // len(rows), 1)
    logs = []
    for start in range(0, target.shape[1], width):
        part = slice(start, start + width)
        produced = Progress(*(marks[:, part] for marks in _fields(progress))) if progress else None
        scores = model.scores(states[:, part].contiguous(), encoded.output, produced)
        logs.append(scores.at(target[:, part].unsqueeze(2)).squeeze(2))
    return torch.cat(logs, dim=1)


def progress_along(slots: Slots, target: Tensor) -> Progress:
    """(batch, length) → what has been produced of the constraints before each token of the output."""
    moments = [slots.start(1)]
    for tokens in target[:, :-1].unbind(dim=1):
        moments.append(slots.advance(moments[-1], tokens.unsqueeze(1)))
    return Progress(*(torch.cat(marks, dim=1) for marks in zip(*map(_fields, moments), strict=True)))


def _fields(progress: Progress) -> tuple[Tensor, Tensor, Tensor]:
    return progress.running, progress.done, progress.used
