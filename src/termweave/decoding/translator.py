"""`Translator`, the one façade between text and the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from termweave.constraints.constraint import Constraint
from termweave.data.batches import constraints_from_ids, pad_rows
from termweave.decoding.beam import Hypothesis, Marks, SearchOptions, beam_search
from termweave.errors import CheckpointError, ConfigError, ConstraintError, DataError
from termweave.model.checkpoint import Checkpoint, load_checkpoint
from termweave.model.transformer import POSITIONS, PRECISIONS
from termweave.progress import progress_bar
from termweave.text.words import normalise

LENGTH_FACTOR, LENGTH_EXTRA = 2, 20  # an output may have so many times the source's subwords, and so many more


@dataclass(frozen=True)
class Translation:
    """One translated sentence."""

    text: str
    score: float  # log P divided by length; 0 for an empty sentence

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Request:
    """One sentence as ids."""

    index: int
    source: list[int]
    constraints: list[tuple[list[int], list[int]]]


class Translator:
    """Translates sentences with constraints.

    >>> translator = Translator.load("runs/toy/model/stage2/final")                              # doctest: +SKIP
    >>> translator.translate(["der Lehrer kauft das Haus"], [[Constraint("Haus", "building")]])  # doctest: +SKIP
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.model = checkpoint.model.eval()
        self.subwords = checkpoint.subwords
        self.directions = checkpoint.directions

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", precision: str = "float32") -> Translator:
        """Open a model folder. device: "cpu", "cuda", or "auto" for a GPU where there is one.

        precision: "float32", "bfloat16", or "int8", which is the fastest on a CPU and runs nowhere else.
        """
        chosen = choose_device(device)
        if precision not in PRECISIONS:
            raise ConfigError(f"unknown precision {precision!r}; use one of: {', '.join(PRECISIONS)}")
        if precision == "int8" and chosen.type != "cpu":
            raise ConfigError("precision int8 runs on the CPU only; use device cpu, or bfloat16")
        checkpoint = load_checkpoint(Path(path), chosen)
        checkpoint.model.use_precision(precision)
        return cls(checkpoint)

    def translate(
        self,
        sentences: Sequence[str],
        constraints: Sequence[Sequence[Constraint]] | None = None,
        *,
        direction: str | None = None,
        beam: int = 4,
        length_penalty: float = 1.0,
        batch_tokens: int = 4096,
        progress: bool = False,
    ) -> list[Translation]:
        """Translate sentences; constraints: for each sentence, what must become what.

        batch_tokens bounds memory: source subwords, padding included, that are translated at once.
        """
        if beam < 1:
            raise ConfigError(f"beam: must be at least 1, got {beam}")
        requests = self._requests(sentences, constraints, direction)
        options = SearchOptions(beam, length_penalty, max_length=POSITIONS - 2)
        results = [Translation("", 0.0)] * len(requests)
        with progress_bar("translating", len(requests)) if progress else _no_progress() as advance:
            for batch in _batches([request for request in requests if request.source], batch_tokens):
                for request, best in zip(batch, self._search(batch, direction, options), strict=True):
                    results[request.index] = Translation(self.subwords.decode(best.tokens), best.score)
                advance(len(batch))
        return results

    def _requests(
        self, sentences: Sequence[str], constraints: Sequence[Sequence[Constraint]] | None, direction: str | None
    ) -> list[_Request]:
        if isinstance(sentences, str):
            raise DataError("translate() takes a list of sentences, not one string; write translate([sentence])")
        constraints = [()] * len(sentences) if constraints is None else constraints
        if len(constraints) != len(sentences):
            raise ConstraintError(
                f"there are {len(sentences)} sentences but constraints for {len(constraints)}; give one list a sentence"
            )
        if any(constraints) and not (self.model.config.attention or self.model.config.output):
            raise ConstraintError(
                "this model takes no constraints (it is of stage 1, or vanilla); use a model of stage 2, or leave the "
                "constraints out (--no-constraints)"
            )
        self._tag(direction)
        return [
            self._request(index, sentence, wanted)
            for index, (sentence, wanted) in enumerate(zip(sentences, constraints, strict=True))
        ]

    def _request(self, index: int, sentence: str, constraints: Sequence[Constraint]) -> _Request:
        source = self.subwords.encode(normalise(sentence))
        if len(source) > POSITIONS - 2:
            raise DataError(
                f"sentence {index + 1} has {len(source)} subwords, the limit is {POSITIONS - 2}; split it first"
            )
        if isinstance(constraints, Constraint):
            raise ConstraintError(f"sentence {index + 1}: give one list of constraints a sentence, [[…], […]]")
        pairs = []
        for constraint in constraints:
            if not isinstance(constraint, Constraint):
                raise ConstraintError(f"sentence {index + 1}: expected a Constraint, got {constraint!r}")
            ids = [self.subwords.encode(normalise(text)) for text in (constraint.source, constraint.target)]
            if not all(ids) or max(map(len, ids)) > POSITIONS:
                raise ConstraintError(f"sentence {index + 1}: {constraint} has an empty or over-long side")
            pairs.append((ids[0], ids[1]))
        return _Request(index, source, pairs)

    def _tag(self, direction: str | None) -> int | None:
        """The tag that leads the source; only a model of several directions has one."""
        if direction is None and len(self.directions) == 1:
            return None
        if direction not in self.directions:
            asked = "no direction was given" if direction is None else f"the model does not translate {direction}"
            raise ConfigError(f"{asked}; choose one of: {', '.join(self.directions)}")
        return None if len(self.directions) == 1 else self.subwords.tag(direction.split("-")[1])

    @torch.inference_mode()
    def _search(self, batch: list[_Request], direction: str | None, options: SearchOptions) -> Iterator[Hypothesis]:
        subwords, device = self.subwords, self.model.embedding.device
        tag = self._tag(direction)
        lead = [] if tag is None else [tag]
        rows = [[*lead, *request.source, subwords.eos] for request in batch]
        lengths = np.array([len(row) for row in rows])
        source = torch.from_numpy(pad_rows(np.concatenate(rows), lengths, int(lengths.max()), subwords.pad))
        constraints = constraints_from_ids([request.constraints for request in batch], subwords.pad)
        encoded = self.model.encode(source.to(device), constraints.to(device) if constraints else None)
        limits = torch.from_numpy(lengths * LENGTH_FACTOR + LENGTH_EXTRA).to(device)
        marks = Marks(subwords.bos, subwords.eos, (subwords.pad, subwords.bos, *subwords.tags.values()))
        for hypotheses in beam_search(self.model, self.model.decoder_memory(encoded), limits, marks, options):
            if not hypotheses:
                raise CheckpointError("the model gives no probabilities; its weights are damaged or training diverged")
            yield hypotheses[0]


def _batches(requests: list[_Request], batch_tokens: int) -> Iterator[list[_Request]]:
    """Longest first, so that memory is needed at the start; as many as fit together."""
    ordered = sorted(requests, key=lambda request: -len(request.source))
    start = 0
    while start < len(ordered):
        count = max(batch_tokens // (len(ordered[start].source) + 2), 1)
        yield ordered[start : start + count]
        start += count


class _no_progress:  # noqa: N801  (reads like the function it stands in for)
    def __enter__(self) -> _no_progress:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, amount: int = 1) -> None:
        return None


def choose_device(name: str) -> torch.device:
    """ "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"unknown device {name!r}; use auto, cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not supported; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device was found; use --device cpu, or install a CUDA build of torch")
    return device
