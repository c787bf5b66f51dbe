"""The tables of a store, written once for both databases. Each step takes a store from one format to the next."""

from __future__ import annotations

from termweave.errors import StoreError

_GLOSSARIES_AND_KEYS = """
CREATE TABLE glossaries (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE dictionaries (
    glossary TEXT NOT NULL REFERENCES glossaries (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    entries TEXT NOT NULL,
    count INTEGER NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (glossary, source, target)
);
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created TEXT NOT NULL,
    revoked TEXT,
    character_limit INTEGER
);
CREATE TABLE usage (
    key TEXT NOT NULL,
    month TEXT NOT NULL,
    characters INTEGER NOT NULL,
    PRIMARY KEY (key, month)
);
"""

# Times are seconds by the clock of the database, `epoch()`: those of several servers may differ.
_SHARED = """
CREATE TABLE paces (
    key TEXT PRIMARY KEY,
    saved REAL NOT NULL,
    at INTEGER NOT NULL
);
CREATE TABLE documents (
    id TEXT PRIMARY KEY,
    secret BLOB NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    server TEXT NOT NULL,
    state TEXT NOT NULL,
    progress REAL NOT NULL,
    seconds_left INTEGER,
    seen INTEGER NOT NULL,
    finished INTEGER,
    characters INTEGER,
    problem TEXT,
    content BLOB
);
CREATE INDEX documents_at_work ON documents (server) WHERE finished IS NULL;
"""

STEPS = (_GLOSSARIES_AND_KEYS, _SHARED)
FORMAT = len(STEPS)


def statements_since(version: int) -> list[str]:
    """What makes a store of this format one of today's."""
    return [statement for step in STEPS[version:] for statement in step.split(";") if statement.strip()]


def newer_format(store: object, version: int) -> StoreError:
    return StoreError(
        f"{store} has format {version}, this version of Termweave uses format {FORMAT}; install the version that "
        "made it, or name another store"
    )
