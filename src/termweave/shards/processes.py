"""The engine of one machine: a process a worker, each with its own model, its share of the threads or its own GPU.

Processes are spawned, and told one chunk at a time. One that dies is replaced and its chunk tried once more; a chunk
that kills two is given up, and with it the run: what is done stays done.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from termweave.data.parallel import end_with_parent, worker_count
from termweave.errors import ConfigError, DataError
from termweave.shards.work import ATTEMPTS, Chunk, ChunkWorker, Done, Settings, in_short

MOST_BY_DEFAULT = 8  # processes on a CPU: each holds the model

_CONTEXT = multiprocessing.get_context("spawn")


class Processes:
    """workers: 0 means one a GPU, or one a core, but no more than eight."""

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers

    def __call__(self, settings: Settings, chunks: Sequence[Chunk]) -> Generator[Done, None, None]:
        devices = visible_gpus(settings.device)
        cores = worker_count(0)
        workers = min(self.workers or len(devices) or min(cores, MOST_BY_DEFAULT), len(chunks))
        shared = [devices[index % len(devices)] if devices else None for index in range(workers)]
        environments = [_environment(device, cores // workers) for device in shared]
        waiting = deque((chunk, 1) for chunk in chunks)
        with _ended([_Worker(settings, environment) for environment in environments]) as crew:
            for worker in crew:
                worker.give(*waiting.popleft())
            while busy := {worker.answers: worker for worker in crew if worker.chunk is not None}:
                for ready in multiprocessing.connection.wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    done = worker.take()
                    if done is None:
                        worker.give(*worker.again())
                        continue
                    if waiting and not done.error:
                        worker.give(*waiting.popleft())
                    yield done


class _Worker:
    """A process, as its parent sees it."""

    def __init__(self, settings: Settings, environment: dict[str, str]) -> None:
        self._settings, self._environment = settings, environment
        self.chunk: Chunk | None = None
        self._attempt = 0
        self._reason = self._remedy = ""
        self._start()

    def _start(self) -> None:
        self.answers, theirs = _CONTEXT.Pipe()
        self._process: BaseProcess = _CONTEXT.Process(target=_work, args=(theirs, self._settings), daemon=True)
        with _environment_of(self._environment):  # torch reads it once, while the process starts
            self._process.start()
        theirs.close()  # so that its end is noticed here

    def give(self, chunk: Chunk, attempt: int) -> None:
        self.chunk, self._attempt = chunk, attempt
        with suppress(OSError):  # it died while it had nothing to do; that is noticed when its answer is read
            self.answers.send(chunk)

    def take(self) -> Done | None:
        """What became of the chunk; None if the process is gone, or was left in no state to go on."""
        try:
            answer: Done | str = self.answers.recv()
        except (EOFError, OSError):
            self._process.join()
            self._reason = f"its process ended with code {self._process.exitcode}, perhaps for want of memory"
            self._remedy = "with less memory in use (--workers, --batch-tokens)"
            return None
        if isinstance(answer, str):
            self._reason, self._remedy = answer, "when that is mended,"
            return None
        self.chunk = None
        return answer

    def again(self) -> tuple[Chunk, int]:
        """A new process; the chunk it is to try once more."""
        assert self.chunk is not None
        if self._attempt >= ATTEMPTS:
            raise DataError(
                f"{self.chunk.lines}: two workers failed on these lines ({self._reason}); {self._remedy} "
                "the same command goes on from there"
            )
        self.end()
        self._start()
        return self.chunk, self._attempt + 1

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.answers.close()


@contextmanager
def _ended(crew: list[_Worker]) -> Iterator[list[_Worker]]:
    try:
        yield crew
    finally:
        for worker in crew:
            worker.end()


def _work(parent: Connection, settings: Settings) -> None:
    """The life of a process. Ctrl-C is its parent's affair, who ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    worker = ChunkWorker(settings)
    while True:
        try:
            chunk = parent.recv()
        except EOFError:
            return
        try:
            parent.send(worker(chunk))
        except Exception as error:
            parent.send(in_short(error))


@contextmanager
def _environment_of(changes: dict[str, str]) -> Iterator[None]:
    before = os.environ.copy()
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in changes:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _environment(device: str | None, threads: int) -> dict[str, str]:
    """Whoever has chosen a number of threads means that of a process."""
    environment = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(max(threads, 1))}
    return environment if device is None else environment | {"CUDA_VISIBLE_DEVICES": device}


def visible_gpus(device: str) -> list[str]:
    """The GPUs to share out, as CUDA_VISIBLE_DEVICES names them; none if the device is the CPU or one GPU by name."""
    if device not in ("auto", "cuda"):
        return []
    import torch

    count = torch.cuda.device_count()
    if not count and device == "cuda":
        raise ConfigError("no CUDA device was found; use --device cpu, or install a CUDA build of torch")
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return (named or [str(index) for index in range(count)])[:count]
