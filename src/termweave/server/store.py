"""The glossaries of a server. A glossary holds a dictionary for each pair of languages."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from termweave.constraints.glossary import GlossaryEntry
from termweave.server.database import Connection, Database
from termweave.server.entries import pack, unpack
from termweave.server.problems import Problem, bad_request, not_found
from termweave.server.settings import Limits
from termweave.text.words import normalise


@dataclass(frozen=True)
class Dictionary:
    """Entries for one pair of languages, `de` and `en`."""

    source: str
    target: str
    entries: tuple[GlossaryEntry, ...]


@dataclass(frozen=True)
class DictionarySummary:
    source: str
    target: str
    count: int
    version: str  # changes with every change of the entries


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary without its entries."""

    id: str
    name: str
    created: str
    dictionaries: tuple[DictionarySummary, ...]

    def dictionary(self, source: str, target: str) -> DictionarySummary:
        for dictionary in self.dictionaries:
            if (dictionary.source, dictionary.target) == (source, target):
                return dictionary
        raise not_found("Dictionary", f"the glossary {self.id} has none for {source}-{target}")


class GlossaryStore:
    """Every change is on the disk before its method returns, whole or not at all."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    def create(self, name: str, dictionaries: Sequence[Dictionary]) -> StoredGlossary:
        self._check_name(name)
        if not dictionaries:
            raise bad_request("No dictionaries provided", "a glossary needs at least one dictionary")
        pairs = {(dictionary.source, dictionary.target) for dictionary in dictionaries}
        if len(pairs) < len(dictionaries):
            raise bad_request("Invalid dictionaries provided", "give one dictionary for each pair of languages")
        identifier = str(uuid.uuid4())
        with self._database.writing() as connection:
            (count,) = connection.execute("SELECT count(*) FROM glossaries").fetchone()
            if count >= self._limits.glossaries:
                raise bad_request("Too many glossaries", f"at most {self._limits.glossaries} can be kept; delete some")
            created = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            connection.execute("INSERT INTO glossaries VALUES (?, ?, ?)", (identifier, name, created))
            for dictionary in dictionaries:
                self._put(connection, identifier, dictionary)
            return _load(connection, identifier)

    def list(self) -> list[StoredGlossary]:
        with self._database.reading() as connection:
            rows = connection.execute("SELECT id, name, created FROM glossaries ORDER BY created, id").fetchall()
            summaries: dict[str, list[DictionarySummary]] = {}
            for glossary, *summary in connection.execute(
                "SELECT glossary, source, target, count, version FROM dictionaries ORDER BY source, target"
            ):
                summaries.setdefault(glossary, []).append(DictionarySummary(*summary))
        return [
            StoredGlossary(identifier, name, created, tuple(summaries.get(identifier, ())))
            for identifier, name, created in rows
        ]

    def get(self, identifier: str) -> StoredGlossary:
        with self._database.reading() as connection:
            return _load(connection, identifier)

    def entries(self, identifier: str, source: str, target: str) -> tuple[GlossaryEntry, ...]:
        with self._database.reading() as connection:
            _load(connection, identifier).dictionary(source, target)
            return _entries(connection, identifier, source, target)

    def edit(self, identifier: str, name: str | None, dictionaries: Sequence[Dictionary]) -> StoredGlossary:
        """Rename it, if a name is given, and add entries: those of a known source take the place of the older ones."""
        if name is not None:
            self._check_name(name)
        with self._database.writing() as connection:
            _load(connection, identifier)
            if name is not None:
                connection.execute("UPDATE glossaries SET name = ? WHERE id = ?", (name, identifier))
            for dictionary in dictionaries:
                older = _entries(connection, identifier, dictionary.source, dictionary.target)
                entries = _renewed(older, dictionary.entries)
                self._put(connection, identifier, Dictionary(dictionary.source, dictionary.target, entries))
            return _load(connection, identifier)

    def replace(
        self, identifier: str, dictionary: Dictionary, versions: Collection[str] | None = None
    ) -> StoredGlossary:
        """Put a dictionary in the place of an older one, or add it. versions: one of them the older must still be."""
        pair = dictionary.source, dictionary.target
        with self._database.writing() as connection:
            older = _load(connection, identifier)
            if versions is not None and older.dictionary(*pair).version not in versions:
                raise Problem(412, "The glossary was changed meanwhile", "read it again before you replace it")
            self._put(connection, identifier, dictionary)
            return _load(connection, identifier)

    def delete(self, identifier: str) -> None:
        with self._database.writing() as connection:
            _load(connection, identifier)
            connection.execute("DELETE FROM glossaries WHERE id = ?", (identifier,))

    def delete_dictionary(self, identifier: str, source: str, target: str) -> None:
        with self._database.writing() as connection:
            _load(connection, identifier).dictionary(source, target)
            connection.execute(
                "DELETE FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
                (identifier, source, target),
            )

    def _check_name(self, name: str) -> None:
        if not name.strip():
            raise bad_request("Value for 'name' is empty", "give the glossary a name")
        if "\0" in name:
            raise bad_request("Value for 'name' is not valid", "it holds the character U+0000, which cannot be stored")
        if len(name) > self._limits.glossary_name:
            raise bad_request("Value for 'name' is too long", f"use at most {self._limits.glossary_name} characters")

    def _put(self, connection: Connection, identifier: str, dictionary: Dictionary) -> None:
        packed = pack(dictionary.entries)
        size, most = len(packed.encode("utf-8")), self._limits.glossary_bytes
        if size > most:
            raise Problem(413, "The glossary is too large", f"it has {size:,} bytes, {most:,} are allowed; split it")
        connection.execute(
            "INSERT INTO dictionaries VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (glossary, source, target) "
            "DO UPDATE SET entries = excluded.entries, count = excluded.count, version = excluded.version",
            (
                identifier,
                dictionary.source,
                dictionary.target,
                packed,
                len(dictionary.entries),
                uuid.uuid4().hex,
            ),
        )


def _renewed(older: Sequence[GlossaryEntry], given: Sequence[GlossaryEntry]) -> tuple[GlossaryEntry, ...]:
    """A source given anew loses all its older entries: one that stayed, such as a ban, could contradict the new one.

    What is new stands where the first of them stood. Sources are the same as `Glossary.merged` says.
    """
    added = {normalise(entry.source): entry for entry in given}
    kept: list[GlossaryEntry] = []
    placed: set[str] = set()
    for entry in older:
        source = normalise(entry.source)
        if source not in added:
            kept.append(entry)
        elif source not in placed:
            kept.append(added[source])
            placed.add(source)
    return (*kept, *(entry for source, entry in added.items() if source not in placed))


def _load(connection: Connection, identifier: str) -> StoredGlossary:
    row = None
    if "\0" not in identifier:  # PostgreSQL has no such text
        row = connection.execute("SELECT id, name, created FROM glossaries WHERE id = ?", (identifier,)).fetchone()
    if row is None:
        raise not_found("Glossary", "there is none with this id")
    summaries = connection.execute(
        "SELECT source, target, count, version FROM dictionaries WHERE glossary = ? ORDER BY source, target",
        (identifier,),
    )
    identifier, name, created = row
    return StoredGlossary(identifier, name, created, tuple(DictionarySummary(*summary) for summary in summaries))


def _entries(connection: Connection, identifier: str, source: str, target: str) -> tuple[GlossaryEntry, ...]:
    row = connection.execute(
        "SELECT entries FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
        (identifier, source, target),
    ).fetchone()
    return () if row is None else unpack(row[0])
