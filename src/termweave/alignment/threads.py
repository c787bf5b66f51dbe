"""How many threads to use."""

from __future__ import annotations

import os

from termweave.errors import ConfigError


def thread_count(threads: int) -> int:
    """`threads` as asked for; 0 means one per core this process may use."""
    if threads < 0:
        raise ConfigError(f"threads: {threads} is not possible; give 0 for one per core, or a positive number")
    if threads:
        return threads
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
