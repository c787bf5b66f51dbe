"""A chunk at work: read, translated, written. Any process on any machine that sees the files can do it."""

from __future__ import annotations

import hashlib
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from termweave.accelerators import prepare_process
from termweave.decoding.confidence import with_probabilities
from termweave.decoding.places import line_places, named_places
from termweave.decoding.requests import Wanted, chosen_direction, receipt_record, shortened
from termweave.decoding.tagged import bare, put_back, taken_out
from termweave.decoding.translator import Translation, Translator
from termweave.errors import TermweaveError
from termweave.shards.formats import Piece, ShardFormat, shard_format
from termweave.shards.inputs import Shard
from termweave.storage import atomic_path, folder_state, write_json

ATTEMPTS = 2  # at a chunk
ATTEMPTED = "attempts"  # a file that says how many there were in this run, for engines that cannot keep it in mind
_FORMAT = 3  # of what is written into `.shards`


@dataclass(frozen=True)
class Settings:
    """How every chunk is translated and written."""

    model: Path
    wanted: Wanted
    direction: str | None = None
    device: str = "auto"
    precision: str = "auto"
    search: dict[str, Any] = field(default_factory=dict)  # options of `Translator.translate`
    column: str | None = None
    pairs: bool = False
    receipts: bool = False

    def key(self) -> str:
        """Two runs with the same key write the same; the device is not part of it, so that another one can go on."""
        files = folder_state(self.model)
        glossaries = [hashlib.sha256(path.read_bytes()).hexdigest() for path in self.wanted.glossaries]
        settings = replace(self, device="", search=dict(sorted(self.search.items())))
        return hashlib.sha256(repr((_FORMAT, settings, files, glossaries)).encode()).hexdigest()


@dataclass(frozen=True)
class Chunk:
    """Some rows of a shard, and the folder that takes what becomes of them. Small: engines hand these out."""

    shard: str
    source: str
    folder: str
    number: int
    first: int
    rows: int
    start: int

    @property
    def lines(self) -> str:
        return f"{self.source}, lines {self.first + 1} to {self.first + self.rows}"

    def file(self, kind: str) -> Path:
        """rows: what was written; receipts; json: the tally, written last, so that where it is the rest is too."""
        return Path(self.folder) / f"{self.number:08d}.{kind}"


@dataclass
class Tally:
    """What was translated, and what became of the terms in it."""

    sentences: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    used: set[str] = field(default_factory=set)  # single terms that occurred, and glossary files of which something did

    def add(self, other: Tally) -> None:
        self.sentences += other.sentences
        self.statuses += other.statuses
        self.used |= other.used

    def to_json(self) -> dict[str, Any]:
        return {"sentences": self.sentences, "statuses": dict(self.statuses), "used": sorted(self.used)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Tally:
        return cls(int(record["sentences"]), Counter(record["statuses"]), set(record["used"]))


@dataclass(frozen=True)
class Done:
    """A chunk that an engine is through with: the tally stands in its folder, or this says what went wrong."""

    chunk: Chunk
    error: str = ""

    def to_row(self) -> dict[str, Any]:
        return asdict(self.chunk) | {"error": self.error}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Done:
        error = str(row["error"])
        return cls(chunk_of_row({name: value for name, value in row.items() if name != "error"}), error)


def chunk_of_row(row: dict[str, Any]) -> Chunk:
    """A chunk from a row of a table, whose numbers may be those of another library."""
    kinds: dict[str, type] = dict.fromkeys(("shard", "source", "folder"), str)
    kinds |= dict.fromkeys(("number", "first", "rows", "start"), int)
    return Chunk(**{name: kind(row[name]) for name, kind in kinds.items()})


def in_short(error: Exception) -> str:
    """The first line of what an error says that is no user's fault."""
    return traceback.format_exception_only(error)[0].partition("\n")[0]


Engine = Callable[[Settings, Sequence[Chunk]], Generator[Done, None, None]]
"""Has chunks done, in any order, and says of each when it is."""


class ChunkWorker:
    """Does chunks one after the other. The model is loaded with the first one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._translator: Translator | None = None
        self._shard: tuple[str, ShardFormat] | None = None

    def __call__(self, chunk: Chunk) -> Done:
        """Mistakes a user can mend are told; whatever else is raised is no fault of the chunk's text."""
        try:
            self._do(chunk)
        except TermweaveError as error:
            return Done(chunk, str(error))
        return Done(chunk)

    def _do(self, chunk: Chunk) -> None:
        shard = self._format(chunk)
        rows, sentences = shard.read(Piece(chunk.first, chunk.rows, chunk.start))
        parts = self._translate(sentences, chunk)
        texts = [""] * len(sentences)
        for part in parts:
            texts[part.row] = f"{texts[part.row]} {part.result.text}" if texts[part.row] else part.result.text
        with atomic_path(chunk.file("rows")) as path:
            shard.write(rows, texts, path)
        if self.settings.receipts:
            records = [part.receipts(chunk.first + 1) for part in parts if part.result.receipts]
            with atomic_path(chunk.file("receipts")) as path:
                path.write_text("".join(record + "\n" for record in records), encoding="utf-8", newline="\n")
        write_json(chunk.file("json"), self._tally(len(sentences), parts).to_json())

    def _format(self, chunk: Chunk) -> ShardFormat:
        """Kept from chunk to chunk, for a file that is open need not be read from its beginning again."""
        if self._shard is None or self._shard[0] != chunk.source:
            shard = Shard(Path(chunk.source), chunk.shard)
            self._shard = (chunk.source, shard_format(shard, self.settings.column, self.settings.pairs))
        return self._shard[1]

    def _load(self) -> Translator:
        settings = self.settings
        prepare_process()
        translator = Translator.load(settings.model, settings.device, settings.precision)
        self._direction = chosen_direction(settings.direction, translator)
        self._terms = settings.wanted.read(self._direction)
        return translator

    def _translate(self, sentences: Sequence[str], chunk: Chunk) -> list[_Part]:
        """Sentences that are too long for the model are translated in pieces."""
        translator = self._translator = self._translator or self._load()
        terms = self._terms.terminology
        asked = [(row, piece) for row, sentence in enumerate(sentences) for piece in shortened(sentence, terms)]
        tagged = taken_out([piece for _, piece in asked]) if self.settings.wanted.protect else [None] * len(asked)
        texts = bare([piece for _, piece in asked], tagged)
        direction = self._direction if len(translator.directions) > 1 else None
        line = line_places(chunk.source, chunk.first + 1)
        with named_places(lambda index: line(asked[index][0])):
            results = translator.translate(texts, direction=direction, terminology=terms, **self.settings.search)
        if self.settings.receipts:
            results = with_probabilities(translator, texts, results, None, direction=direction)
        results = put_back(translator, tagged, results, self._direction)
        return [_Part(row, piece, result) for (row, piece), result in zip(asked, results, strict=True)]

    def _tally(self, sentences: int, parts: Sequence[_Part]) -> Tally:
        receipts = [receipt for part in parts for receipt in part.result.receipts]
        statuses = Counter[str](receipt.status for receipt in receipts)
        return Tally(sentences, statuses, self._terms.used(receipts) & self.settings.wanted.names())


@dataclass(frozen=True)
class _Part:
    """A sentence, or a piece of one that is too long, with its translation."""

    row: int  # in its chunk
    source: str
    result: Translation

    def receipts(self, first_line: int) -> str:
        return receipt_record(self.source, self.result, line=first_line + self.row)
