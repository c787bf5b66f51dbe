"""API keys, of which only hashes are kept, and what each has used: characters, and requests of the last minute."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime

from termweave.errors import ConfigError
from termweave.server.database import Connection, Database

PREFIX = "tw-"  # lets people and secret scanners tell such a key
_COLUMNS = "id, name, created, revoked, character_limit"


@dataclass(frozen=True)
class ApiKey:
    """What is known of a key; the key itself is shown once, when it is made."""

    id: str
    name: str
    created: str
    revoked: str | None = None
    character_limit: int | None = None  # a month; None: no limit


class KeyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, character_limit: int | None = None) -> tuple[ApiKey, str]:
        """A new key, and its secret text, which is not kept."""
        if not name.strip():
            raise ConfigError("a key needs a name, such as that of its user")
        if not name.strip().isprintable():  # it is shown in a line of a list, and would write into the terminal
            raise ConfigError(f"the name of a key is one line of printable characters; {name!r} holds others")
        secret = PREFIX + secrets.token_urlsafe(32)
        key = ApiKey(secrets.token_hex(4), name.strip(), _now(), None, character_limit)
        with self._database.writing() as connection:
            connection.execute(
                f"INSERT INTO keys ({_COLUMNS}, hash) VALUES (?, ?, ?, ?, ?, ?)",
                (key.id, key.name, key.created, key.revoked, key.character_limit, _hash(secret)),
            )
        return key, secret

    def list(self) -> list[ApiKey]:
        with self._database.reading() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM keys ORDER BY created, id").fetchall()
        return [ApiKey(*row) for row in rows]

    def revoke(self, identifier: str) -> ApiKey:
        """A running server refuses the key from the next request on."""
        with self._database.writing() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM keys WHERE id = ?", (identifier,)).fetchone()
            if row is None:
                raise ConfigError(f"there is no key {identifier!r}; `termweave keys list` shows them")
            connection.execute("UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ?", (_now(), identifier))
        return ApiKey(*row)

    def find(self, secret: str) -> ApiKey | None:
        """The key with this text, unless it is revoked."""
        with self._database.reading() as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM keys WHERE hash = ? AND revoked IS NULL", (_hash(secret),)
            ).fetchone()
        return None if row is None else ApiKey(*row)

    @property
    def required(self) -> bool:
        """Once a key was made, nobody is served without. Revoking the last one does not open the server again."""
        with self._database.reading() as connection:
            return connection.execute("SELECT 1 FROM keys LIMIT 1").fetchone() is not None


class Usage:
    """Characters by key and month. Kept in memory and written now and then: counting must not wait for the store.

    What other servers of the same store have not yet written is not in the total.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()  # of what is in memory; held for a moment only
        self._flushing = threading.Lock()
        self._pending: Counter[tuple[str, str]] = Counter()
        self._reserved: Counter[str] = Counter()  # by key: accepted, and not yet translated

    def reserve(self, key: str, characters: int, limit: int | None) -> bool:
        """Set characters aside, so that whoever asks meanwhile finds them gone. False: the key has not so many left.

        What was set aside goes back with `release`, or is counted with `spend`.
        """
        with nullcontext(0) if limit is None else self._known(key) as stored, self._lock:
            if limit is not None and self._taken(key, stored) + characters > limit:
                return False
            self._reserved[key] += characters
            return True

    def is_used_up(self, key: str, limit: int | None) -> bool:
        """Is not a single character left?"""
        if limit is None:
            return False
        with self._known(key) as stored, self._lock:
            return self._taken(key, stored) >= limit

    def _taken(self, key: str, stored: int) -> int:
        return stored + self._pending[key, _month()] + self._reserved[key]

    def release(self, key: str, characters: int) -> None:
        with self._lock:
            self._reserved[key] -= characters
            if not self._reserved[key]:
                del self._reserved[key]

    def spend(self, key: str, characters: int) -> None:
        """What was reserved is translated. Between the two steps it counts twice rather than not at all."""
        self.add(key, characters)
        self.release(key, characters)

    def add(self, key: str, characters: int) -> None:
        with self._lock:
            self._pending[key, _month()] += characters

    def total(self, key: str) -> int:
        """In this month; without what is only reserved."""
        with self._known(key) as stored, self._lock:
            return stored + self._pending[key, _month()]

    @contextmanager
    def _known(self, key: str) -> Iterator[int]:
        """What the store has of this month; nothing is on its way there inside the block."""
        with self._flushing:
            with self._database.reading() as connection:
                row = connection.execute("SELECT characters FROM usage WHERE key = ? AND month = ?", (key, _month()))
                stored = row.fetchone()
            yield stored[0] if stored else 0

    def flush(self) -> None:
        """Write what was counted; if that fails, it stays in memory for the next time."""
        with self._flushing:
            with self._lock:
                counted, self._pending = self._pending, Counter()
            try:
                if +counted:
                    self._write(counted)
            except BaseException:
                with self._lock:
                    self._pending.update(counted)
                raise

    def _write(self, counted: Counter[tuple[str, str]]) -> None:
        with self._database.writing() as connection:
            for (key, month), characters in counted.items():
                _add(connection, key, month, characters)


def _add(connection: Connection, key: str, month: str, characters: int) -> None:
    connection.execute(
        "INSERT INTO usage VALUES (?, ?, ?) "
        "ON CONFLICT (key, month) DO UPDATE SET characters = usage.characters + excluded.characters",
        (key, month, characters),
    )


class PaceStore:
    """How many requests each key has saved up, at all servers together."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def spend(self, spent: Mapping[str, int], per_minute: int) -> dict[str, float]:
        """Take off what each key has spent at one server; returns what is left of all."""
        with self._database.writing() as connection:
            return {key: _spend(connection, key, count, per_minute) for key, count in spent.items()}


def _spend(connection: Connection, key: str, count: int, per_minute: int) -> float:
    """Less than nothing, if several servers let requests pass before they knew of each other's."""
    row = connection.execute("SELECT saved, epoch() - at FROM paces WHERE key = ?", (key,)).fetchone()
    saved, seconds = row or (float(per_minute), 0)
    left = min(saved + seconds * per_minute / 60, float(per_minute)) - count
    connection.execute(
        "INSERT INTO paces VALUES (?, ?, epoch()) "
        "ON CONFLICT (key) DO UPDATE SET saved = excluded.saved, at = excluded.at",
        (key, left),
    )
    return left


def _hash(secret: str) -> bytes:
    """The keys are random and long, so a fast hash is enough: there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _month() -> str:
    return datetime.now(UTC).strftime("%Y-%m")
