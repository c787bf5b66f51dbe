"""Where a sentence stands: errors name the file and the line, not a number within a batch nobody has seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from termweave.errors import ConstraintError, DataError

_SENTENCE = re.compile(r"sentence (\d+)\b")  # how errors of `Translator` begin that are about one sentence


@contextmanager
def named_places(place: Callable[[int], str]) -> Iterator[None]:
    """Errors about a sentence say `place(index)` instead of its number in the list that was translated."""
    try:
        yield
    except (DataError, ConstraintError) as error:
        match = _SENTENCE.match(str(error))
        if match is None:
            raise
        raise type(error)(place(int(match[1]) - 1) + str(error)[match.end() :]) from None


def line_places(name: str, first: int = 1) -> Callable[[int], str]:
    """A sentence a line."""
    return lambda index: f"{name}, line {first + index}"
