"""The one core type: a constraint says which source phrase becomes which target phrase."""

from __future__ import annotations

from dataclasses import dataclass

from termweave.errors import ConstraintError


@dataclass(frozen=True)
class Constraint:
    """Translate `source` as `target`. Both are plain text, as they would stand in a sentence."""

    source: str
    target: str

    def __post_init__(self) -> None:
        for side, text in (("source", self.source), ("target", self.target)):
            if not isinstance(text, str):
                raise ConstraintError(f"the {side} of a constraint must be text, got {text!r}")
            if not text.strip():
                raise ConstraintError(
                    f"a constraint needs text on both sides, got {self.source!r} → {self.target!r}; its {side} is empty"
                )
