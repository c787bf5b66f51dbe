"""Plain text (.txt), as a stream. Every line stays a line; a long one is translated sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from termweave.documents.document import BYTE_ORDER_MARK, Options, Through, read_lines
from termweave.documents.placeholders import tagged_parts
from termweave.documents.segments import Mark, Part, Segment, fixed


class PlainText:
    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.total = path.stat().st_size
        if path.is_file():  # what cannot be read is refused before any of it is translated; a pipe is read only once
            for _ in read_lines(path):
                pass

    def segments(self) -> Iterator[Segment]:
        for number, line in read_lines(self.path):
            parts: list[Part] = []
            text = line
            if number == 1 and line.startswith(BYTE_ORDER_MARK):
                parts.append(fixed(BYTE_ORDER_MARK))
                text = line[1:]
            parts.extend(tagged_parts(text))
            yield Segment(tuple(parts), weight=len(line.encode()))

    def translated(self, through: Through) -> Iterator[bytes]:
        for segment in through(self.segments()):
            yield "".join(_written(part) for part in segment.parts).encode()


def _written(part: Part) -> str:
    if isinstance(part, Mark) or part.source is not None:
        return part.source or ""
    return part.shown
