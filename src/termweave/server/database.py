"""Where a server keeps glossaries, keys and documents: a SQLite file, or a PostgreSQL database that several share.

The stores write their statements once, in the part of SQL that both understand, with `?` for parameters and `epoch()`
for the time. Both keep the same promises: a transaction is done wholly or not at all, it is durable when `writing`
ends, and writers take turns, so that what one has read still holds when it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol


class Rows(Protocol):
    """What a statement found."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Rows: ...


class Engine(Protocol):
    """One of the two databases. Threads may use it at the same time; what fails is a `StoreError`."""

    @property
    def name(self) -> str:
        """How messages call it; never with a password."""
        ...

    def reading(self) -> AbstractContextManager[Connection]: ...

    def writing(self) -> AbstractContextManager[Connection]: ...

    def close(self) -> None: ...


class Database:
    """A store by its setting: the path of a SQLite file, or `postgresql://user:password@host/database`.

    Connected when it is first needed, and anew after any error: what was mended is noticed.
    """

    def __init__(self, setting: str | Path) -> None:
        self._engine = _engine(setting)

    @property
    def name(self) -> str:
        return self._engine.name

    def reading(self) -> AbstractContextManager[Connection]:
        return self._engine.reading()

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction: all of the block, or nothing of it if it raises."""
        return self._engine.writing()

    def close(self) -> None:
        self._engine.close()


def is_address(setting: str | Path) -> bool:
    """Is it an address, rather than a path? Windows' drives have one letter."""
    return re.match(r"[A-Za-z][\w+.-]+:/", str(setting)) is not None


def _engine(setting: str | Path) -> Engine:
    if is_address(setting):
        from termweave.server.postgres import Address, PostgresDatabase

        return PostgresDatabase(Address.of(str(setting)))
    from termweave.server.sqlite import SqliteDatabase

    return SqliteDatabase(Path(setting))
