"""A whole corpus: find the shards, see what is done, have the rest done, join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from termweave.errors import ConfigError, DataError
from termweave.progress import progress_bar, track
from termweave.shards.inputs import find_shards
from termweave.shards.ledger import FOLDER, Ledger
from termweave.shards.work import Engine, Settings, Tally
from termweave.storage import locked

ROWS = 1000  # of a chunk


@dataclass(frozen=True)
class ShardReport:
    """One shard that is finished now."""

    output: Path
    tally: Tally


@dataclass(frozen=True)
class Report:
    """What a job has done."""

    shards: int
    before: int  # of them, those that an earlier run had finished
    resumed: int  # sentences that an earlier run had translated
    tally: Tally  # over all, earlier runs included


def translate_shards(
    inputs: Sequence[Path],
    output: Path,
    settings: Settings,
    engine: Engine,
    *,
    rows: int = ROWS,
    receipts: Path | None = None,
    told: Callable[[ShardReport], None] = lambda report: None,
) -> Report:
    """Translate files into files of the same names. The same call goes on with what an interrupted one has left.

    inputs: files, folders or patterns. rows: of a chunk, which is what an interruption costs each worker at most.
    receipts: a folder for those of each shard. told: called with every shard as it is finished.
    """
    shards = find_shards(inputs, output, settings.pairs)
    if settings.column is not None and all(shard.kind == "txt" for shard in shards):
        raise ConfigError("--column has no effect here: all of these files are text, a sentence a line")
    with locked(output / FOLDER, "termweave translate --shards"):
        key = settings.key()
        ledgers = {
            shard.name: Ledger(shard, output, receipts, settings, key, rows)
            for shard in track(shards, "reading", len(shards))
        }
        before = sum(ledger.is_finished for ledger in ledgers.values())
        resumed = sum(ledger.tally.sentences for ledger in ledgers.values())

        def finish(ledger: Ledger) -> None:
            ledger.finish()
            told(ShardReport(ledger.output, ledger.tally))

        for ledger in ledgers.values():  # those that lack nothing but the joining
            if not ledger.is_finished and not ledger.missing:
                finish(ledger)
        _translate_missing(list(ledgers.values()), settings, engine, resumed, finish)
    total = Tally()
    for ledger in ledgers.values():
        total.add(ledger.tally)
    return Report(len(ledgers), before, resumed, total)


def _translate_missing(
    ledgers: Sequence[Ledger], settings: Settings, engine: Engine, resumed: int, finish: Callable[[Ledger], None]
) -> None:
    chunks = [chunk for ledger in ledgers for chunk in ledger.chunks if chunk.number in ledger.missing]
    if not chunks:
        return
    owners = {ledger.shard.name: ledger for ledger in ledgers}
    total = resumed + sum(chunk.rows for chunk in chunks)
    with progress_bar("translating", total, done=resumed, unit="sentences") as advance:
        results = engine(settings, chunks)
        try:
            for done in results:
                if done.error:
                    raise DataError(f"{done.error}. What is done is kept; the same command goes on from there")
                advance(done.chunk.rows)
                ledger = owners[done.chunk.shard]
                ledger.note(done.chunk)
                if not ledger.missing:
                    finish(ledger)
        finally:
            results.close()  # now, not when it happens to be collected: workers end with it
