"""Batches side by side on a CPU: threads, each of which searches a batch of its own on one processor.

To share out the operations of one search among processors, they must meet after every one of them: some hundred times a
step, each time waiting for the slowest. Batches need nothing of each other.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

MOST = 8  # threads; with more processors, each gets several
FEWEST_TOKENS = 256  # of a batch that is worth a thread

Item = TypeVar("Item")
Result = TypeVar("Result")


def crew_size(device: torch.device) -> int:
    """How many batches are searched at once."""
    return min(torch.get_num_threads(), MOST) if device.type == "cpu" else 1


def share_of(batch_tokens: int, tokens: int, crew: int) -> int:
    """What a batch may hold so that all of a crew have work, and together no more than `batch_tokens`."""
    if crew == 1:
        return batch_tokens
    return min(batch_tokens, max(min(batch_tokens // crew, -(-tokens // crew)), FEWEST_TOKENS))


def by_crew(function: Callable[[Item], Result], items: Sequence[Item], crew: int) -> Iterator[Result]:
    """function of each item, in their order; by the calling thread alone where there is nothing to share."""
    if crew == 1 or len(items) < 2:
        yield from map(function, items)
        return
    futures = [_threads(crew, torch.get_num_threads() // crew).submit(function, item) for item in items]
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


@functools.lru_cache(maxsize=1)
def _threads(crew: int, processors: int) -> ThreadPoolExecutor:
    """So many threads, with so many processors each."""
    own, begun = torch.get_num_threads(), Barrier(crew + 1)

    def begin() -> None:
        torch.get_num_threads()  # the first look in a thread sets the number that was set last anywhere
        torch.set_num_threads(processors)
        begun.wait()

    pool = ThreadPoolExecutor(crew, "termweave", begin)
    for _ in range(crew):
        pool.submit(int)
    begun.wait()
    torch.set_num_threads(own)  # what threads set is what others begin with
    return pool


if hasattr(os, "register_at_fork"):  # threads stay behind in the parent
    os.register_at_fork(after_in_child=_threads.cache_clear)
