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

HASTE = 0.3  # seconds; nothing here goes wrong if the machine is slower than that
HEAD = b"POST /v2/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def hasty(running: Callable[..., Any]) -> Iterator[Any]:
    """Its time for headers is over when a test says so, see `time_is_over`."""
    with running(GatedBackend(), Settings(Limits(header_seconds=3600, body_seconds=HASTE))) as server:
        yield server


def clocks(server: Any) -> list[Any]:
    """Those that run for headers of which something has arrived."""
    connections = list(server.server.server_state.connections)
    return [own._clock for own in connections if own._due == "headers" and own._has_begun]


def time_is_over(server: Any, begun: int = 1) -> None:
    until(lambda: len(clocks(server)) == begun)
    for clock in clocks(server):
        clock._loop.call_soon_threadsafe(clock._callback)


def connect(server: Any) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=60)


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the server ends the connection."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


def answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Status and body of the answer before the server ends the connection; (0, {}) if there is none."""
    received = rest_of(connection)
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
        time_is_over(hasty)
        status, body = answer(connection)
    assert (status, set(body)) == (408, {"message", "detail"})
    assert "headers" in body["message"]


def test_a_byte_now_and_then_does_not_turn_the_clock_back(hasty: Any):
    with connect(hasty) as connection:
        connection.sendall(HEAD + b"X: ")
        until(lambda: len(clocks(hasty)) == 1)
        [clock] = clocks(hasty)
        [protocol] = hasty.server.server_state.connections
        for size in range(1, 20):
            connection.sendall(b"a")
            until(lambda size=size: len(protocol.conn.trailing_data[0]) == len(HEAD) + 3 + size)
        assert clocks(hasty) == [clock]
        time_is_over(hasty)
        assert answer(connection)[0] == 408


def test_a_connection_that_says_nothing_is_closed_without_a_word(running: Callable[..., Any]):
    with running(GatedBackend(), Settings(Limits(header_seconds=HASTE))) as server, connect(server) as connection:
        assert answer(connection) == (0, {})


def test_a_second_request_has_a_clock_of_its_own(hasty: Any):
    with connect(hasty) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert not clocks(hasty)
        connection.sendall(HEAD)
        time_is_over(hasty)
        assert b"HTTP/1.1 408" in rest_of(connection)


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
    with running(backend) as server, connect(server) as connection:
        body = b'{"text": ["ein Haus"], "source_lang": "DE", "target_lang": "EN"}'
        connection.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        backend.entered.acquire()
        [protocol] = server.server.server_state.connections
        assert protocol._clock is None
        backend.gate.set()
        assert answer(connection)[0] == 200


def test_many_slow_clients_leave_room_for_others(hasty: Any):
    slow = [connect(hasty) for _ in range(200)]
    for connection in slow:
        connection.sendall(HEAD)
    assert httpx.get(hasty.url + "/health").status_code == 200
    time_is_over(hasty, begun=200)
    assert {answer(connection)[0] for connection in slow} == {408}
    for connection in slow:
        connection.close()
    until(lambda: not hasty.server.server_state.connections)


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
