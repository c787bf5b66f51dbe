"""What the store knows of documents, in both databases."""

from __future__ import annotations

import pytest

from termweave.server.access import Pace
from termweave.server.database import Database
from termweave.server.document_store import DocumentStore, Step
from termweave.server.keys import PaceStore
from termweave.server.problems import Problem
from termweave.server.settings import Limits

CONTENT = bytes(range(256)) * 100


def documents(store: str, **limits: int) -> DocumentStore:
    return DocumentStore(Database(store), Limits(**limits))


def test_a_document_on_its_way(store: str):
    here, there = documents(store), documents(store)
    here.add("A", "secret", "owner", "brief.en.txt", "server 1")
    queued = there.find("A", "owner", "secret")
    assert (queued.state, queued.progress, queued.name) == ("queued", 0, "brief.en.txt")
    here.tell("server 1", [Step("A", "translating", 0.25, 12)])
    halfway = there.find("A", None, "secret")
    assert (halfway.state, halfway.progress, halfway.seconds_left) == ("translating", 0.25, 12)
    here.finish("A", 7, CONTENT)
    done = there.find("A", "owner", "secret")
    assert (done.state, done.progress, done.characters, done.problem) == ("done", 1, 7, None)
    assert there.content("A") == CONTENT
    there.remove("A")
    with pytest.raises(Problem, match="not found"):
        here.content("A")


@pytest.mark.parametrize(
    ("identifier", "owner", "secret"),
    [("B", "owner", "secret"), ("A", "another", "secret"), ("A", "owner", "guess"), ("A\0", "owner", "secret")],
)
def test_only_who_has_the_secret_finds_it(store: str, identifier: str, owner: str, secret: str):
    kept = documents(store)
    kept.add("A", "secret", "owner", "brief.en.txt", "server 1")
    with pytest.raises(Problem, match="not found"):
        kept.find(identifier, owner, secret)


def test_problems_are_kept(store: str):
    kept = documents(store)
    for identifier in "AB":
        kept.add(identifier, "secret", "owner", "brief.en.txt", "server 1")
    kept.add("C", "secret", "owner", "brief.en.txt", "server 2")
    kept.finish("A", 0, Problem(456, "Quota exceeded", "ü", 3))
    kept.give_up("server 1", Problem(503, "The server is shutting down"))
    found = {identifier: kept.find(identifier, "owner", "secret") for identifier in "ABC"}
    assert [own.state for own in found.values()] == ["error", "error", "queued"]
    first, second = found["A"].problem, found["B"].problem
    assert first is not None and second is not None
    assert (first.status, first.sentence, first.retry_after) == (456, "Quota exceeded: ü", 3)
    assert second.status == 503


def test_room_is_made_by_what_is_finished_or_lost(store: str):
    kept = documents(store, documents=2)
    for identifier in "AB":
        kept.add(identifier, "secret", "owner", "brief.en.txt", "server 1")
    with pytest.raises(Problem, match="Too many"):
        kept.add("C", "secret", "owner", "brief.en.txt", "server 2")
    kept.finish("B", 1, CONTENT)
    kept.add("C", "secret", "owner", "brief.en.txt", "server 2")
    with pytest.raises(Problem, match="not found"):
        kept.find("B", "owner", "secret")
    with Database(store).writing() as connection:
        connection.execute("UPDATE documents SET seen = seen - 31 WHERE id = 'A'")
    lost = kept.find("A", "owner", "secret")
    assert (lost.state, lost.problem is not None) == ("error", True)
    kept.add("D", "secret", "owner", "brief.en.txt", "server 2")
    assert kept.find("C", "owner", "secret").state == "queued"


def test_what_was_kept_long_enough_is_forgotten(store: str):
    kept = documents(store, document_seconds=100)
    for identifier in "AB":
        kept.add(identifier, "secret", "owner", "brief.en.txt", "server 1")
        kept.finish(identifier, 1, CONTENT)
    with Database(store).writing() as connection:
        connection.execute("UPDATE documents SET finished = finished - 101 WHERE id = 'A'")
    with pytest.raises(Problem, match="not found"):
        kept.find("A", "owner", "secret")
    kept.forget_old()
    with Database(store).reading() as connection:
        assert [tuple(row) for row in connection.execute("SELECT id FROM documents")] == [("B",)]


def test_requests_of_a_key_are_counted_at_all_servers_together(store: str):
    here, there = Pace(10), Pace(10)
    kept = [PaceStore(Database(store)) for _ in range(2)]
    for _ in range(6):
        here.check("key", now=0.0)
    here.share(kept[0])
    there.check("key", now=0.0)
    there.share(kept[1])  # 7 of 10 are spent, as it now learns
    now = there._saved["key"][1]
    for _ in range(3):
        there.check("key", now=now)
    with pytest.raises(Problem, match="Too many requests"):
        there.check("key", now=now)
    there.check("another key", now=now)
