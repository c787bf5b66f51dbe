"""What may be asked of a search, and what goes together; everything else is refused before anything is translated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from termweave.constraints.constraint import Constraint
from termweave.decoding.beam import SearchOptions
from termweave.errors import ConfigError, ConstraintError, DataError

Search = Literal["vdba", "beam", "cdalign"]


def require_options(options: SearchOptions, search: str, nbest: int, ordered: bool, batch_tokens: int) -> None:
    if search not in ("vdba", "beam", "cdalign"):
        raise ConfigError(f"search: must be vdba, beam or cdalign, got {search!r}")
    for name, value in (("beam", options.beam), ("nbest", nbest), ("batch_tokens", batch_tokens)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name}: must be at least 1, a whole number, got {value!r}")
    if nbest > options.beam:
        raise ConfigError(
            f"nbest: must lie between 1 and the beam ({options.beam}), got {nbest}; raise --beam for more"
        )
    if not isinstance(options.length_penalty, int | float) or not 0 <= options.length_penalty < float("inf"):
        raise ConfigError(f"length_penalty: must be a number, at least 0, got {options.length_penalty!r}")
    if search != "vdba" and ordered:
        raise ConfigError("ordered needs the search that guarantees it; use --search vdba")


def require_phrases(forbidden: Sequence[str], search: str) -> None:
    if isinstance(forbidden, str) or not all(isinstance(phrase, str) for phrase in forbidden):
        raise ConfigError(f"forbidden: give a list of phrases, got {forbidden!r}")
    if search != "vdba" and forbidden:
        raise ConfigError("forbidden phrases need the search that keeps them out; use --search vdba")


def require_lists(
    sentences: Sequence[str], constraints: Sequence[Sequence[Constraint]] | None
) -> Sequence[Sequence[Constraint]]:
    """The constraints of each sentence, none where none are given."""
    if isinstance(sentences, str):
        raise DataError("translate() takes a list of sentences, not one string; write translate([sentence])")
    if not isinstance(sentences, Sequence) or not isinstance(constraints, Sequence | None):
        raise DataError("translate() takes lists: of sentences, and of lists of constraints")
    for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise DataError(f"sentence {index + 1} must be text, got {sentence!r}")
    constraints = [()] * len(sentences) if constraints is None else constraints
    if len(constraints) != len(sentences):
        raise ConstraintError(
            f"there are {len(sentences)} sentences but constraints for {len(constraints)}; give one list a sentence"
        )
    for index, own in enumerate(constraints):
        if not isinstance(own, Sequence):
            raise ConstraintError(f"sentence {index + 1}: give one list of constraints a sentence, [[…], […]]")
    return constraints
