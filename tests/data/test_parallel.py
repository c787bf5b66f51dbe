"""Order, bounds and failures of work spread over processes; and what work costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from termweave.data.measure import measured
from termweave.data.parallel import chunked, ordered_map, worker_count
from termweave.errors import DataError


def square(number: int) -> int:
    if number == 13:
        raise DataError("thirteen")
    if number == 99:
        os._exit(1)
    return number * number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_items_are_drawn_as_needed(workers: int) -> None:
    drawn = []

    def items() -> Iterator[int]:
        for number in range(100, 140):
            drawn.append(number)
            yield number

    results = ordered_map(square, items(), workers)
    assert next(results) == 100 * 100
    assert len(drawn) < 10, "memory must not grow with the input"
    assert list(results) == [number * number for number in range(101, 140)]


@pytest.mark.parametrize(("items", "message"), [([1, 13, 2], "thirteen"), ([1, 99, 2], "died.*lower data.workers")])
def test_failures_reach_the_caller(items: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(ordered_map(square, items, workers=2))


ABANDONED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from test_parallel import process_id
from termweave.data.parallel import ordered_map

if __name__ == "__main__":
    results = ordered_map(process_id, range(100), workers=2)
    print(next(results), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def process_id(_: int) -> int:
    return os.getpid()


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "abandoned.py"
    script.write_text(ABANDONED, encoding="utf-8")
    done = subprocess.run([sys.executable, script, Path(__file__).parent], check=False, stdout=subprocess.PIPE)
    worker = int(done.stdout)
    assert done.returncode == -signal.SIGKILL
    for _ in range(200):
        if not _is_running(worker):
            return
        time.sleep(0.05)
    pytest.fail("the worker outlived its parent")


def _is_running(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_chunks() -> None:
    assert list(chunked(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(chunked([], 2)) == []


def test_worker_count() -> None:
    assert worker_count(3) == 3
    assert worker_count(0) >= 1


def test_cost_is_measured() -> None:
    with measured() as cost:
        data = bytearray(50_000_000)
        data[::4096] = b"x" * len(data[::4096])
        sum(range(200_000))
    assert cost.wall_seconds > 0
    assert cost.cpu_seconds > 0
    assert cost.peak_memory > 50_000_000
