"""Clients that send slowly, or not at all, or what is no HTTP: their connections end, and others are served."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from gated_backend import GatedBackend, until

from termweave.server.batching import LONGEST_WAIT
from termweave.server.connections import configuration, give_up_unread
from termweave.server.settings import Limits, Settings

HASTE = 0.3  # seconds; whoever waits longer than the test suite is patient would wait for ever
HEAD = b"POST /v2/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def hasty(running: Callable[..., Any]) -> Iterator[Any]:
    limits = Limits(header_seconds=HASTE, body_seconds=HASTE)
    with running(GatedBackend(), Settings(limits)) as server:
        yield server


def connect(server: Any) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=60)


def answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Status and body of the last answer before the server ends the connection; (0, {}) if there is none."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    if not received:
        return 0, {}
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(body)


def drip(connection: socket.socket, byte: bytes) -> None:
    """A byte now and then, until the server has had enough."""
    connection.settimeout(HASTE / 10)
    for _ in range(1000):
        try:
            connection.sendall(byte)
            if connection.recv(1, socket.MSG_PEEK) is not None:
                break
        except TimeoutError:
            continue
        except OSError:
            break
    else:
        pytest.fail("the server waits for ever")
    connection.settimeout(60)


@pytest.mark.parametrize("begin", [b"P", b"POST /v2/translate HTTP/1.1\r\n", HEAD, HEAD + b"X: "])
def test_headers_that_stop_are_not_waited_for(hasty: Any, begin: bytes):
    with connect(hasty) as connection:
        connection.sendall(begin)
        status, body = answer(connection)
    assert (status, set(body)) == (408, {"message", "detail"})
    assert "headers" in body["message"]


def test_headers_that_drip_are_not_waited_for(hasty: Any):
    with connect(hasty) as connection:
        connection.sendall(HEAD + b"X: ")
        drip(connection, b"a")
        assert answer(connection)[0] == 408


def test_a_connection_that_says_nothing_is_closed_without_a_word(hasty: Any):
    with connect(hasty) as connection:
        assert answer(connection) == (0, {})


def test_a_second_request_has_a_clock_of_its_own(hasty: Any):
    with connect(hasty) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(HEAD)
        assert answer(connection)[0] == 408


@pytest.mark.parametrize("length", [b"Content-Length: 100\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nFFFF\r\n"])
def test_bodies_that_stop_are_not_waited_for(hasty: Any, length: bytes):
    with connect(hasty) as connection:
        connection.sendall(HEAD + length)
        drip(connection, b"{")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("path", [b"/nowhere", b"/v2/translate"])
def test_bodies_nobody_wants_are_not_waited_for(hasty: Any, path: bytes):
    """The answer, 404 or 413, is sent while the body still drips in."""
    with connect(hasty) as connection:
        connection.sendall(HEAD.replace(b"/v2/translate", path) + b"Content-Length: 99999999\r\n\r\n")
        drip(connection, b"a")
        until(lambda: not hasty.server.server_state.connections)


def test_a_request_that_waits_for_its_translation_may_wait(running: Callable[..., Any]):
    """The clock is for what the client sends."""
    backend = GatedBackend(open_gate=False)
    hasty = Settings(Limits(header_seconds=HASTE, body_seconds=HASTE))
    with running(backend, hasty) as server, connect(server) as slow, connect(server) as connection:
        body = b'{"text": ["ein Haus"], "source_lang": "DE", "target_lang": "EN"}'
        connection.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        backend.entered.acquire()
        slow.sendall(HEAD)
        assert answer(slow)[0] == 408  # the time is over
        backend.gate.set()
        assert answer(connection)[0] == 200


def test_many_slow_clients_leave_room_for_others(hasty: Any):
    slow = [connect(hasty) for _ in range(200)]
    for connection in slow:
        connection.sendall(HEAD)
    assert httpx.get(hasty.url + "/health").status_code == 200
    until(lambda: not hasty.server.server_state.connections)
    assert {answer(connection)[0] for connection in slow} == {408}
    for connection in slow:
        connection.close()


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00", b"HELO there\r\n\r\n", b"GET /\r\n\r\n"])
def test_what_is_no_http_is_refused_as_everything_is(hasty: Any, data: bytes):
    with connect(hasty) as connection:
        connection.sendall(data)
        status, body = answer(connection)
    assert (status, set(body)) == (400, {"message", "detail"})


def test_a_broken_body_after_the_answer_ends_the_connection(hasty: Any, caplog: pytest.LogCaptureFixture):
    with connect(hasty) as connection:
        connection.sendall(HEAD.replace(b"/v2/translate", b"/nowhere") + b"Transfer-Encoding: chunked\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404")
        connection.sendall(b"no number\r\n")
        while rest := connection.recv(65536):
            assert not rest.startswith(b"HTTP/1.1"), "one request, two answers"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system does not know TCP_USER_TIMEOUT")
def test_answers_that_nobody_reads_are_given_up():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        give_up_unread(listening, Limits(unread_seconds=HASTE))
        with socket.create_connection(listening.getsockname()) as reader:
            accepted, _ = listening.accept()
            with accepted, pytest.raises(TimeoutError, match="timed out"):
                accepted.settimeout(None)
                while True:
                    accepted.sendall(b"a" * 2**20)
            assert reader


def test_a_connection_outlives_the_longest_wait_that_clients_are_told():
    """Else they come back, as told, on a connection that is being closed."""
    assert Limits().idle_seconds > LONGEST_WAIT
    assert configuration(lambda: None, Limits()).timeout_keep_alive == Limits().idle_seconds
