"""The SQLite file in which a server keeps its glossaries and keys.

What is written is on the disk when `writing` ends: the journal is a write-ahead log, synchronised at every commit, so
that a killed process loses nothing it had acknowledged. Reading goes on while something is written.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from termweave.errors import StoreError

FORMAT = 1  # rises when older stores can no longer be read
_PATIENCE = 5.0  # seconds to wait for another process that writes

_SCHEMA = """
CREATE TABLE IF NOT EXISTS glossaries (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS dictionaries (
    glossary TEXT NOT NULL REFERENCES glossaries (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    entries TEXT NOT NULL,
    count INTEGER NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (glossary, source, target)
);
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created TEXT NOT NULL,
    revoked TEXT,
    character_limit INTEGER
);
CREATE TABLE IF NOT EXISTS usage (
    key TEXT NOT NULL,
    month TEXT NOT NULL,
    characters INTEGER NOT NULL,
    PRIMARY KEY (key, month)
);
"""


class Database:
    """One file, opened when it is first needed, and anew after any error: what was mended is noticed."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._reader = _Handle(self.path)
        self._writer = _Handle(self.path)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._reader.use() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of the block, or nothing of it if it raises."""
        with self._writer.use() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class _Handle:
    """A connection and its lock; threads take turns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None or _identity(self._path) != self._file:
                    self._drop()
                    self._connection = _connect(self._path)
                    self._file = _identity(self._path)
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                self._drop()
                raise StoreError(
                    f"{self._path}: the store cannot be used ({error}); see that the disk has room and that the file "
                    "is readable, writable and whole"
                ) from error

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            try:
                self._connection.close()
            finally:
                self._connection = None


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)  # glossaries are nobody else's business; the journal's files follow this one
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            _create(connection)
        elif version != FORMAT:
            raise StoreError(f"{path} has format {version}, this version of Termweave uses format {FORMAT}")
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is. One that was moved away must not be written any longer."""
    try:
        status = os.stat(path)  # noqa: PTH116  (the same as Path.stat, before every single access)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
