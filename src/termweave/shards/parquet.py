"""Shards that are Parquet tables: a column is translated into a new one, `translation`, beside all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from termweave.errors import ConfigError, DataError
from termweave.shards.formats import TRANSLATION, Piece

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    raise ConfigError(".parquet needs the package pyarrow: pip install 'termweave[parquet]'") from None


class Parquet:
    """Read a row group at a time, the last one kept: pieces of the same group mostly follow each other."""

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.column = path, column
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except pyarrow.ArrowInvalid as error:
            raise DataError(f"{path} is no Parquet file: {error}") from None
        schema = self._file.schema_arrow
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise DataError(f"{path} has several columns of the name {twice[0]!r}; rename all but one")
        if column not in schema.names:
            raise DataError(f"{path} has no column {column!r}; it has: {', '.join(schema.names)}")
        if TRANSLATION in schema.names:
            raise DataError(f"{path} has a column {TRANSLATION!r} already; rename it first")
        kind = schema.field(column).type
        if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise DataError(f"{path}: the column {column!r} holds no text, but {kind}")
        self._schema = schema.append(pyarrow.field(TRANSLATION, pyarrow.string()))
        self._group: tuple[int, int, Any] = (-1, 0, None)  # its number, its first row, the table

    def pieces(self, rows: int) -> Iterator[Piece]:
        first = 0
        for group in range(self._file.num_row_groups):
            end = first + self._file.metadata.row_group(group).num_rows
            while first < end:
                count = min(rows, end - first)
                yield Piece(first, count, group)
                first += count

    def read(self, piece: Piece) -> tuple[Any, list[str]]:
        if self._group[0] != piece.start:
            before = sum(self._file.metadata.row_group(group).num_rows for group in range(piece.start))
            try:
                self._group = (piece.start, before, self._file.read_row_group(piece.start))
            except (pyarrow.ArrowException, OSError) as error:
                raise DataError(f"{self.path}, row group {piece.start} cannot be read: {error}") from None
        _, before, table = self._group
        rows = table.slice(piece.first - before, piece.rows)
        return rows, [text or "" for text in rows.column(self.column).to_pylist()]  # nothing stays nothing

    def write(self, rows: Any, translations: Sequence[str], path: Path) -> None:
        table = rows.append_column(TRANSLATION, pyarrow.array(translations, pyarrow.string()))
        pyarrow.parquet.write_table(table.cast(self._schema), path)

    def join(self, parts: Iterator[Path], path: Path) -> None:
        with pyarrow.parquet.ParquetWriter(path, self._schema) as writer:
            for part in parts:
                writer.write_table(pyarrow.parquet.read_table(part, partitioning=None))
