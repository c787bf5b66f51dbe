"""A PostgreSQL database in which several servers keep what they remember together.

Everything lies in a schema of its own, `termweave`. Writers of all servers take turns by an advisory lock, as those of
a SQLite file do, so that the stores need no other care; the lock ends with its transaction, or with its server.
"""

from __future__ import annotations

import itertools
import re
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from termweave.errors import ConfigError, StoreError
from termweave.server.schema import FORMAT, newer_format, statements_since

CONNECTIONS = 4  # of one database object, at most
_PATIENCE = 5.0  # seconds to wait for other writers, or for a free connection
_SILENCE = 10.0  # seconds without a word from the database, after which it is taken for lost
_REST = 1.0  # seconds without another attempt after a connection failed, so that requests do not queue up for attempts
_LOCK = 8378_2022  # any number, as long as all servers use the same

_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Each statement of a writer must see what was committed before it got the lock, which later isolation levels prevent.
_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_SESSION = {
    "client_encoding": "UTF8",
    "search_path": "termweave",
    "lock_timeout": f"{_PATIENCE}s",
    "statement_timeout": f"{_SILENCE - 1}s",
    # A server whose machine is gone cannot say so; its locks must not stay.
    "idle_in_transaction_session_timeout": f"{_SILENCE}s",
}
_FOUNDATION = (
    "CREATE SCHEMA IF NOT EXISTS termweave",
    "CREATE TABLE format (number bigint NOT NULL)",
    "CREATE FUNCTION epoch() RETURNS bigint LANGUAGE sql VOLATILE "
    "AS 'SELECT CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint)'",
    "INSERT INTO format VALUES (0)",
)
# Sorted by bytes, as SQLite does, whatever language the database was made for.
_TYPES = {"TEXT": 'text COLLATE "C"', "INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea"}
_TLS = ("disable", "prefer", "require", "verify-full")


