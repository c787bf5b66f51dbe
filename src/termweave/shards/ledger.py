"""What is done of a shard, kept in the folder `.shards` of the output, so that no chunk is translated twice.

.shards/NAME/shard.json          key and size of the shard, its pieces; once it is finished, its tally instead
.shards/NAME/00000007.rows       what became of a chunk, as it will stand in the output
.shards/NAME/00000007.receipts   its receipts, if asked for
.shards/NAME/00000007.json       its tally, written last: where this is, the chunk is done
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from termweave.errors import DataError
from termweave.shards.formats import Piece, shard_format
from termweave.shards.inputs import Shard
from termweave.shards.work import ATTEMPTED, Chunk, Settings, Tally
from termweave.storage import atomic_path, read_json, remove, remove_stale, write_json, write_text

FOLDER = ".shards"
_RECORD = "shard.json"


class Ledger:
    """One shard of a job."""

    def __init__(
        self, shard: Shard, output: Path, receipts: Path | None, settings: Settings, key: str, rows: int
    ) -> None:
        self.shard, self.output = shard, output / shard.name
        self._receipts = None if receipts is None else receipts / f"{shard.name}.jsonl"
        self.folder = output / FOLDER / shard.name
        self._settings = settings
        stat = shard.source.stat()
        # Time and size stand for the content, as in make: reading a corpus anew for every start would take long.
        self._identity = {"key": key, "rows": rows, "size": stat.st_size, "time": stat.st_mtime_ns}
        self.tally = Tally()
        self.chunks: list[Chunk] = []
        self.missing: set[int] = set()  # numbers of chunks
        record = self._known() or self._begin(rows)
        self.is_finished = "tally" in record
        if self.is_finished:
            self.tally = Tally.from_json(record["tally"])
        else:
            self._take_stock(record["pieces"])

    def _begin(self, rows: int) -> dict[str, Any]:
        remove(self.folder)
        form = shard_format(self.shard, self._settings.column, self._settings.pairs)
        record = {**self._identity, "pieces": list(form.pieces(rows))}
        write_text(self.folder / _RECORD, json.dumps(record))  # without indentation: there may be many pieces
        return record

    def _take_stock(self, pieces: list[list[int]]) -> None:
        names = self.shard.name, str(self.shard.source), str(self.folder.resolve())
        self.chunks = [Chunk(*names, number, *Piece(*piece)) for number, piece in enumerate(pieces)]
        for note in self.folder.glob(f"*.{ATTEMPTED}"):  # of another run
            note.unlink()
        there = {path.name for path in self.folder.iterdir()}
        self.missing = {chunk.number for chunk in self.chunks if chunk.file("json").name not in there}
        for chunk in self.chunks:
            if chunk.number not in self.missing:
                self._count(chunk)

    def _known(self) -> dict[str, Any] | None:
        """What an earlier run has left, if it was the same job; what is finished must also still stand there."""
        try:
            record: Any = read_json(self.folder / _RECORD)
        except DataError:
            return None
        if not isinstance(record, dict) or any(record.get(name) != value for name, value in self._identity.items()):
            return None
        stands = self.output.is_file() and (self._receipts is None or self._receipts.is_file())
        return record if "pieces" in record or stands else None

    def note(self, chunk: Chunk) -> None:
        """A chunk is done."""
        self.missing.discard(chunk.number)
        self._count(chunk)

    def _count(self, chunk: Chunk) -> None:
        self.tally.add(Tally.from_json(read_json(chunk.file("json"))))

    def finish(self) -> None:
        """Join the chunks in order, forget them, and remember that the shard is done."""
        form = shard_format(self.shard, self._settings.column, self._settings.pairs)
        remove_stale(self.output)
        with atomic_path(self.output) as path:
            form.join(self._parts("rows"), path)
        if self._receipts is not None:
            remove_stale(self._receipts)
            with atomic_path(self._receipts) as path, path.open("wb") as file:
                for part in self._parts("receipts"):
                    file.write(part.read_bytes())
        write_json(self.folder / _RECORD, {**self._identity, "tally": self.tally.to_json()})
        self.is_finished = True
        for path in self.folder.iterdir():
            if path.is_file() and path.name != _RECORD:  # folders are those of shards further down
                remove(path)

    def _parts(self, kind: str) -> Iterator[Path]:
        return (chunk.file(kind) for chunk in self.chunks)
