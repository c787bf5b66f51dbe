"""The engine of a cluster: Ray Data hands chunks to a pool of actors, each of which holds the model.

What travels through Ray is only which chunk is meant, and that it is done. Text is read and written by the actors, so
all machines must see the same files under the same paths, and have this version of Termweave.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from termweave.errors import ConfigError, DataError
from termweave.shards.work import ATTEMPTED, ATTEMPTS, Chunk, ChunkWorker, Done, Settings, chunk_of_row, in_short

MOST_BLOCKS = 10_000  # Ray keeps books on each


@dataclass(frozen=True)
class RayData:
    """workers: actors; 0 means one for each GPU of the cluster, or for so many of its cores as an actor takes.

    gpus: of an actor, may be a part of one; None means 1 where the cluster has any and the device allows it.
    """

    workers: int = 0
    address: str | None = None
    cpus: float = 1
    gpus: float | None = None

    def __call__(self, settings: Settings, chunks: Sequence[Chunk]) -> Generator[Done, None, None]:
        try:
            import ray
            import ray.data
        except ImportError:
            raise ConfigError("--engine ray needs Ray: pip install 'termweave[ray]'") from None
        with _connected(ray, self.address or os.environ.get("RAY_ADDRESS") or "local"):
            gpus, workers = self._sizes(ray.cluster_resources(), settings.device)
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = False  # there is one over all
            context.print_on_execution_start = False
            rows = ray.data.from_items(
                [asdict(chunk) for chunk in chunks], override_num_blocks=min(len(chunks), MOST_BLOCKS)
            )
            results = rows.map_batches(
                _Actor,
                fn_constructor_args=(settings,),
                batch_size=1,
                concurrency=min(workers, len(chunks)),
                num_cpus=self.cpus,
                num_gpus=gpus,
            )
            missing = {(chunk.shard, chunk.number): chunk for chunk in chunks}
            try:
                for row in results.iter_rows():
                    done = Done.from_row(row)
                    missing.pop((done.chunk.shard, done.chunk.number), None)
                    yield done
            except ray.exceptions.RayError as error:
                first, reason = next(iter(missing.values())), str(error).strip().splitlines()[-1]
                raise DataError(
                    f"Ray gave up with {len(missing)} chunks to do, the first of them {first.lines} ({reason}); "
                    "the same command goes on from there"
                ) from None

    def _sizes(self, resources: dict[str, float], device: str) -> tuple[float, int]:
        """GPUs of an actor, and the number of actors."""
        there = resources.get("GPU", 0)
        gpus = self.gpus
        if gpus is None:
            gpus = 1 if there and device != "cpu" else 0
        if gpus > there:
            raise ConfigError(f"the cluster has {there:g} GPUs, but an actor is to have {gpus:g}; see --ray-gpus")
        most = there / gpus if gpus else resources.get("CPU", 1) / self.cpus if self.cpus else 1
        if self.workers > most:
            raise ConfigError(
                f"the cluster has room for {int(most)} workers, not for {self.workers}: it has "
                f"{resources.get('CPU', 0):g} cores and {there:g} GPUs; see --workers, --ray-cpus, --ray-gpus"
            )
        return gpus, self.workers or max(int(most), 1)


class _Actor:
    """A `ChunkWorker` as Ray Data calls it: with columns of one row."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._worker = ChunkWorker(settings)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        done = self._tried(chunk_of_row({name: values[0] for name, values in batch.items()}))
        return {name: [value] for name, value in done.to_row().items()}

    def _tried(self, chunk: Chunk) -> Done:
        """Ray gives the chunk of an actor that died to another, for ever; a note beside the chunk puts an end to it."""
        note, reason = chunk.file(ATTEMPTED), "their processes ended, perhaps for want of memory"
        while (attempts := len(note.read_bytes()) if note.exists() else 0) < ATTEMPTS:
            note.write_bytes(b"." * (attempts + 1))
            try:
                done = self._worker(chunk)
            except Exception as error:
                reason = in_short(error)
                self._worker = ChunkWorker(self._settings)  # what failed may have left the old one in disorder
            else:
                note.unlink()
                return done
        return Done(chunk, f"{chunk.lines}: two workers failed on these lines ({reason})")


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """To a cluster, or to one of this machine alone that is started now; whoever is connected already stays so."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody unless someone wants it
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # remarks on how Ray Data uses Ray are not for our users
    try:
        # Only names of chunks go through the store of objects, so one of our own can be small.
        own = {"include_dashboard": False, "object_store_memory": 128 << 20} if address == "local" else {}
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"no Ray cluster answers at {address}: {error}; see --ray-address") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()
