"""Connections: how long a client may take for its request and its answer, and what is told to those that speak no HTTP.

uvicorn ends a connection that is idle between two requests, but waits for the rest of a request as long as it takes. A
few hundred clients that send a byte now and then would use up all connections there are. So each has a clock:

1. It starts when the connection is made, or with the first byte of a further request, and stops when the headers are
   whole. The body is the application's matter (`observation.BodyLimit`) until the answer is sent.
2. It starts again if the answer was sent before the body was whole, for nobody else waits for the rest.

A client that does not read its answer is the kernel's matter: `give_up_unread`.
"""

from __future__ import annotations

import asyncio
import functools
import json
import socket
from http import HTTPStatus
from typing import Any, Literal, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from termweave.server.problems import Problem
from termweave.server.settings import Limits

_HEADER_BYTES = 32 * 1024
_BACKLOG = 512

Due = Literal["headers", "rest"]


def configuration(app: Any, limits: Limits, **more: Any) -> uvicorn.Config:
    """How uvicorn serves an application."""
    # proxy_headers: whom a request comes from is what the connection says, not what a header says.
    return uvicorn.Config(
        app,
        http=cast(Any, functools.partial(TimedProtocol, limits)),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=limits.idle_seconds,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        backlog=_BACKLOG,
        **more,
    )


def give_up_unread(listening: socket.socket, limits: Limits) -> None:
    """Have the kernel end connections whose client takes nothing of what is sent. Not all systems know how."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:  # those that are accepted inherit it
        listening.setsockopt(socket.IPPROTO_TCP, option, int(1000 * limits.unread_seconds))


class TimedProtocol(H11Protocol):
    """uvicorn's, with a clock, and with refusals that look like all others."""

    def __init__(self, limits: Limits, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._seconds: dict[Due, float] = {"headers": limits.header_seconds, "rest": limits.body_seconds}
        self._due: Due | None = None  # what the clock runs for
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect("headers")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect(self._what_is_due())

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect(self._what_is_due())

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def _what_is_due(self) -> Due | None:
        """By what has arrived: a request that has begun, or a body whose request was answered already."""
        if self.conn.their_state is h11.IDLE and self._has_begun:
            return "headers"
        if self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE:
            return "rest"
        return None

    @property
    def _has_begun(self) -> bool:
        return bool(self.conn.trailing_data[0])

    def _expect(self, due: Due | None) -> None:
        """A clock that runs for the same thing already runs on: bytes that drip in do not turn it back."""
        if due == self._due:
            return
        if self._clock is not None:
            self._clock.cancel()
        self._due = due
        self._clock = None if due is None else self.loop.call_later(self._seconds[due], self._too_late)

    def _too_late(self) -> None:
        if self._has_begun:  # browsers make connections in advance; those are not refused, only closed
            within = f"send them within {self._seconds['headers']:g} seconds"
            self._refuse(Problem(408, "The headers did not arrive", within))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        remedy = f"send HTTP/1.1, with headers of at most {_HEADER_BYTES:,} bytes"
        self._refuse(Problem(400, "The request is not valid HTTP", remedy))
        self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Unless something else was answered already."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or self.transport.is_closing():
            return
        body = json.dumps(problem.body).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        reason = HTTPStatus(problem.status).phrase.encode()
        start = h11.Response(status_code=problem.status, headers=headers, reason=reason)
        for event in (start, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
