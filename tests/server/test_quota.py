"""The monthly limit of a key, for many requests and documents at once: what is asked for, refused, and paid."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gated_backend import GatedBackend, until

ROUTES = {
    "/v2/document": {"source_lang": "DE", "target_lang": "EN-US"},
    "/v1/documents": {"source": "de", "target": "en"},
    "/translate_file": {"source": "de", "target": "en"},
}


class Customer:
    """Somebody with a key of so many characters."""

    def __init__(self, server: Any, limit: int) -> None:
        _, secret = server.service.keys.create("a customer", limit)
        self._headers = {"Authorization": f"DeepL-Auth-Key {secret}"}
        self._url = server.url

    def translate(self, *texts: str, **more: Any) -> httpx.Response:
        return self._post("/v2/translate", json={"text": texts, "source_lang": "DE", "target_lang": "EN", **more})

    def upload(self, content: bytes, route: str = "/v2/document") -> httpx.Response:
        return self._post(route, data=ROUTES[route], files={"file": ("a.txt", content)})

    def status(self, handle: dict[str, str]) -> str:
        key = {"document_key": handle["document_key"]}
        return str(self._post(f"/v2/document/{handle['document_id']}", json=key).json().get("status"))

    @property
    def used(self) -> int:
        return int(httpx.get(self._url + "/v2/usage", headers=self._headers).json()["character_count"])

    def _post(self, path: str, **rest: Any) -> httpx.Response:
        return httpx.post(self._url + path, headers=self._headers, timeout=60, **rest)


@pytest.fixture
def gated() -> GatedBackend:
    return GatedBackend(open_gate=False)


@contextmanager
def opening(backend: GatedBackend) -> Iterator[None]:
    """However the block ends: a server whose translator stands still would never stop."""
    try:
        yield
    finally:
        backend.gate.set()


def test_requests_at_once_see_each_other(gated: GatedBackend, running: Callable[..., Any]):
    with running(gated) as server, ThreadPoolExecutor(20) as clients, opening(gated):
        customer = Customer(server, 200)
        asked = [clients.submit(customer.translate, "x" * 99) for _ in range(20)]
        until(lambda: sum(own.done() for own in asked) == 18)  # refused while the translator stands still
        assert customer.used == 0, "what is reserved is not translated yet"
        gated.gate.set()
        assert sorted(own.result().status_code for own in asked) == [200] * 2 + [456] * 18
        assert customer.used == 198


def test_documents_at_once_see_each_other(gated: GatedBackend, running: Callable[..., Any]):
    with running(gated) as server, opening(gated):
        customer = Customer(server, 500)
        handles = [customer.upload(b"x" * 480).json() for _ in range(8)]
        gated.entered.acquire()
        gated.gate.set()
        until(lambda: all(customer.status(own) in ("done", "error") for own in handles))
        assert sorted(map(customer.status, handles)) == ["done"] + ["error"] * 7
        assert customer.used == 480


@pytest.mark.parametrize("more", [{}, {"tag_handling": "html"}])
def test_what_fails_is_given_back(more: dict[str, str], running: Callable[..., Any]):
    with running(GatedBackend()) as server:
        customer = Customer(server, 10)
        assert customer.translate("wrong", **more).status_code == 400
        assert customer.used == 0
        assert customer.translate("x" * 10, **more).status_code == 200
        assert customer.used == 10


def test_what_nobody_waits_for_is_given_back(gated: GatedBackend, running: Callable[..., Any]):
    with running(gated) as server, opening(gated):
        customer = Customer(server, 10)
        body = {"text": ["x" * 10], "source_lang": "DE", "target_lang": "EN"}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.url + "/v2/translate", json=body, headers=customer._headers, timeout=0.5)
        until(lambda: not server.server.server_state.tasks)
        gated.gate.set()
        assert customer.translate("x" * 10).status_code == 200


def test_a_request_in_two_languages_is_refused_as_a_whole(running: Callable[..., Any]):
    texts = "Der alte Müller verkauft heute das ganze Mehl.", "Le vieux meunier vend toute la farine."
    backend = GatedBackend()
    backend.directions = ("de-en", "fr-en")
    with running(backend) as server:
        customer = Customer(server, sum(map(len, texts)) - 1)
        assert customer.translate(*texts, source_lang="").status_code == 456
        assert customer.used == 0
    assert not backend.batches


def test_a_refused_document_costs_nothing_and_an_interrupted_one_what_was_translated(running: Callable[..., Any]):
    with running(GatedBackend()) as server:
        customer = Customer(server, 100)
        handle = customer.upload(b"x" * 101).json()
        until(lambda: customer.status(handle) == "error")
        assert customer.used == 0
        handle = customer.upload(b"\n\n".join([b"x"] * 150)).json()  # 64 lines are asked for at a time
        until(lambda: customer.status(handle) == "error")
        assert customer.used == 64


@pytest.mark.parametrize("route", ROUTES)
def test_a_key_that_is_used_up_is_told_so_at_the_upload(route: str, running: Callable[..., Any]):
    backend = GatedBackend()
    with running(backend) as server:
        customer = Customer(server, 5)
        assert customer.translate("house").status_code == 200
        assert customer.upload(b"ein Haus", route).status_code == 456
        assert customer.used == 5
    assert backend.batches == [["house"]]


def test_a_document_waits_for_a_store_that_is_away(
    gated: GatedBackend, running: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    store, aside = tmp_path / "store.sqlite", tmp_path / "aside"
    with running(gated, store=store) as server, opening(gated):
        customer = Customer(server, 1000)
        handle = customer.upload(b"\n\n".join([b"x"] * 100)).json()
        gated.entered.acquire()
        store.rename(aside)
        store.mkdir()  # nothing can be stored in a folder
        with caplog.at_level(logging.ERROR, logger="termweave.server"):
            gated.gate.set()
            until(lambda: any(vars(own).get("fields", {}).get("request_id") == "quota" for own in caplog.records))
        store.rmdir()
        aside.rename(store)
        until(lambda: customer.status(handle) == "done")
        assert customer.used == 100
