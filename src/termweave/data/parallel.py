"""Work spread over processes: results in order, and never more in flight than a few pieces per process."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from termweave.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")

_IN_FLIGHT = 3  # pieces per process that are being worked on or wait for their turn


def worker_count(asked: int) -> int:
    """As many processes as asked for; 0 means one for each core this process may use."""
    if asked > 0:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map` over processes. Items are drawn only as results are taken, so memory stays bounded.

    Processes are spawned, not forked: a fork while another thread holds a lock would hang. With one worker everything
    stays in this process.
    """
    if workers <= 1:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= _IN_FLIGHT * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise DataError("a worker process died, probably for want of memory; lower data.workers") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """No search for reference cycles: there are none, and looking for them takes half the time of text processing."""
    gc.disable()
    end_with_parent()


def end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever; a thread that waits for that end prevents it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def chunked(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
