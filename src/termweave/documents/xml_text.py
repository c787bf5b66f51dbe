"""Text with XML tags in it, as programs send it: tags belong to their words, unless they are said to split the text."""

from __future__ import annotations

from collections.abc import Iterator

from termweave.documents.document import Through
from termweave.documents.html import entity_parts, written
from termweave.documents.segments import Kind, Mark, Part, Segment, fixed, in_pairs
from termweave.documents.tags import Piece, Type, pieces


class XmlText:
    """ignored: elements whose content stays; splitting: tags that no sentence goes across. In small letters."""

    def __init__(self, text: str, ignored: frozenset[str], splitting: frozenset[str]) -> None:
        self.total = len(text.encode())
        self._text = text
        self._ignored = ignored
        self._splitting = splitting

    def translated(self, through: Through) -> Iterator[bytes]:
        for segment in through(self._segments()):
            yield "".join(written(part) for part in segment.parts).encode()

    def _segments(self) -> Iterator[Segment]:
        parts: list[Part] = []
        kept, kept_name, depth = "", "", 0  # an element that is ignored, so far
        for piece in pieces(self._text, raw=frozenset()):
            source = self._text[piece.start : piece.end]
            opens = piece.type is Type.START and not piece.is_empty
            if depth:
                kept += source
                depth += (opens - (piece.type is Type.END)) * (piece.name == kept_name)
                if not depth:
                    parts.append(Mark(Kind.WORD, kept))
            elif opens and piece.name in self._ignored:
                kept, kept_name, depth = source, piece.name, 1
            elif piece.name and piece.name in self._splitting:
                yield _segment([*parts, fixed(source)])
                parts = []
            else:
                parts.extend(_piece(piece, source))
        if depth:  # it has no end
            parts.append(fixed(kept))
        yield _segment(parts)


def _segment(parts: list[Part]) -> Segment:
    weight = sum(len(part.source.encode()) for part in parts if part.source)
    return Segment(tuple(in_pairs(parts, lonely=Kind.WORD)), weight)


def _piece(piece: Piece, source: str) -> list[Part]:
    if piece.type is Type.TEXT:
        return list(entity_parts(source))
    if piece.type is Type.OTHER or piece.is_empty:  # a comment, CDATA, an instruction, <x/>
        return [Mark(Kind.WORD, source)]
    kind = Kind.OPEN if piece.type is Type.START else Kind.CLOSE
    return [Mark(kind, source, int.from_bytes(piece.name.encode()))]
