"""The one core type: a constraint says which source phrase becomes which target phrase."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from termweave.errors import ConstraintError
from termweave.text.words import normalise

# No output holds one: "\0a" would be met by any "a". White space is none of them.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")


@dataclass(frozen=True)
class Constraint:
    """Translate `source` as `target`. Both are plain text, as they would stand in a sentence.

    `alternatives` are other targets that will do as well. The guaranteed search may choose among all of them; the
    model itself is told of `target`.
    """

    source: str
    target: str
    alternatives: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """Any of these meets the constraint."""
        return (self.target, *self.alternatives)

    @functools.cached_property
    def wordings(self) -> tuple[str, ...]:
        """All different targets, normalised."""
        return tuple(dict.fromkeys(map(normalise, self.targets)))

    def __post_init__(self) -> None:
        if isinstance(self.alternatives, str):
            raise ConstraintError(f"the alternatives of a constraint are a list of texts, got {self.alternatives!r}")
        object.__setattr__(self, "alternatives", tuple(self.alternatives))  # a list would not be hashable
        sides = [("source", self.source), ("target", self.target), *(("target", text) for text in self.alternatives)]
        for side, text in sides:
            if not isinstance(text, str):
                raise ConstraintError(f"the {side} of a constraint must be text, got {text!r}")
            if _CONTROL.search(text):
                raise ConstraintError(f"the {side} of a constraint holds a control character, got {text!r}; remove it")
            if not text.strip():
                raise ConstraintError(
                    f"a constraint needs text on both sides, got {self.source!r} → {self.target!r}; its {side} is empty"
                )
