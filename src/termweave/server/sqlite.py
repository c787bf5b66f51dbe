"""The SQLite file in which one server keeps what it remembers.

What is written is on the disk when `writing` ends: the journal is a write-ahead log, synchronised at every commit, so
that a killed process loses nothing it had acknowledged. Reading goes on while something is written.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from termweave.errors import StoreError
from termweave.server.schema import FORMAT, newer_format, statements_since

_PATIENCE = 5.0  # seconds to wait for another process that writes


class SqliteDatabase:
    """One connection to read with and one to write with."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader = _Handle(path)
        self._writer = _Handle(path)

    @property
    def name(self) -> str:
        return str(self._path)

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
        connection.create_function("epoch", 0, lambda: int(time.time()))
        _bring_up_to_date(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    version = _version(connection)  # again: another process may have been faster
    if version > FORMAT:
        raise newer_format(path, version)
    for statement in statements_since(version):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is. One that was moved away must not be written any longer."""
    try:
        status = os.stat(path)  # noqa: PTH116  (the same as Path.stat, before every single access)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
