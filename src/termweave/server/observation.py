"""What a server tells about itself: a line of JSON for each request, and figures for Prometheus.

Neither holds texts, terms or keys: routes are told as `/v2/glossaries/{glossary_id}`, keys by their public id, and of
an unexpected error its kind and its place in the code, for its message may quote what was translated.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
import traceback
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.responses import JSONResponse

from termweave.server.batching import Batcher, BatchReport
from termweave.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi.routing import APIRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("termweave.server")

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_DISCARDED = 64 * 2**20  # bytes of a body too large that are read, so that the client gets to see the answer


class Metrics:
    """Figures of one server."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("termweave_requests", "Requests answered", ["method", "route", "status"], registry=own)
        self.seconds = Histogram(
            "termweave_request_seconds", "Time to answer", ["route"], buckets=_SECONDS, registry=own
        )
        self.characters = Counter("termweave_characters", "Characters of source text translated", registry=own)
        self.vanished = Counter("termweave_vanished_clients", "Clients that left before their answer", registry=own)
        self.batches = Counter("termweave_batches", "Batches translated", registry=own)
        self.sentences = Counter("termweave_sentences", "Sentences translated", registry=own)
        self.tokens = Counter("termweave_tokens", "Source subwords translated", registry=own)
        self.decoding = Counter("termweave_decoding_seconds", "Time spent on translating", registry=own)

    def watch(self, batcher: Batcher) -> None:
        waiting = Gauge("termweave_queued_requests", "Requests that wait", registry=self.registry)
        waiting.set_function(lambda: batcher.queued_requests)
        tokens = Gauge("termweave_queued_tokens", "Source subwords that wait", registry=self.registry)
        tokens.set_function(lambda: batcher.queued_tokens)

    def count_batch(self, report: BatchReport) -> None:
        self.batches.inc()
        self.sentences.inc(report.sentences)
        self.tokens.inc(report.tokens)
        self.decoding.inc(report.seconds)


class Observed:
    """Around the whole application: counts and logs every request, and turns what nobody foresaw into a 500."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Callable[[Scope], Iterator[APIRoute]]) -> None:
        """routes: those of a request, for what is refused before it gets to one, such as a body too large."""
        self._app = app
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        identifier = uuid.uuid4().hex[:16]
        scope["state"] = {"request_id": identifier}
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", identifier.encode())]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            log_unforeseen(error, identifier)
            if status:  # too late for another answer: the connection ends, which the client notices
                raise ConnectionAbortedError("the answer was cut off") from None
            problem = Problem(500, "Internal error", f"The log of the server has more under {identifier}.")
            await JSONResponse(problem.body, problem.status)(scope, receive, watched)
        finally:
            self._note(scope, status, time.monotonic() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route") or next(self._routes(scope), None), "path", "unknown")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        state = scope["state"]
        fields = {key: state[key] for key in ("request_id", "key", "characters", "texts") if key in state}
        log.info(
            "request",
            extra={
                "fields": {
                    **fields,
                    "method": method,
                    "route": route,
                    "status": status,
                    "milliseconds": round(seconds * 1000, 1),
                }
            },
        )


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class BodyLimit:
    """Refuses bodies that are too large, whether their size is announced or not, and those that do not arrive."""

    def __init__(self, app: ASGIApp, most: int, most_of_files: int, seconds: float) -> None:
        self._app = app
        self._most = most
        self._most_of_files = most_of_files
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        most = self._most_of_files if _brings_a_file(scope["path"]) else self._most
        if headers.get(b"content-encoding", b"identity") != b"identity":
            problem = Problem(415, "Content-Encoding not supported", "send the body as it is")
            await JSONResponse(problem.body, problem.status)(scope, receive, send)
            return
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # A proxy may go by the one and we by the other: what follows could be another's request.
            problem = Problem(400, "The length of the request is told twice", "send Content-Length or chunks, not both")
            await JSONResponse(problem.body, problem.status, {"Connection": "close"})(scope, receive, send)
            return
        too_large = Problem(413, "The request is too large", f"at most {most:,} bytes are taken")
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > most:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await _discard(receive)
            await JSONResponse(too_large.body, 413, {"Connection": "close"})(scope, receive, send)
            return
        await self._app(scope, self._limited(receive, too_large, most), send)

    def _limited(self, receive: Receive, too_large: Problem, most: int) -> Receive:
        size, whole = 0, False
        deadline = asyncio.get_running_loop().time() + self._seconds

        async def limited() -> Message:
            nonlocal size, whole
            try:
                async with asyncio.timeout_at(None if whole else deadline):
                    message = await receive()
            except TimeoutError:
                within = f"send it within {self._seconds:g} seconds"
                raise Problem(408, "The body did not arrive", within) from None
            size += len(message.get("body", b""))
            whole = whole or not message.get("more_body", False)
            if size > most:
                raise too_large
            return message

        return limited


_DOCUMENTS = ("/v1/documents", "/v2/document", "/translate_file")
_GLOSSARY_FILES = ("/v1/lint", "/v1/terms", "/v1/convert")  # besides those that store them, which are many


def _brings_a_file(path: str) -> bool:
    return "/glossaries" in path or path in _DOCUMENTS or path in _GLOSSARY_FILES


async def _discard(receive: Receive) -> None:
    size = 0
    while size < _DISCARDED:
        message = await receive()
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return


def log_unforeseen(error: BaseException, request_id: str) -> None:
    places = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    fields = {"request_id": request_id, "kind": type(error).__name__, "places": places[-12:]}
    log.error("unforeseen error", extra={"fields": fields})


class JsonLines(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["kind"] = record.exc_info[0].__name__
        return json.dumps(line, ensure_ascii=False)


def log_as_json() -> None:
    """Everything the server says goes to standard error, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("termweave.server", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(logging.INFO)
