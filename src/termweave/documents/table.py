"""Tables with tabs between their columns (.tsv), as a stream. A row is a line; other columns and quotes stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from termweave.documents.document import BYTE_ORDER_MARK, Options, Through, read_lines
from termweave.documents.placeholders import line_parts, tagged_parts
from termweave.documents.segments import Mark, Part, Segment, Text, fixed
from termweave.errors import ConfigError, DataError


class Table:
    """In the chosen column text is replaced, or its translation is added at the end of the row.

    A cell in double quotes keeps them; quotes inside it are doubled, also in the translation. A translation that begins
    with one gets them: it would be taken for a quoted cell.
    """

    def __init__(self, path: Path, options: Options) -> None:
        if isinstance(options.column, int) and options.column < 1:
            raise ConfigError(f"column {options.column}: columns are counted from 1")
        self.path = path
        self.options = options
        self.total = path.stat().st_size
        self._index = options.column - 1 if isinstance(options.column, int) else -1
        if path.is_file():  # what cannot be read is refused before any of it is translated; a pipe is read only once
            for _ in self.segments():
                pass

    def segments(self) -> Iterator[Segment]:
        for number, line in read_lines(self.path):
            row = line.rstrip("\r\n")
            end = line[len(row) :]
            parts: list[Part] = []
            if number == 1 and row.startswith(BYTE_ORDER_MARK):
                parts.append(fixed(BYTE_ORDER_MARK))
                row = row[1:]
            if number == 1 and (self.options.header or isinstance(self.options.column, str)):
                parts.append(fixed(self._header(row) + end))
            elif row:
                parts.extend(self._row(row, number))
                parts.append(fixed(end))
            else:
                parts.append(fixed(end))
            yield Segment(tuple(parts), weight=len(line.encode()))

    def _header(self, row: str) -> str:
        names = row.split("\t")
        if isinstance(self.options.column, str):
            plain = [name.strip('"') for name in names]
            if self.options.column not in plain:
                raise DataError(f"{self.path}, line 1: no column {self.options.column!r}; there are {', '.join(plain)}")
            self._index = plain.index(self.options.column)
        if not self.options.append or self._index >= len(names):
            return row
        return f"{row}\t{names[self._index].strip(chr(34))}.{self.options.target_language or 'translation'}"

    def _row(self, row: str, number: int) -> Iterator[Part]:
        cells = row.split("\t")
        if self._index >= len(cells):
            raise DataError(f"{self.path}, line {number}: no column {self._index + 1}, the row has {len(cells)}")
        if self.options.append:
            yield fixed(row + "\t")
            yield from _cell(cells[self._index])
            return
        yield fixed("".join(cell + "\t" for cell in cells[: self._index]))
        yield from _cell(cells[self._index])
        yield fixed("".join("\t" + cell for cell in cells[self._index + 1 :]))

    def translated(self, through: Through) -> Iterator[bytes]:
        for segment in through(self.segments()):
            yield "".join(_written(segment)).encode()


_QUOTE = fixed('"')
_EDGE = fixed("")  # of a cell that is not quoted


def _cell(cell: str) -> Iterator[Part]:
    if len(cell) < 2 or not (cell.startswith('"') and cell.endswith('"')):
        yield _EDGE
        yield from tagged_parts(cell)
        yield _EDGE
        return
    yield _QUOTE
    pieces = cell[1:-1].split('""')
    parts_of = tagged_parts if len(pieces) == 1 else line_parts  # tags between quotation marks belong to several pieces
    for index, piece in enumerate(pieces):
        if index:
            yield Text('"', '""')
        yield from parts_of(piece)
    yield _QUOTE


def _written(segment: Segment) -> Iterator[str]:
    parts = segment.parts
    edges = [index for index, part in enumerate(parts) if part is _EDGE]
    if edges and _needs_quotes(parts[edges[0] : edges[1]]):
        parts = tuple(_quoted(part) for part in parts)
    quoted = any(part is _QUOTE for part in parts)
    for part in parts:
        if isinstance(part, Mark) or part.source is not None:
            yield part.source or ""
        else:
            yield part.shown.replace('"', '""') if quoted else part.shown


def _quoted(part: Part) -> Part:
    """A part of a row whose cell is to be quoted; text there is to be written anew, for it may hold quotes."""
    if isinstance(part, Text):
        return Text(part.shown)
    return _QUOTE if part is _EDGE else part


def _needs_quotes(cell: Sequence[Part]) -> bool:
    is_new = any(isinstance(part, Text) and part.source is None for part in cell)
    return is_new and "".join(part.shown or part.source or "" for part in cell).startswith('"')
