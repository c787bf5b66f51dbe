"""Copying success rate (CSR): how many constraints stand in the translations.

A constraint is met if its target stands in the translation as whole words, in the same letter case. A target that
is demanded twice in a sentence must stand there twice, without overlap; different targets are looked up
independently of each other, and where a constraint has alternatives, any of them will do. Two figures come of it, and
they must not be mixed up:

- phrase-level: constraints met / constraints;
- word-weighted: words of the constraints met / words of all constraints, so that long ones weigh more. In Chinese
  and Japanese, characters are counted instead of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from termweave.constraints.constraint import Constraint
from termweave.constraints.occurrences import comparable, count_occurrences
from termweave.errors import ConstraintError, DataError


@dataclass(frozen=True)
class SuccessRate:
    """Constraints met and demanded, counted in phrases and in words."""

    met: int
    total: int
    met_words: int
    total_words: int

    @property
    def phrase_level(self) -> float | None:
        """Percentage of constraints met; None where none was demanded."""
        return 100 * self.met / self.total if self.total else None

    @property
    def word_weighted(self) -> float | None:
        """Percentage of constraint words that belong to met constraints; None where none was demanded."""
        return 100 * self.met_words / self.total_words if self.total_words else None

    def __add__(self, other: SuccessRate) -> SuccessRate:
        return SuccessRate(
            self.met + other.met,
            self.total + other.total,
            self.met_words + other.met_words,
            self.total_words + other.total_words,
        )


def sentence_success(hypothesis: str, constraints: Sequence[Constraint], language: str) -> SuccessRate:
    """Count the constraints of one sentence; `language` is that of the translation."""
    words = [len(_demanded_words(constraint, language)[0]) for constraint in constraints]
    met = constraints_met(hypothesis, constraints, language)
    return SuccessRate(
        met=sum(met),
        total=len(constraints),
        met_words=sum(number for number, flag in zip(words, met, strict=True) if flag),
        total_words=sum(words),
    )


def constraints_met(hypothesis: str, constraints: Sequence[Constraint], language: str) -> tuple[bool, ...]:
    """For each constraint of a sentence: is it met? If the same is demanded too often, the first ones are."""
    if not constraints:
        return ()
    demanded = [_demanded_words(constraint, language) for constraint in constraints]
    words = comparable(hypothesis, language)
    left = {targets: sum(count_occurrences(words, phrase) for phrase in targets) for targets in set(demanded)}
    met = []
    for targets in demanded:
        met.append(left[targets] > 0)
        left[targets] -= 1
    return tuple(met)


def success_rate(hypotheses: Sequence[str], constraints: Sequence[Sequence[Constraint]], language: str) -> SuccessRate:
    """Count the constraints of a whole test set."""
    if len(hypotheses) != len(constraints):
        raise DataError(f"{len(hypotheses)} translations, but constraints of {len(constraints)} sentences")
    total = SuccessRate(0, 0, 0, 0)
    for hypothesis, demanded in zip(hypotheses, constraints, strict=True):
        total += sentence_success(hypothesis, demanded, language)
    return total


def _demanded_words(constraint: Constraint, language: str) -> tuple[tuple[str, ...], ...]:
    """The words of the target, then those of its alternatives: any of them will do."""
    targets = tuple(dict.fromkeys(comparable(target, language) for target in constraint.targets))
    if not all(targets):
        raise ConstraintError(
            f"the constraint {constraint.source!r} → {constraint.target!r} has no visible character in its target; "
            "it could never be found"
        )
    return targets
