"""Calibration: does a model that is sure of 80 % of a token get it right 80 times out of 100?

Inference ECE (expected calibration error; Wang et al., 2020) looks at the model's own translations. Their tokens,
subwords as they were decoded, fall into twenty bins by their probability. In each bin the mean probability is compared
with the share of tokens that are right, and the absolute differences are averaged, weighted by the size of the bins.

A token is right if the TER alignment of the translation with the reference, itself cut into subwords, pairs it with an
equal one (`ter`). The end of a translation is no token. P is what the search saw: for the output layers `paper` and
`released` it does not sum to 1 over the vocabulary, and is measured as it is.

A token counts as constrained where it belongs to a constraint that the translation meets, whoever saw to that. Of the
model these tokens are known to be wanted, so the probability it gives them says how well it has understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from termweave.constraints.constraint import Constraint
from termweave.decoding.demands import locate
from termweave.decoding.forced import ScoredOutput
from termweave.errors import DataError
from termweave.evaluation.ter import ter_alignment
from termweave.text.vocabulary import Vocabulary
from termweave.text.words import normalise

BINS = 20


@dataclass(frozen=True)
class JudgedOutput:
    """The tokens of one translation."""

    probabilities: tuple[float, ...]
    correct: tuple[bool, ...]
    constrained: tuple[bool, ...]  # part of a constraint that is met?


@dataclass(frozen=True)
class Bin:
    """Tokens whose probability lies between two bounds, the lower one included; in the last bin, the upper one too."""

    lower: float
    upper: float
    tokens: int
    probability: float | None  # mean; None in an empty bin
    accuracy: float | None  # share of the tokens that are right


@dataclass(frozen=True)
class Calibration:
    """What `termweave calibration` prints."""

    sentences: int
    tokens: int
    constrained_tokens: int
    ece: float  # per cent
    accuracy: float  # share of all tokens that are right
    probability: float  # mean over all tokens
    constrained_probability: float | None  # mean over constrained tokens; None if there are none
    bins: tuple[Bin, ...]  # what a reliability diagram is drawn from
    signature: str

    def to_json(self) -> dict[str, object]:
        return {
            "sentences": self.sentences,
            "tokens": self.tokens,
            "constrained_tokens": self.constrained_tokens,
            "inference_ece": self.ece,
            "accuracy": self.accuracy,
            "probability": self.probability,
            "constrained_probability": self.constrained_probability,
            "bins": [asdict(each) for each in self.bins],
            "signature": self.signature,
        }

    def __str__(self) -> str:
        constrained = "no constrained tokens"
        if self.constrained_probability is not None:
            constrained = f"{self.constrained_probability:.3f} ({self.constrained_tokens:,} tokens)"
        rows = [
            ("inference ECE", f"{self.ece:.2f} %"),
            ("probability, all", f"{self.probability:.3f} ({self.tokens:,} tokens)"),
            ("probability, constr.", constrained),
            ("tokens right", f"{100 * self.accuracy:.1f} %"),
            ("signature", self.signature),
        ]
        return "\n".join(f"{name:<20} {value}" for name, value in rows)


def measure_calibration(outputs: Sequence[JudgedOutput], signature: str = "", bins: int = BINS) -> Calibration:
    """Inference ECE over all tokens of all outputs, and the bins it is made of."""
    probabilities = np.array([each for output in outputs for each in output.probabilities])
    correct = np.array([each for output in outputs for each in output.correct], dtype=bool)
    constrained = np.array([each for output in outputs for each in output.constrained], dtype=bool)
    if not len(probabilities):
        raise DataError("there is nothing to calibrate: the translations have no tokens")
    # Rounding may carry a probability above 1, never into a bin that does not exist.
    places = np.clip((probabilities * bins).astype(np.int64), 0, bins - 1)
    sizes = np.bincount(places, minlength=bins)
    sure = np.bincount(places, weights=probabilities, minlength=bins)
    right = np.bincount(places, weights=correct, minlength=bins)
    return Calibration(
        sentences=len(outputs),
        tokens=len(probabilities),
        constrained_tokens=int(constrained.sum()),
        ece=float(100 * np.abs(right - sure).sum() / len(probabilities)),
        accuracy=float(correct.mean()),
        probability=float(probabilities.mean()),
        constrained_probability=float(probabilities[constrained].mean()) if constrained.any() else None,
        bins=tuple(
            Bin(
                lower=index / bins,
                upper=(index + 1) / bins,
                tokens=int(size),
                probability=float(sure[index] / size) if size else None,
                accuracy=float(right[index] / size) if size else None,
            )
            for index, size in enumerate(sizes)
        ),
        signature=signature,
    )


def judge(
    output: ScoredOutput, reference: str, constraints: Sequence[Constraint], language: str, subwords: Vocabulary
) -> JudgedOutput:
    """Which tokens of an output are right, and which belong to constraints; `language` is that of the output."""
    correct = ter_alignment(output.tokens, subwords.target.encode(normalise(reference))).correct
    constrained = constrained_tokens(output.tokens, constraints, language, subwords)
    return JudgedOutput(output.probabilities, correct, constrained)


def constrained_tokens(
    tokens: Sequence[int], constraints: Sequence[Constraint], language: str, subwords: Vocabulary
) -> tuple[bool, ...]:
    """For each token: does it spell part of a constraint, where that stands in the text?"""
    spans = [span for span in locate(subwords.decode(tokens), constraints, language) if span is not None]
    if not spans:
        return (False,) * len(tokens)
    # A character that is spelled byte by byte is there with the last of them. A space before it may go meanwhile, so no
    # token may reach beyond where a later one ends.
    reached = [len(subwords.decode(tokens[:count])) for count in range(1, len(tokens) + 1)]
    ends = np.minimum.accumulate(reached[::-1])[::-1].tolist()
    flags: list[bool] = []
    for start, end in reversed(list(zip([0, *ends], ends, strict=False))):
        if start == end:  # a byte of the character that follows
            flags.append(bool(flags) and flags[-1])
        else:
            flags.append(any(max(start, first) < min(end, last) for first, last in spans))
    flags.reverse()
    return tuple(flags)
