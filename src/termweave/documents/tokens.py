"""One sentence with its marks as a line for the translator, and its translation back as parts.

    Press <b>the red button</b> and wait.   →   Press <1>the red button</1> and wait.

Placeholders keep their looks (`%s`), code and images become `<2/>`. A translation is taken only if each of these stands
in it exactly once and pairs still nest. Otherwise the caller translates the text between the marks, piece by piece.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from termweave.documents.directives import depends_on_order
from termweave.documents.segments import Kind, Mark, Part, Text

TOKEN = re.compile(r"</?(\d{1,6})/?>")
"""How marks look to a translator. All of them, and the placeholders, must stand in the translation."""

_SPACE = re.compile(r"[ \t\n\r\f\v]+")
_SOFT_HYPHEN = "\u00ad"
_UNWRITABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


def cleaned(text: str) -> str:
    """A line without control characters, which not every document can hold, and with single spaces.

    Space that means something, such as the no-break space, stays.
    """
    return _SPACE.sub(" ", _UNWRITABLE.sub("", text)).strip(" ")


@dataclass(frozen=True)
class Request:
    """A sentence as the translator gets it, and what its tokens stand for."""

    line: str
    marks: tuple[tuple[str, Mark], ...]

    def parse(self, translation: str) -> list[Part] | None:
        """The translation with its marks; None if one of them is missing, doubled, or at a wrong place."""
        if not self.marks:
            return [Text(translation)] if translation else []
        if len(TOKEN.findall(translation)) != len(TOKEN.findall(self.line)):
            return None
        waiting: dict[str, list[Mark]] = {}
        for token, mark in self.marks:
            waiting.setdefault(token, []).append(mark)
        if self._placeholders(translation) != self._placeholders(self.line):
            return None
        pieces = re.split(f"({_any_of(waiting)})", translation)
        parts: list[Part] = []
        for index, piece in enumerate(pieces):
            if index % 2 == 0:
                if piece:
                    parts.append(Text(piece))
            elif waiting[piece]:
                parts.append(waiting[piece].pop(0))
            else:
                return None
        found = [part for part in parts if isinstance(part, Mark)]
        asked = [mark for _, mark in self.marks]
        return parts if len(found) == len(asked) and _in_order(asked, found) else None

    def _placeholders(self, text: str) -> Counter[str]:
        """How often each stands in a text whose tokens are taken out: one put inside of a placeholder would hide it."""
        shown = {mark.shown for _, mark in self.marks if mark.shown}
        return Counter(re.findall(_any_of(shown), TOKEN.sub("", text))) if shown else Counter()


def _any_of(texts: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))


def request(parts: Sequence[Part]) -> Request:
    """The line of a sentence. Numbers start above those of tokens the text itself holds, so that none is mistaken."""
    text = "".join(part.shown for part in parts if isinstance(part, Text))
    number = max((int(digits) for digits in TOKEN.findall(text)), default=0)
    numbers: dict[int, int] = {}
    pieces, marks = [], []
    for part in parts:
        if isinstance(part, Text):
            pieces.append(part.shown)
            continue
        token = part.shown
        if part.kind is not Kind.WORD:
            if part.identity not in numbers:
                number += 1
                numbers[part.identity] = number
            token = f"<{numbers[part.identity]}>" if part.kind is Kind.OPEN else f"</{numbers[part.identity]}>"
        elif not token:
            number += 1
            token = f"<{number}/>"
        pieces.append(token)
        marks.append((token, part))
    line = "".join(pieces).replace(_SOFT_HYPHEN, "")  # with one inside, a word would not be found in a glossary
    return Request(cleaned(line), tuple(marks))


def _in_order(asked: Sequence[Mark], found: Sequence[Mark]) -> bool:
    """Do pairs nest, and do placeholders without a name and halves without another keep their order?

    A sentence may hold half of a pair, whose other half is in another sentence. Those halves keep their order, and
    nothing that is opened here is open where such a half closes.
    """
    halves = Counter(mark.identity for mark in asked if mark.kind in (Kind.OPEN, Kind.CLOSE))
    left_open = [mark.identity for mark in asked if mark.kind is Kind.OPEN and halves[mark.identity] == 1]
    to_close = [mark.identity for mark in asked if mark.kind is Kind.CLOSE and halves[mark.identity] == 1]
    stack: list[int] = []
    for mark in found:
        if mark.kind is Kind.OPEN:
            stack.append(mark.identity)
        elif mark.kind is Kind.CLOSE:
            if stack and stack[-1] == mark.identity:
                stack.pop()
            elif not stack and to_close and to_close[0] == mark.identity:
                to_close.pop(0)
            else:
                return False
    in_order = _values(asked) == _values(found) and _lonely(asked) == _lonely(found)
    return stack == left_open and not to_close and in_order


def _lonely(marks: Sequence[Mark]) -> list[Mark]:
    """Halves that are words, for they belong to no pair. In another order they might become one."""
    return [mark for mark in marks if mark.kind is Kind.WORD and mark.identity]


def _values(marks: Sequence[Mark]) -> list[str]:
    return [mark.shown for mark in marks if mark.shown and depends_on_order(mark.shown)]
