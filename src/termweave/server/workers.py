"""Threads for what would hold up the event loop, apart by what it is: heavy work must not keep short work waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from termweave.server.problems import Problem
from termweave.server.settings import Limits

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_AGAIN = 5  # seconds after which one who was refused may try again


class Workers:
    """`await workers.short(function, …)`, and the same for the other kinds."""

    def __init__(self, limits: Limits) -> None:
        self.keys = Pool("keys", 4)  # looked up with every request
        self.short = Pool("short", 8)  # what translating needs: splitting, finding terms, reading the store
        self.documents = Pool("documents", 4)  # taken, found and fetched, not translated
        # Two, so that a small glossary does not wait for a large one. More would only take turns.
        self.glossaries = Pool("glossaries", 2, limits.waiting_glossaries)  # read, checked, written, stored
        self.inspecting = Pool("inspecting", 1, limits.waiting_inspections)  # the model does one at a time anyway

    def close(self) -> None:
        """Finishes what was accepted."""
        for pool in (self.keys, self.short, self.documents, self.glossaries, self.inspecting):
            pool.close()


class Pool:
    """So many threads. most_waiting: beyond that, the answer is 503 at once; None: as many as come."""

    def __init__(self, name: str, threads: int, most_waiting: int | None = None) -> None:
        self._threads = ThreadPoolExecutor(threads, f"termweave-{name}")
        self._places = None if most_waiting is None else threading.Semaphore(threads + most_waiting)

    async def __call__(
        self, work: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        if self._places is not None and not self._places.acquire(blocking=False):
            raise Problem(
                503, "The server is overloaded", "Too many such requests are waiting; try again later.", _AGAIN
            )
        doing = self._threads.submit(work, *arguments, **named)
        doing.add_done_callback(self._leave)  # not when the caller stops waiting: a thread may be busy for longer
        return await asyncio.wrap_future(doing)

    def close(self) -> None:
        self._threads.shutdown()

    def _leave(self, _: Future[Result]) -> None:
        if self._places is not None:
            self._places.release()
