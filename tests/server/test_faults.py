"""Clients that vanish, more requests than there is room for, and a server that stops while it works."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from gated_backend import GatedBackend, until

from termweave.server.settings import Gathering, Settings

BODY = {"text": ["ein Haus"], "source_lang": "DE", "target_lang": "EN-US"}


@pytest.fixture
def gated() -> Any:
    backend = GatedBackend(open_gate=False)
    yield backend
    backend.gate.set()


def send(server: Any) -> socket.socket:
    body = json.dumps(BODY).encode()
    head = (
        "POST /v2/translate HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    connection = socket.create_connection((server.host, server.port))
    connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
    return connection


def test_a_client_that_vanishes_frees_its_place(gated: GatedBackend, running: Callable[..., Any]):
    with running(gated, Settings(gathering=Gathering(patience=0))) as server:
        at_work = send(server)
        gated.entered.acquire()
        waiting = [send(server) for _ in range(20)]
        until(lambda: server.service.batcher.queued_requests == 20)
        for connection in (at_work, *waiting):
            connection.close()
        until(lambda: server.service.batcher.queued_requests == 0)
        assert server.service.batcher.queued_tokens == 0
        gated.gate.set()
        until(lambda: not server.server.server_state.tasks)
        assert not server.server.server_state.connections
        assert server.service.metrics.vanished._value.get() == 21
        assert httpx.post(server.url + "/v2/translate", json=BODY).status_code == 200
    assert len(gated.batches) == 2, "what nobody waits for is not translated"


def test_a_client_that_vanishes_while_it_sends(gated: GatedBackend, running: Callable[..., Any]):
    with running(gated) as server:
        connection = socket.create_connection((server.host, server.port))
        connection.sendall(b"POST /v2/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
        until(lambda: len(server.server.server_state.connections) == 1)
        connection.close()
        until(lambda: not server.server.server_state.tasks and not server.server.server_state.connections)
    assert not gated.batches


def test_overload_is_refused_at_once_and_nothing_accepted_is_lost(gated: GatedBackend, running: Callable[..., Any]):
    gathering = Gathering(queued_requests=10, patience=0)
    with running(gated, Settings(gathering=gathering)) as server:

        async def clients() -> list[httpx.Response]:
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(limits=limits, timeout=60) as client:
                first = asyncio.ensure_future(client.post(server.url + "/v2/translate", json=BODY))
                await asyncio.to_thread(gated.entered.acquire)
                others = [
                    asyncio.ensure_future(client.post(server.url + "/v2/translate", json=BODY)) for _ in range(40)
                ]
                while sum(own.done() for own in others) < 30:  # refused while the translator stands still
                    await asyncio.sleep(0.005)
                gated.gate.set()
                return [await own for own in (first, *others)]

        answers = asyncio.run(clients())
    accepted = [own for own in answers if own.status_code == 200]
    refused = [own for own in answers if own.status_code == 503]
    assert (len(accepted), len(refused)) == (11, 30)
    assert all(own.json()["translations"][0]["text"] == "suaH nie" for own in accepted)
    assert all(int(own.headers["retry-after"]) >= 1 for own in refused)
    assert all(set(own.json()) == {"message", "detail"} for own in refused)


def test_stopping_finishes_what_was_accepted(gated: GatedBackend, running: Callable[..., Any]):
    answers: list[httpx.Response] = []
    with running(gated, Settings(gathering=Gathering(patience=0, batch_tokens=3))) as server:

        def client() -> None:
            answers.append(httpx.post(server.url + "/v2/translate", json=BODY, timeout=60))

        clients = [threading.Thread(target=client) for _ in range(8)]
        for thread in clients:
            thread.start()
        gated.entered.acquire()
        until(lambda: server.service.batcher.queued_requests == 7)
        server.ask_to_stop()
        until(lambda: not server.server.servers or not server.server.servers[0].is_serving())
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url + "/health")
        gated.gate.set()
        for thread in clients:
            thread.join()
    assert [own.status_code for own in answers] == [200] * 8
    assert not server.thread.is_alive()
