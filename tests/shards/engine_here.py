"""An engine that does every chunk in this process."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from termweave.shards.work import Chunk, ChunkWorker, Done, Settings


class Here:
    """Does chunks one after the other, notes them, and is interrupted after some."""

    def __init__(self, until: int | None = None) -> None:
        self.until = until
        self.done: list[tuple[str, int]] = []

    def __call__(self, settings: Settings, chunks: Sequence[Chunk]) -> Generator[Done, None, None]:
        worker = ChunkWorker(settings)
        for chunk in chunks:
            if len(self.done) == self.until:
                raise KeyboardInterrupt
            done = worker(chunk)
            self.done.append((chunk.shard, chunk.number))
            yield done