@dataclass(frozen=True)
class Address:
    """Where the database is. As text, it is without the password."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(default="", repr=False)
    tls: str = "prefer"  # libpq's sslmode
    certificates: str | None = None  # sslrootcert: a file with those to trust, for verify-full

    @classmethod
    def of(cls, setting: str) -> Address:
        """Never repeats the setting in an error: what is wrong may be a part of the password."""
        try:
            parts = urlsplit(setting)
            options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
            host, port, user = options.pop("host", parts.hostname), parts.port or 5432, parts.username
            tls, certificates = options.pop("sslmode", "prefer"), options.pop("sslrootcert", None)
        except ValueError:
            raise _wrong_address() from None
        if parts.scheme not in ("postgresql", "postgres") or not host or not user or parts.path in ("", "/"):
            raise _wrong_address()
        if options or tls not in _TLS:
            raise ConfigError(
                "--store: after the question mark of an address, host, sslrootcert and sslmode are known; sslmode is "
                + ", ".join(_TLS)
            )
        database, password = unquote(parts.path[1:]), unquote(parts.password or "")
        return cls(host, port, unquote(user), database, password, tls, certificates)

    def __str__(self) -> str:
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.database}"


def _wrong_address() -> ConfigError:
    return ConfigError(
        "--store: this is no address of a PostgreSQL database; write postgresql://user:password@host:port/database, "
        "with special characters of the password as in %2F for a slash"
    )


class PostgresDatabase:
    """At most `CONNECTIONS` connections, each in use by one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._driver = _driver()
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self._free: list[_Session] = []  # threads append and pop, which cannot be interrupted
        self._resting_until = 0.0

    @property
    def name(self) -> str:
        return str(self._address)

    @contextmanager
    def reading(self) -> Iterator[_Session]:
        with self._transaction(_READING) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[_Session]:
        with self._transaction(_WRITING) as session:
            session.run(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield session

    def close(self) -> None:
        while self._free:
            with suppress(IndexError):  # another thread took the last
                self._free.pop().close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[_Session]:
        if not self._room.acquire(timeout=_SILENCE):
            raise self._unusable("all connections are in use")
        session = None
        try:
            session = self._begun(begin)
            yield session
            session.run("COMMIT")
            self._free.append(session)
        except (self._driver.Error, OSError) as error:
            if session is not None:
                session.close()
            raise self._unusable(_reason(error)) from error
        except BaseException:
            if session is not None and session.rolled_back():
                self._free.append(session)
            raise
        finally:
            self._room.release()

    def _begun(self, begin: str) -> _Session:
        """A connection on which a transaction has begun. Those that broke while nobody used them are left behind."""
        while self._free:
            try:
                session = self._free.pop()
            except IndexError:  # another thread took it
                break
            try:
                session.run(begin)
                return session
            except (self._driver.Error, OSError) as error:
                session.close()
                if _is_silence(error):  # so are the others, and each would be waited for in turn
                    self.close()
                    raise
        session = self._connected()
        session.run(begin)
        return session

    def _connected(self) -> _Session:
        if time.monotonic() < self._resting_until:
            raise self._unusable("it could not be reached a moment ago")
        try:
            return _connect(self._driver, self._address)
        except (self._driver.Error, OSError):
            self._resting_until = time.monotonic() + _REST
            raise

    def _unusable(self, reason: str) -> StoreError:
        return StoreError(
            f"{self._address}: the store cannot be used ({reason}); see that PostgreSQL runs there, takes connections "
            "from here, and that user and password are right"
        )


class _Found(list[Any]):
    """The rows of a statement, as SQLite's cursor gives them."""

    def fetchone(self) -> Any:
        return self[0] if self else None

    def fetchall(self) -> list[Any]:
        return self


class _Session:
    """A connection, and the statements it knows already: each is parsed once."""

    def __init__(self, driver: Any, connection: Any) -> None:
        self._driver = driver
        self._connection = connection
        self._prepared: dict[str, Any] = {}

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> _Found:
        prepared = self._prepared.get(statement)
        if prepared is None:
            prepared = self._prepared[statement] = self._connection.prepare(_named(statement))
        rows = prepared.run(**{f"p{place}": value for place, value in enumerate(parameters)})
        return _Found(rows or ())

    def run(self, statement: str) -> _Found:
        """Without parameters, and without being remembered."""
        return _Found(self._connection.run(statement) or ())

    def rolled_back(self) -> bool:
        """Undo what the transaction did. If that fails, the connection is closed, which does the same."""
        try:
            self.run("ROLLBACK")
        except (self._driver.Error, OSError):
            self.close()
            return False
        return True

    def close(self) -> None:
        with suppress(self._driver.Error, OSError):  # it may be broken already
            self._connection.close()


@lru_cache(256)
def _named(statement: str) -> str:
    """`?` as the driver's `:p0`, `:p1` and so on. No statement of ours holds a question mark otherwise."""
    places = itertools.count()
    return re.sub(r"\?", lambda _: f":p{next(places)}", statement)


def _driver() -> Any:
    try:
        import pg8000.native
    except ImportError:
        raise ConfigError(
            "--store: a PostgreSQL database needs a driver that is not installed; `pip install 'termweave[postgres]'`"
        ) from None
    return pg8000.native


def _connect(driver: Any, address: Address) -> _Session:
    is_socket = address.host.startswith("/")
    connection = driver.Connection(
        address.user,
        host=address.host,
        port=address.port,
        unix_sock=f"{address.host}/.s.PGSQL.{address.port}" if is_socket else None,
        database=address.database,
        password=address.password,
        ssl_context=False if is_socket else _tls(address),
        timeout=_SILENCE,
        application_name="termweave",
        startup_params=_SESSION,
    )
    session = _Session(driver, connection)
    try:
        _bring_up_to_date(session, address)
    except BaseException:
        session.close()
        raise
    return session


def _tls(address: Address) -> ssl.SSLContext | bool | None:
    if address.tls == "verify-full":
        return ssl.create_default_context(cafile=address.certificates)
    return {"disable": False, "prefer": None, "require": True}[address.tls]


def _bring_up_to_date(session: _Session, address: Address) -> None:
    [(encoding, durability)] = session.run(
        "SELECT current_setting('server_encoding'), current_setting('synchronous_commit')"
    )
    if encoding != "UTF8":
        raise StoreError(f"{address} keeps text as {encoding}; make a database with ENCODING 'UTF8'")
    if durability == "off":  # an answer would be sent before its glossary is on the disk
        session.run("SET synchronous_commit = on")
    if _version(session) == FORMAT:
        return
    # Servers that start at the same moment take turns. The lock comes before the transaction: one that has begun would
    # go on believing that the tables of a faster server do not exist.
    session.run(f"SELECT pg_advisory_lock({_LOCK})")
    session.run(_WRITING)
    version = _version(session)
    if version is None:
        for statement in _FOUNDATION:
            session.run(statement)
    elif version > FORMAT:
        raise newer_format(address, version)
    for statement in statements_since(version or 0):
        session.run(re.sub(r"\b(TEXT|INTEGER|REAL|BLOB)\b", lambda word: _TYPES[word[0]], statement))
    session.run(f"UPDATE format SET number = {FORMAT}")
    session.run("COMMIT")
    session.run(f"SELECT pg_advisory_unlock({_LOCK})")


def _version(session: _Session) -> int | None:
    """The format of the store; None where there is none yet."""
    [(there,)] = session.run("SELECT to_regclass('termweave.format') IS NOT NULL")
    return int(session.run("SELECT number FROM format").fetchone()[0]) if there else None


def _is_silence(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError)


def _reason(error: Exception) -> str:
    """What PostgreSQL says, but no details: they quote what is stored."""
    told = error.args[0] if error.args else ""
    if isinstance(told, dict):
        return f"{told.get('M', 'error')}, {told.get('C', 'no code')}"
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
