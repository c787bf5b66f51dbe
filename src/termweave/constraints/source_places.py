"""Where the sources of constraints stand in a sentence, and the sentence with the targets in those places.

A constraint does not say which of several occurrences it means. Longer sources choose first, so that "Haus" does not
take the one word that "altes Haus" could have; then the leftmost place that is free is taken.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from termweave.constraints.code_switching import replace_spans
from termweave.constraints.constraint import Constraint
from termweave.constraints.occurrences import comparable, comparable_spans
from termweave.text.words import Span, normalise


def find_sources(text: str, constraints: Sequence[Constraint], language: str) -> tuple[Span | None, ...]:
    """The characters of each constraint's source in normalised text, as whole words; None where it does not stand."""
    spans = comparable_spans(text, language)
    words = [text[start:end] for start, end in spans]
    phrases = [list(comparable(constraint.source, language)) for constraint in constraints]
    taken = [False] * len(words)
    found: list[Span | None] = [None] * len(constraints)
    for index in sorted(range(len(phrases)), key=lambda index: -len(phrases[index])):
        length = len(phrases[index])
        for start in range(len(words) - length + 1 if length else 0):
            if words[start : start + length] == phrases[index] and not any(taken[start : start + length]):
                taken[start : start + length] = [True] * length
                found[index] = spans[start][0], spans[start + length - 1][1]
                break
    return tuple(found)


def replace_sources(text: str, constraints: Sequence[Constraint], language: str) -> str:
    """Normalised text with every constraint's target in the place of its source; what does not stand there is left out.

    In training, a target brings the space before it along, also into writing without spaces; so it does here.
    """
    pairs = [
        (span, normalise(constraint.target))
        for span, constraint in zip(find_sources(text, constraints, language), constraints, strict=True)
        if span is not None
    ]
    targets = [f" {target}" if _clings(text[: span[0]], target) else target for span, target in pairs]
    return normalise(replace_spans(text, [span for span, _ in pairs], targets))


def _clings(before: str, target: str) -> bool:
    """Would a word of an alphabet stand right behind unspaced writing?"""
    wide = {"W", "F"}
    behind = bool(before) and unicodedata.east_asian_width(before[-1]) in wide
    return behind and unicodedata.east_asian_width(target[0]) not in wide
