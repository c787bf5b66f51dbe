"""What a shard is made of: lines of text, lines of JSON, or the rows of a Parquet table.

A shard is cut into pieces of some rows in one pass, which also refuses what cannot be read. Any piece can then be read
by itself, and the written pieces joined without looking at them: gzip, xz and zstandard allow packed files to follow
one another in one file.
"""

from __future__ import annotations

import gzip
import json
import lzma
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from termweave.data.readers import damages, decoded_line, open_binary, read_raw_lines
from termweave.errors import ConfigError, DataError
from termweave.shards.inputs import COMPRESSED, Shard

TRANSLATION = "translation"  # the field or column that is added
MOST_BYTES = 4 << 20  # of a piece: one with long lines ends early, so that memory is bounded
_HALVES = re.compile(r"\\u[dD][89a-fA-F]")  # an escape that is half a character; the other half may be missing
_BREAKS = re.compile(r"[\r\n]+")
_TABS = re.compile(r"[\t\r\n]+")


class Piece(NamedTuple):
    """Rows of a shard: the first, from 0, how many, and where they begin: a byte, or the row group of a table."""

    first: int
    rows: int
    start: int


class ShardFormat(Protocol):
    """How shards of one kind are cut, read, written and joined."""

    def pieces(self, rows: int) -> Iterator[Piece]:
        """The whole shard, cut into pieces of so many rows."""

    def read(self, piece: Piece) -> tuple[Any, list[str]]:
        """The rows of a piece, whatever they are, and the sentence of each."""

    def write(self, rows: Any, translations: Sequence[str], path: Path) -> None: ...

    def join(self, parts: Iterator[Path], path: Path) -> None: ...


def shard_format(shard: Shard, column: str | None, pairs: bool) -> ShardFormat:
    if shard.kind == "txt":
        return TextLines(shard.source, pairs)
    if pairs:
        raise ConfigError(f"{shard.source}: --pairs is for text; .{shard.kind} keeps source and translation together")
    if column is None:
        raise ConfigError(f"{shard.source}: name the column to translate, such as --column text")
    if column == TRANSLATION:
        raise ConfigError(f"--column {column}: translations are put there; rename the column first")
    if shard.kind == "jsonl":
        return JsonLines(shard.source, column)
    from termweave.shards.parquet import Parquet

    return Parquet(shard.source, column)


class _Lines:
    """A line a row. The file stays open between pieces: one that is packed cannot be entered in the middle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._position = 0

    def pieces(self, rows: int) -> Iterator[Piece]:
        first = number = start = position = 0
        for number, line in enumerate(read_raw_lines(self.path), start=1):
            decoded_line(line, self.path, number)
            position += len(line)
            if number - first >= rows or position - start >= MOST_BYTES:
                yield Piece(first, number - first, start)
                first, start = number, position
        if number > first:
            yield Piece(first, number - first, start)

    def _lines(self, piece: Piece) -> list[str]:
        try:
            file = self._opened_at(piece.start)
            lines = [file.readline() for _ in range(piece.rows)]
        except damages() as error:
            raise DataError(f"{self.path}: the compressed file is cut off or damaged: {error}") from None
        self._position += sum(map(len, lines))
        if not all(lines):
            raise DataError(f"{self.path} has become shorter while it was translated; start again")
        return [decoded_line(line, self.path, piece.first + index) for index, line in enumerate(lines, start=1)]

    def _opened_at(self, start: int) -> IO[bytes]:
        if self._file is None or self._position > start:
            if self._file is not None:
                self._file.close()
            self._file, self._position = open_binary(self.path), 0
        if self.path.suffix not in COMPRESSED:
            self._file.seek(start)
            self._position = start
        while self._position < start:  # forwards only, so that every kind of packed file can do it
            passed = len(self._file.read(min(start - self._position, 1 << 20)))
            if not passed:
                raise DataError(f"{self.path} has become shorter while it was translated; start again")
            self._position += passed
        return self._file

    def _write(self, lines: Sequence[str], path: Path) -> None:
        path.write_bytes(packed("".join(line + "\n" for line in lines).encode(), self.path.suffix))

    def join(self, parts: Iterator[Path], path: Path) -> None:
        count = 0
        with path.open("wb") as target:
            for part in parts:
                count += 1
                with part.open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
            if not count:  # an empty file of its kind
                target.write(packed(b"", self.path.suffix))


class TextLines(_Lines):
    """A sentence a line. pairs: the source and its translation, with a tab between."""

    def __init__(self, path: Path, pairs: bool) -> None:
        super().__init__(path)
        self.pairs = pairs

    def read(self, piece: Piece) -> tuple[list[str], list[str]]:
        lines = self._lines(piece)
        return lines, lines

    def write(self, rows: Sequence[str], translations: Sequence[str], path: Path) -> None:
        if self.pairs:
            cells = zip(rows, translations, strict=True)
            lines = ["\t".join(_TABS.sub(" ", cell) for cell in row) for row in cells]
        else:
            lines = [_BREAKS.sub(" ", text) for text in translations]
        self._write(lines, path)


class JsonLines(_Lines):
    """An object a line, whose field `column` is translated into the field `translation`."""

    def __init__(self, path: Path, column: str) -> None:
        super().__init__(path)
        self.column = column

    def read(self, piece: Piece) -> tuple[list[dict[str, Any]], list[str]]:
        rows = [self._record(line, piece.first + index) for index, line in enumerate(self._lines(piece), start=1)]
        return rows, [row[self.column] or "" for row in rows]  # nothing stays nothing

    def _record(self, line: str, number: int) -> dict[str, Any]:
        where = f"{self.path}, line {number}"
        try:
            record: Any = json.loads(line, parse_float=_finite, parse_constant=_finite)
            if _HALVES.search(line):
                json.dumps(record, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not valid JSON: {error}") from None
        if not isinstance(record, dict) or not isinstance(record.get(self.column, 0), str | None):
            raise DataError(f"{where} is no JSON object with a text under {self.column!r}; name it with --column")
        if TRANSLATION in record:
            raise DataError(f"{where} has a field {TRANSLATION!r} already; rename it first")
        return record

    def write(self, rows: Sequence[dict[str, Any]], translations: Sequence[str], path: Path) -> None:
        records = [row | {TRANSLATION: text} for row, text in zip(rows, translations, strict=True)]
        self._write([json.dumps(record, ensure_ascii=False) for record in records], path)


def _finite(written: str) -> float:
    """JSON knows neither NaN nor infinity; what is as large as that could not be written again."""
    value = float(written)
    if not math.isfinite(value):
        raise ValueError(f"{written} is no number of JSON, or too large a one")
    return value


def packed(data: bytes, suffix: str) -> bytes:
    """The same data packed twice gives the same bytes."""
    if suffix == ".gz":
        return gzip.compress(data, mtime=0)
    if suffix == ".xz":
        return lzma.compress(data)
    if suffix == ".zst":
        import zstandard

        return bytes(zstandard.ZstdCompressor().compress(data))
    return data
