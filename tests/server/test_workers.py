"""Heavy work, and much of it, keeps no translation waiting; more than there is room for is refused at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn

import httpx
import pytest
from gated_backend import GatedBackend, until

from termweave.errors import ConstraintError
from termweave.server import own_glossaries
from termweave.server.settings import Limits, Settings

CLIENTS = 60  # more than any pool has threads and places
SETTINGS = Settings(Limits(waiting_inspections=3, waiting_glossaries=2))
FILES = ("/v1/lint?", "/v1/terms?", "/v1/convert?to=csv&", "/v1/glossaries?name=houses&")
INSPECT = {"text": "Das Haus", "translation": "the building", "source": "de", "target": "en"}


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


class Inspecting(GatedBackend):
    """Translates at once, but inspects nothing before the gate opens; then it finds all of it wrong."""

    def __init__(self, inspecting: threading.Event) -> None:
        super().__init__()
        self._inspecting = inspecting

    def inspect(self, *_: Any) -> NoReturn:
        self._inspecting.wait()
        raise ConstraintError("a wrong text")


def crowd(
    server: Any, gate: threading.Event, refused: int, send: Callable[[httpx.Client], httpx.Response]
) -> Counter[int]:
    """How often each status is answered to many clients; while they wait, others are served."""
    connections = httpx.Client(limits=httpx.Limits(max_connections=None), timeout=60)
    with connections, ThreadPoolExecutor(CLIENTS) as clients:
        asked: list[Future[httpx.Response]] = [clients.submit(send, connections) for _ in range(CLIENTS)]
        try:
            until(lambda: sum(own.done() for own in asked) == refused)
            body = {"text": ["ein Haus"], "source_lang": "DE", "target_lang": "EN"}
            assert connections.post(server.url + "/v2/translate", json=body).status_code == 200
            assert connections.get(server.url + "/v2/usage").status_code == 200
            assert connections.get(server.url + "/v3/glossaries").status_code == 200
            assert all(int(own.result().headers["retry-after"]) >= 1 for own in asked if own.done())
        finally:
            gate.set()
        return Counter(own.result().status_code for own in asked)


def test_a_crowd_that_inspects(gate: threading.Event, running: Callable[..., Any]):
    with running(Inspecting(gate), SETTINGS) as server:

        def send(client: httpx.Client) -> httpx.Response:
            return client.post(server.url + "/v1/inspect", json=INSPECT)

        assert crowd(server, gate, CLIENTS - 4, send) == {503: CLIENTS - 4, 400: 4}
        assert send(httpx.Client()).status_code == 400, "places are free again"


@pytest.mark.parametrize("path", FILES)
def test_a_crowd_with_glossary_files(
    path: str, gate: threading.Event, running: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    read = own_glossaries.read_glossary

    def read_late(*arguments: Any) -> Any:
        gate.wait()
        return read(*arguments)

    monkeypatch.setattr(own_glossaries, "read_glossary", read_late)
    with running(GatedBackend(), SETTINGS) as server:

        def send(client: httpx.Client) -> httpx.Response:
            url = f"{server.url}{path}source=de&target=en&format=tsv"
            return client.post(url, content=b"source\ttarget\nHaus\tbuilding\n")

        answers = crowd(server, gate, CLIENTS - 4, send)
        assert answers == {503: CLIENTS - 4, 201 if "name" in path else 200: 4}
