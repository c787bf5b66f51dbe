"""What a step costs: wall-clock time, processor time and peak memory, child processes included."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_INTERVAL = 0.1  # seconds between two looks at the memory
_PROCESSES = Path("/proc")


@dataclass
class Cost:
    """Filled in when the measured block ends."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0  # bytes resident in this process and its children together, at the worst moment


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure the block. Child processes count for processor time once they have ended."""
    cost = Cost()
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(cost, done), daemon=True)
    wall, cpu = time.perf_counter(), _cpu_seconds()
    watcher.start()
    try:
        yield cost
    finally:
        done.set()
        watcher.join()
        cost.wall_seconds = round(time.perf_counter() - wall, 3)
        cost.cpu_seconds = round(_cpu_seconds() - cpu, 3)


def _cpu_seconds() -> float:
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _watch(cost: Cost, done: threading.Event) -> None:
    """The highest sum seen: the kernel's own high-water marks are per process and never fall between steps."""
    while True:
        cost.peak_memory = max(cost.peak_memory, _resident_bytes())
        if done.wait(_INTERVAL):
            return


def _resident_bytes() -> int:
    if not _PROCESSES.is_dir():  # not Linux: the high-water mark of this process must do
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = _PROCESSES / str(waiting.pop())
        try:
            total += int((process / "statm").read_text().split()[1]) * resource.getpagesize()
            for task in (process / "task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, IndexError, ValueError):
            continue  # it ended while we looked
    return total
