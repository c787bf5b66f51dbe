"""HTML as tags, comments and text, each at its place in the file. Put together again they are the file.

A parser that builds a tree repairs what it reads and writes something else; here nothing is repaired, so nothing
changes. The rules are those of the HTML standard's tokeniser, as far as they decide where a piece ends. Every step
moves on and no search is repeated in vain, so time grows with the length of the file alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

_TAG_START = re.compile(r"</?([A-Za-z][^\s/>]*+)")
_ATTRIBUTE = re.compile(r"""[\s/]*+(=?[^\s/>=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]*+)))?+""")
_TAG_END = re.compile(r"[\s/]*+(/?)>")
_TEXT = re.compile(r"[^<]++(?:<(?![A-Za-z/!?])[^<]*+)*+|<(?![A-Za-z/!?])[^<]*+(?:<(?![A-Za-z/!?])[^<]*+)*+")
_RAW = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})


class Type(Enum):
    TEXT = "text"
    START = "start"
    END = "end"
    OTHER = "other"  # comments, declarations, processing instructions, raw text


@dataclass(frozen=True)
class Attribute:
    name: str
    value: str
    start: int
    """Of the value in the file, without quotes."""
    quote: str


@dataclass(frozen=True)
class Piece:
    type: Type
    start: int
    end: int
    name: str = ""
    attributes: tuple[Attribute, ...] = ()
    is_empty: bool = False
    """Ends with `/>`."""

    def attribute(self, name: str) -> Attribute | None:
        return next((attribute for attribute in self.attributes if attribute.name == name), None)


def pieces(text: str, raw: frozenset[str] = _RAW) -> Iterator[Piece]:
    """The pieces of a file in order, without gaps. raw: elements that hold no markup; XML has none."""
    position = 0
    while position < len(text):
        if match := _TEXT.match(text, position):
            piece = Piece(Type.TEXT, position, match.end())
        elif match := _TAG_START.match(text, position):
            piece = _tag(text, match)
        else:
            piece = Piece(Type.OTHER, position, _end_of_other(text, position))
        yield piece
        position = piece.end
        if piece.type is Type.START and piece.name in raw and not piece.is_empty:
            end = _end_of_raw(text, position, piece.name)
            if end > position:
                # of raw text only that of a title is meant for readers
                yield Piece(Type.TEXT if piece.name == "title" else Type.OTHER, position, end)
            position = end


def _tag(text: str, match: re.Match[str]) -> Piece:
    attributes = []
    position = match.end()
    while not (end := _TAG_END.match(text, position)):
        found = _ATTRIBUTE.match(text, position)
        if found is None:  # the file ends inside the tag
            return Piece(Type.OTHER, match.start(), len(text))
        group = next((number for number in (2, 3, 4) if found[number] is not None), 0)
        if group:
            quote = {2: '"', 3: "'", 4: ""}[group]
            attributes.append(Attribute(found[1].lower(), found[group], found.start(group), quote))
        else:
            attributes.append(Attribute(found[1].lower(), "", found.end(), ""))
        position = found.end()
    kind = Type.END if text.startswith("</", match.start()) else Type.START
    is_empty = text[end.end() - 2] == "/"
    return Piece(kind, match.start(), end.end(), match[1].lower(), tuple(attributes), is_empty)


def _end_of_other(text: str, position: int) -> int:
    """Where a comment, a declaration or an instruction ends; if nothing ends it, at the end of the file."""
    if text.startswith("<!--", position):
        mark, start = "-->", position + 2
    elif text.startswith("<![CDATA[", position):
        mark, start = "]]>", position
    elif text.startswith(("<?php", "<?="), position):
        mark, start = "?>", position
    else:
        mark, start = ">", position
    end = text.find(mark, start)
    return end + len(mark) if end >= 0 else len(text)


def _end_of_raw(text: str, position: int, name: str) -> int:
    match = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, position)
    return match.start() if match else len(text)
