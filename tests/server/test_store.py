"""What a server remembers: glossaries and keys."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from termweave.constraints.glossary import GlossaryEntry
from termweave.errors import ConfigError, StoreError
from termweave.server.database import Database
from termweave.server.document_store import DocumentStore
from termweave.server.keys import KeyStore, Usage
from termweave.server.problems import Problem
from termweave.server.settings import Limits
from termweave.server.store import Dictionary, GlossaryStore

HOUSE = Dictionary("de", "en", (GlossaryEntry("Haus", ("house", "home")), GlossaryEntry("Termweave", (), "keep")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.sqlite"


def glossaries(path: str | Path, **limits: int) -> GlossaryStore:
    return GlossaryStore(Database(path), Limits(**limits))


def test_a_glossary_survives_a_new_start(store: str):
    made = glossaries(store).create("houses", [HOUSE])
    again = glossaries(store)
    assert again.get(made.id) == made
    assert again.entries(made.id, "de", "en") == HOUSE.entries
    assert again.list() == [made]


def test_versions_change_with_the_entries_only(store: str):
    kept = glossaries(store)
    made = kept.create("houses", [HOUSE])
    renamed = kept.edit(made.id, "homes", [])
    assert renamed.dictionaries == made.dictionaries
    changed = kept.edit(made.id, None, [Dictionary("de", "en", (GlossaryEntry("Fluss", ("river",)),))])
    assert changed.dictionaries[0].version != made.dictionaries[0].version
    assert [entry.source for entry in kept.entries(made.id, "de", "en")] == ["Haus", "Termweave", "Fluss"]


def test_a_source_given_anew_loses_all_its_older_entries(store: str):
    kept = glossaries(store)
    older = (
        GlossaryEntry("Haus", ("building",)),
        GlossaryEntry("Mehl", ("flour",)),
        GlossaryEntry("Haus", ("home",), policy="forbid"),
        GlossaryEntry("Mehl", ("powder",), policy="forbid"),
        GlossaryEntry("das  Haus", ("villa",)),
    )
    made = kept.create("houses", [Dictionary("de", "en", older)])
    home, the, river = (
        GlossaryEntry(source, (target,))
        for source, target in (("Haus", "home"), ("das Haus", "it"), ("Fluss", "river"))
    )
    kept.edit(made.id, None, [Dictionary("de", "en", (river, home, the))])
    assert kept.entries(made.id, "de", "en") == (home, older[1], older[3], the, river)


def test_what_fails_changes_nothing(store: str):
    kept = glossaries(store, glossary_bytes=200)
    made = kept.create("houses", [HOUSE])
    large = Dictionary("en", "de", tuple(GlossaryEntry(f"word {n}", (f"Wort {n}",)) for n in range(20)))
    with pytest.raises(Problem) as refused:
        kept.edit(made.id, "renamed", [large])
    assert refused.value.status == 413
    assert kept.get(made.id) == made


def test_the_number_of_glossaries_is_bounded(store: str):
    kept = glossaries(store, glossaries=2)
    for _ in range(2):
        kept.create("houses", [HOUSE])
    with pytest.raises(Problem, match="Too many"):
        kept.create("houses", [HOUSE])


def test_threads_write_at_the_same_time(store: str):
    kept = glossaries(store)
    made = kept.create("houses", [HOUSE])

    def add(thread: int) -> None:
        for number in range(5):
            entry = GlossaryEntry(f"Wort {thread} {number}", ("word",))
            kept.edit(made.id, None, [Dictionary("de", "en", (entry,))])

    threads = [threading.Thread(target=add, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.get(made.id).dictionaries[0].count == 2 + 20


def test_a_store_of_the_first_format_is_brought_up_to_date(store: str):
    made = glossaries(store).create("houses", [HOUSE])
    is_file = not store.startswith("postgresql")
    with Database(store).writing() as connection:
        connection.execute("DROP TABLE documents")
        connection.execute("DROP TABLE paces")
        connection.execute("PRAGMA user_version = 1" if is_file else "UPDATE format SET number = 1")
    again = Database(store)
    DocumentStore(again, Limits()).add("A", "secret", "owner", "brief.en.txt", "server")
    assert GlossaryStore(again, Limits()).list() == [made]


def test_a_full_disk_is_told_and_gone_when_there_is_room(path: Path):
    database = Database(path)
    store = GlossaryStore(database, Limits())
    made = store.create("houses", [HOUSE])
    large = [Dictionary("en", "de", (GlossaryEntry("a" * 100_000, ("b",)),))]
    with database.writing() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    with database.writing() as connection:
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="full"):
        store.create("large", large)
    assert store.list() == [made]
    # After an error the file is opened anew, where the limit set above is forgotten: there is room again.
    assert store.create("large", large).name == "large"


def test_a_broken_file_is_told_and_a_mended_one_is_used(path: Path):
    store = glossaries(path)
    store.create("houses", [HOUSE])
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(b"this is no database" * 1000)
    with pytest.raises(StoreError, match="whole"):
        store.list()
    with pytest.raises(StoreError):
        store.create("houses", [HOUSE])
    path.unlink()
    assert store.list() == []
    assert store.create("houses", [HOUSE]).name == "houses"


def test_a_file_that_was_moved_away_is_written_no_more(path: Path):
    store = glossaries(path)
    store.create("old", [HOUSE])
    path.parent.rename(path.parent.with_name("elsewhere"))
    assert store.create("new", [HOUSE]) in glossaries(path).list()


def test_a_store_of_another_format_is_refused(path: Path):
    database = Database(path)
    with database.reading() as connection:
        connection.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="format 99"):
        glossaries(path).list()


def test_only_the_owner_can_read_the_file(path: Path):
    glossaries(path).create("houses", [HOUSE])
    assert {file.stat().st_mode & 0o077 for file in path.parent.iterdir()} == {0}


# Keys


def test_keys_are_hashed_at_rest(path: Path):
    keys = KeyStore(Database(path))
    key, secret = keys.create("a team", 1000)
    assert keys.find(secret) == key
    assert keys.find(secret + "x") is None
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert secret.encode() not in stored
    assert secret.removeprefix("tw-").encode() not in stored


def test_revoked_keys_are_refused_by_others_at_once(store: str):
    keys, elsewhere = KeyStore(Database(store)), KeyStore(Database(store))
    key, secret = keys.create("a team")
    assert elsewhere.find(secret)
    keys.revoke(key.id)
    assert elsewhere.find(secret) is None
    assert [own.revoked is not None for own in elsewhere.list()] == [True]
    assert elsewhere.required, "revoking the last key must not open the server"
    with pytest.raises(ConfigError, match="no key"):
        keys.revoke("nothing")


def test_usage_is_counted_by_key_and_survives(store: str):
    usage = Usage(Database(store))
    usage.add("a", 5)
    usage.add("b", 7)
    usage.flush()
    usage.add("a", 1)
    assert usage.total("a") == 6
    usage.flush()
    usage.flush()
    again = Usage(Database(store))
    assert (again.total("a"), again.total("b"), again.total("c")) == (6, 7, 0)


def test_what_cannot_be_written_stays_counted(path: Path):
    usage = Usage(Database(path))
    usage.add("a", 5)
    usage.flush()
    usage.add("a", 1)
    whole = path.read_bytes()
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(b"this is no database" * 1000)
    with pytest.raises(StoreError):
        usage.flush()
    path.unlink()
    path.write_bytes(whole)
    usage.add("a", 1)
    usage.flush()
    assert Usage(Database(path)).total("a") >= 2
