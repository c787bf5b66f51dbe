"""Terms in a sentence that is translated piece by piece, between its marks: no piece may hold half of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from termweave.documents.segments import Kind, Mark, Part, Text
from termweave.documents.sentences import Terms

_Span = tuple[int, int]
_WORD = " \0 "  # stands for a mark that is a word: part of no term


def beside_terms(parts: Sequence[Part], terms: Terms) -> list[Part]:
    """The parts with no mark of a pair inside a term.

    Such marks stand behind it, or before it if all of them open something. They keep their order, so pairs still nest.
    """
    places = terms.places("".join(map(_seen, parts)))
    result: list[Part] = []
    for place, group in groupby(_units(parts, places), key=lambda unit: _owner(unit[0], places)):
        inner = [part for _, part in group]
        marks = [part for part in inner if isinstance(part, Mark) and part.kind in (Kind.OPEN, Kind.CLOSE)]
        if place is None or not marks:
            result += inner
            continue
        rest = [part for part in inner if part not in marks]
        opens = all(mark.kind is Kind.OPEN for mark in marks)
        result += [*marks, *rest] if opens else [*rest, *marks]
    return result


def _seen(part: Part) -> str:
    if isinstance(part, Text):
        return part.shown
    return part.shown or _WORD if part.kind is Kind.WORD else ""


def _units(parts: Sequence[Part], places: Sequence[_Span]) -> Iterator[tuple[_Span, Part]]:
    """The parts and where they stand, text cut where terms begin and end."""
    edges = sorted({edge for place in places for edge in place})
    start = 0
    for part in parts:
        end = start + len(_seen(part))
        inner = [edge for edge in edges if start < edge < end] if isinstance(part, Text) else []
        for first, last in zip([start, *inner], [*inner, end], strict=True):
            yield (first, last), part.cut(first - start, last - start) if isinstance(part, Text) else part
        start = end


def _owner(unit: _Span, places: Sequence[_Span]) -> _Span | None:
    """The term that a unit is inside of. A mark of a pair has no width; at the edge of a term it is outside."""
    start, end = unit
    if start == end:
        return next((place for place in places if place[0] < start < place[1]), None)
    return next((place for place in places if place[0] <= start and end <= place[1]), None)
