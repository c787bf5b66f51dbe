"""What every format is turned into: runs of text with the marks that stand in them.

A document in memory is a row of segments; a segment is a row of parts. Text is translated, marks are not. A mark of a
document written as a stream holds its own source, so that the parts of all segments put together are the file again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum


class Kind(Enum):
    """How a mark behaves when its sentence is translated."""

    OPEN = "open"  # moves with its words; its closing mark comes after it
    CLOSE = "close"
    WORD = "word"  # stands in the sentence like a word: code, an image, a placeholder
    BREAK = "break"  # no sentence goes across it, and it never moves


@dataclass(frozen=True)
class Text:
    """Text to translate: as it is read, and as the document writes it."""

    shown: str
    source: str | None = None
    """None: new text, which the document has yet to write in its own way. If it differs from `shown`, the text is one
    character, such as `&` for `&amp;`, or none: what is not seen goes where its sentence is translated."""

    @classmethod
    def plain(cls, text: str) -> Text:
        return cls(text, text)

    def cut(self, start: int, end: int) -> Text:
        if start <= 0 and end >= len(self.shown):
            return self
        piece = self.shown[start:end]
        return Text(piece, piece if self.source is not None else None)


@dataclass(frozen=True)
class Mark:
    """A piece of markup, or a piece of text that must stay as it is."""

    kind: Kind
    source: str = ""
    identity: int = 0
    """Opening and closing marks of a pair share it."""
    shown: str = ""
    """What a translator sees of a WORD instead of a numbered token: `%s`, an address."""
    rewritten: str = ""
    """The source if text of the segment has changed; by default the same."""
    is_note: bool = False
    """A WORD that stands behind another, such as the number of a footnote: no word where sentences are looked for."""


Part = Text | Mark


@dataclass(frozen=True)
class Segment:
    """A run of text that belongs together, such as a paragraph, a cell or a message."""

    parts: tuple[Part, ...]
    weight: int = 0
    """How much of the document's `total` is done with it."""
    is_underlined: bool = False
    """Markdown: the line below looks like that of a table, which makes one of what looks like a table's head."""

    formats: tuple[str, ...] = ()
    """Messages: the languages whose format string it is, such as `c`; its directives must be the same ones after."""

    @property
    def text(self) -> str:
        return "".join(part.shown for part in self.parts if isinstance(part, Text))


def fixed(source: str) -> Mark:
    """Text that belongs to the document's structure."""
    return Mark(Kind.BREAK, source)


def has_words(parts: Iterable[Part]) -> bool:
    """Is there anything to translate? Figures and punctuation alone are not."""
    return any(character.isalpha() for part in parts if isinstance(part, Text) for character in part.shown)


def in_pairs(parts: Sequence[Part], lonely: Kind) -> list[Part]:
    """Opening and closing marks that do not nest, or lack their other half, become marks of the kind `lonely`.

    Halves belong together if they share `identity`. A break ends everything that is open: a pair around one would
    leave half of its sentence behind. So does a half that becomes a break, until nothing changes any more.
    """
    found = _paired(parts, lonely)
    while lonely is Kind.BREAK and (again := _paired(found, lonely)) != found:
        found = again
    return found


def _paired(parts: Sequence[Part], lonely: Kind) -> list[Part]:
    open_marks: list[int] = []
    waiting: Counter[int] = Counter()  # how many of each identity are open, so that lonely halves cost no search
    partner: dict[int, int] = {}
    for index, part in enumerate(parts):
        if not isinstance(part, Mark):
            continue
        if part.kind is Kind.BREAK:
            open_marks.clear()
            waiting.clear()
        elif part.kind is Kind.OPEN:
            open_marks.append(index)
            waiting[part.identity] += 1
        elif part.kind is Kind.CLOSE and waiting[part.identity]:
            while True:
                other = open_marks.pop()
                identity = _identity(parts[other])
                waiting[identity] -= 1
                if identity == part.identity:
                    partner[index], partner[other] = other, index
                    break
    result: list[Part] = []
    for index, part in enumerate(parts):
        if isinstance(part, Mark) and part.kind in (Kind.OPEN, Kind.CLOSE):
            identity = min(index, partner[index]) + 1 if index in partner else 0
            result.append(replace(part, identity=identity) if identity else replace(part, kind=lonely))
        else:
            result.append(part)
    return result


def _identity(part: Part) -> int:
    return part.identity if isinstance(part, Mark) else 0
