"""Two servers, each a process of its own, on one PostgreSQL database; calls go to one and to the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from gated_backend import GatedBackend, until
from postgres_server import PostgresServer
from server_process import ServerProcess, serving

from termweave.server.database import Database
from termweave.server.keys import KeyStore
from termweave.server.settings import Limits, Settings

TEXT = "ein Haus am Fluss"


@dataclass
class Replicas:
    store: str
    servers: list[ServerProcess]
    keys: KeyStore
    secret: str

    def ask(self, replica: int, method: str, path: str, secret: str | None = None, **rest: Any) -> httpx.Response:
        headers = {"Authorization": f"DeepL-Auth-Key {secret or self.secret}"}
        url = self.servers[replica].address + path
        return httpx.request(method, url, headers=headers, timeout=60, **rest)

    def translate(self, replica: int, secret: str | None = None, **more: str) -> httpx.Response:
        body = {"text": [TEXT], "source_lang": "DE", "target_lang": "EN-US", **more}
        return self.ask(replica, "POST", "/v2/translate", secret, json=body)


@pytest.fixture(scope="module")
def replicas(postgres: PostgresServer, model_folder: Path) -> Iterator[Replicas]:
    store = postgres.new_store()
    with serving(model_folder, store, count=2) as servers:
        keys = KeyStore(Database(store))
        yield Replicas(store, servers, keys, keys.create("a team")[1])


def test_a_glossary_made_by_one_is_used_and_changed_by_the_other(replicas: Replicas):
    house = {"source_lang": "de", "target_lang": "en", "entries": "Haus\tbuilding", "entries_format": "tsv"}
    made = replicas.ask(0, "POST", "/v3/glossaries", json={"name": "houses", "dictionaries": [house]}).json()
    identifier = made["glossary_id"]
    for replica in (1, 0):  # from now on both have it at hand
        assert "building" in replicas.translate(replica, glossary_id=identifier).json()["translations"][0]["text"]
    changed = {"dictionaries": [{**house, "entries": "Haus\tcottage"}]}
    assert replicas.ask(1, "PATCH", f"/v3/glossaries/{identifier}", json=changed).status_code == 200
    for replica in (0, 1):
        assert "cottage" in replicas.translate(replica, glossary_id=identifier).json()["translations"][0]["text"]
    assert replicas.ask(0, "DELETE", f"/v3/glossaries/{identifier}").status_code == 204
    assert replicas.translate(1, glossary_id=identifier).status_code == 404


def test_a_key_is_known_and_revoked_everywhere_at_once(replicas: Replicas):
    key, secret = replicas.keys.create("for a moment")
    assert [replicas.ask(own, "GET", "/v2/usage", secret).status_code for own in (0, 1)] == [200, 200]
    replicas.keys.revoke(key.id)
    assert [replicas.ask(own, "GET", "/v2/usage", secret).status_code for own in (0, 1)] == [403, 403]


def test_characters_are_summed(replicas: Replicas):
    _, secret = replicas.keys.create("a small one", character_limit=2 * len(TEXT))
    assert [replicas.translate(own, secret).status_code for own in (0, 1)] == [200, 200]

    def used(replica: int) -> int:
        return replicas.ask(replica, "GET", "/v2/usage", secret).json()["character_count"]

    until(lambda: [used(own) for own in (0, 1)] == [2 * len(TEXT)] * 2)
    assert [replicas.translate(own, secret).status_code for own in (0, 1)] == [456, 456]


def upload(replicas: Replicas, replica: int, content: bytes) -> tuple[str, dict[str, str]]:
    form = {"source_lang": "DE", "target_lang": "EN-US"}
    files = {"file": ("letter.txt", content)}
    handle = replicas.ask(replica, "POST", "/v2/document", data=form, files=files).json()
    return f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}


def test_a_document_is_uploaded_here_asked_for_and_fetched_there(replicas: Replicas):
    path, key = upload(replicas, 0, TEXT.encode())
    until(lambda: replicas.ask(1, "POST", path, json=key).json()["status"] == "done")
    results = [replicas.ask(own, "POST", path + "/result", json=key) for own in (1, 0)]
    assert results[0].content == results[1].content != b""
    assert "letter.en.txt" in results[0].headers["content-disposition"]
    form = {"source": "de", "target": "en", "api_key": replicas.secret}
    files = {"file": ("letter.txt", TEXT.encode())}
    answer = replicas.ask(0, "POST", "/translate_file", data=form, files=files).json()["translatedFileUrl"]
    elsewhere = answer.replace(replicas.servers[0].address, replicas.servers[1].address)
    assert httpx.get(elsewhere).content == httpx.get(answer).content == results[0].content


def test_a_document_that_is_done_while_the_database_is_away_is_not_lost(
    postgres: PostgresServer, running: Callable[..., Any]
):
    backend = GatedBackend(open_gate=False)
    with running(backend, store=postgres.fresh_store()) as server:
        form = {"source_lang": "DE", "target_lang": "EN-US"}
        handle = httpx.post(server.url + "/v2/document", data=form, files={"file": ("a.txt", b"one two")}).json()
        path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
        backend.entered.acquire()
        (work,) = server.service.documents._works.values()
        postgres.stop()
        try:
            backend.gate.set()
            until(work.output.exists)
            assert httpx.post(server.url + path, json=key).status_code == 503
        finally:
            postgres.start()
        until(lambda: httpx.post(server.url + path, json=key).json().get("status") == "done")
        assert httpx.post(server.url + path + "/result", json=key).text == "owt eno"


def test_without_its_database_a_server_says_so_and_recovers(replicas: Replicas, postgres: PostgresServer):
    before = replicas.ask(0, "GET", "/v3/glossaries").json()
    postgres.stop()
    try:
        for replica in (0, 1):
            refused = replicas.ask(replica, "GET", "/v3/glossaries")
            assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
            assert refused.json()["message"] == "The store is not available"
            assert httpx.get(replicas.servers[replica].address + "/health").status_code == 200
    finally:
        postgres.start()
    for replica in (0, 1):
        until(lambda replica=replica: replicas.ask(replica, "GET", "/v3/glossaries").status_code == 200)
        assert replicas.ask(replica, "GET", "/v3/glossaries").json() == before
    for server in replicas.servers:
        log = "".join(server.log)
        assert "the store cannot be used" in log
        assert not any(word in log for word in ("a p@ss/word", "a%20p", replicas.secret))


def test_killed_while_it_writes_nothing_acknowledged_is_lost(replicas: Replicas, running: Callable[..., Any]):
    """The last test: it needs both, and leaves one."""
    document, key = upload(replicas, 1, b"\n\n".join(b"ein Haus %d" % number for number in range(20_000)))
    glossary = {"name": "words", "source_lang": "de", "target_lang": "en", "entries": "Haus\tbuilding"}
    acknowledged: list[str] = []

    def write() -> None:
        while True:
            try:
                made = replicas.ask(1, "POST", "/v2/glossaries", json=glossary)
            except httpx.TransportError:
                return
            acknowledged.append(made.json()["glossary_id"])

    writers = [threading.Thread(target=write) for _ in range(4)]
    for thread in writers:
        thread.start()
    until(lambda: len(acknowledged) >= 40)
    assert replicas.ask(0, "POST", document, json=key).json()["status"] == "translating"
    replicas.servers[1].kill()
    for thread in writers:
        thread.join()
    listed = replicas.ask(0, "GET", "/v2/glossaries").json()["glossaries"]
    kept = {own["glossary_id"]: own["entry_count"] for own in listed}
    assert set(acknowledged) <= set(kept)
    assert set(kept.values()) == {1}
    # What it was translating is lost, which a server that waits a second instead of half a minute soon finds.
    with running(GatedBackend(), Settings(Limits(document_silence=1)), replicas.store) as third:
        headers = {"Authorization": f"DeepL-Auth-Key {replicas.secret}"}

        def told() -> dict[str, Any]:
            return httpx.post(third.url + document, json=key, headers=headers).json()

        until(lambda: told()["status"] == "error")
        assert "Upload the document again" in told()["error_message"]
