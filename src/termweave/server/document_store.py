"""What is known of documents, in the store: how far they are, and their translations until they are fetched.

Any server of the store can answer for a document, but only the one that took it works on it. That one says again and
again that it is still there; if it falls silent, its documents are lost, and whoever asks is told so.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from termweave.server.database import Connection, Database
from termweave.server.problems import Problem, not_found
from termweave.server.settings import Limits

State = Literal["queued", "translating", "done", "error"]

_COLUMNS = "id, owner, name, state, progress, seconds_left, characters, problem"


@dataclass(frozen=True)
class StoredDocument:
    """A document without its content."""

    id: str
    owner: str  # id of the key it was uploaded with
    name: str  # of the translation, for the client
    state: State
    progress: float  # the share that is done
    seconds_left: int | None  # a guess
    characters: int | None  # that were translated; known when it is done
    problem: Problem | None


@dataclass(frozen=True)
class Step:
    """How far a document is, as its server tells."""

    id: str
    state: State
    progress: float
    seconds_left: int | None


class DocumentStore:
    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    def add(self, identifier: str, secret: str, owner: str, name: str, server: str) -> None:
        """One more that waits, or a problem if there is no room for it."""
        with self._database.writing() as connection:
            self._make_room(connection)
            connection.execute(
                "INSERT INTO documents (id, secret, owner, name, server, state, progress, seen) "
                "VALUES (?, ?, ?, ?, ?, 'queued', 0, epoch())",
                (identifier, _hash(secret), owner, name, server),
            )

    def tell(self, server: str, steps: Sequence[Step]) -> None:
        """The server is still there, and some of its documents are so far."""
        with self._database.writing() as connection:
            connection.execute("UPDATE documents SET seen = epoch() WHERE server = ? AND finished IS NULL", (server,))
            for step in steps:
                connection.execute(
                    "UPDATE documents SET state = ?, progress = ?, seconds_left = ? WHERE id = ? AND finished IS NULL",
                    (step.state, step.progress, step.seconds_left, step.id),
                )

    def finish(self, identifier: str, characters: int, outcome: bytes | Problem) -> None:
        """It is translated, or there is a problem with it."""
        content, problem = (None, outcome) if isinstance(outcome, Problem) else (outcome, None)
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE documents SET state = ?, progress = 1, seconds_left = NULL, characters = ?, problem = ?, "
                "content = ?, finished = epoch() WHERE id = ? AND finished IS NULL",
                ("done" if problem is None else "error", characters, _packed(problem), content, identifier),
            )

    def give_up(self, server: str, problem: Problem) -> None:
        """Whatever the server has not finished, it will not finish any more."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE documents SET state = 'error', problem = ?, finished = epoch() "
                "WHERE server = ? AND finished IS NULL",
                (_packed(problem), server),
            )

    def find(self, identifier: str, owner: str | None, secret: str) -> StoredDocument:
        """secret: what the client was told at the upload. owner: whose it must be; None where the secret is enough."""
        with self._database.reading() as connection:
            row = None
            if "\0" not in identifier:  # PostgreSQL has no such text
                row = connection.execute(
                    f"SELECT secret, epoch() - seen, epoch() - finished, {_COLUMNS} FROM documents WHERE id = ?",
                    (identifier,),
                ).fetchone()
        if row is None or not hmac.compare_digest(_hash(secret), bytes(row[0])):
            raise _no_such_document()
        _, silence, age, *columns, problem = row
        own = StoredDocument(*[*columns, _unpacked(problem)])
        if owner not in (None, own.owner) or (age is not None and age > self._limits.document_seconds):
            raise _no_such_document()
        if age is None and silence > self._limits.document_silence:
            lost = Problem(503, "The server that translated it is gone", "Upload the document again.", 5)
            return StoredDocument(own.id, own.owner, own.name, "error", own.progress, None, None, lost)
        return own

    def content(self, identifier: str) -> bytes:
        """The translation of a document that is done."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT content FROM documents WHERE id = ?", (identifier,)).fetchone()
        if row is None or row[0] is None:
            raise _no_such_document()
        return bytes(row[0])

    def remove(self, identifier: str) -> None:
        with self._database.writing() as connection:
            connection.execute("DELETE FROM documents WHERE id = ?", (identifier,))

    def forget_old(self) -> None:
        with self._database.writing() as connection:
            self._forget_old(connection)

    def _forget_old(self, connection: Connection) -> None:
        connection.execute(
            "DELETE FROM documents WHERE coalesce(finished, seen) < epoch() - ?", (self._limits.document_seconds,)
        )

    def _make_room(self, connection: Connection) -> None:
        self._forget_old(connection)
        (count,) = connection.execute("SELECT count(*) FROM documents").fetchone()
        if count < self._limits.documents:
            return
        oldest = connection.execute(
            "SELECT id FROM documents WHERE finished IS NOT NULL OR seen < epoch() - ? "
            "ORDER BY coalesce(finished, seen), id LIMIT 1",
            (self._limits.document_silence,),
        ).fetchone()
        if oldest is None:
            raise Problem(503, "Too many documents are waiting", "Try again later.", 30)
        connection.execute("DELETE FROM documents WHERE id = ?", (oldest[0],))


def _no_such_document() -> Problem:
    return not_found("Document", "it was never there, or was kept long enough; upload it again")


def _hash(secret: str) -> bytes:
    """Secrets are random and long: nobody finds them from their hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _packed(problem: Problem | None) -> str | None:
    if problem is None:
        return None
    return json.dumps([problem.status, problem.message, problem.detail, problem.retry_after])


def _unpacked(text: str | None) -> Problem | None:
    return None if text is None else Problem(*json.loads(text))
