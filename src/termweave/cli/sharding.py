"""`translate --shards`: the options that only it has, and the way from them to a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from termweave.cli.application import told_if_interrupted, warn
from termweave.errors import ConfigError

if TYPE_CHECKING:
    from termweave.decoding.requests import Wanted
    from termweave.shards import Report, ShardReport
    from termweave.shards.work import Engine, Tally

Shards = Annotated[
    bool,
    typer.Option(
        "--shards",
        help="Files, folders and patterns of a corpus, a sentence a line (also .gz .xz .zst, .jsonl, .parquet), "
        "into the folder --output, in parallel; goes on where it was interrupted.",
    ),
]
Pairs = Annotated[bool, typer.Option("--pairs", help="--shards: write source and translation, a tab between.")]
Workers = Annotated[
    int, typer.Option(min=0, help="--shards: processes, or actors of Ray; default: one a GPU, or one a core up to 8.")
]
EngineName = Annotated[
    Literal["processes", "ray"], typer.Option("--engine", help="--shards: this machine, or a cluster of Ray.")
]
ChunkLines = Annotated[
    int, typer.Option(min=1, help="--shards: sentences handed out at once; what an interruption costs a worker.")
]
RayAddress = Annotated[
    str | None, typer.Option(help="--engine ray: the cluster; default: RAY_ADDRESS, or one on this machine alone.")
]
RayCpus = Annotated[float, typer.Option(min=0, help="--engine ray: cores of an actor.")]
RayGpus = Annotated[
    float | None,
    typer.Option(min=0, help="--engine ray: GPUs of an actor, such as 0.5; default: 1 if there are any."),
]


@dataclass(frozen=True)
class Corpus:
    """What is to be translated, and what is to be written."""

    inputs: list[Path]
    output: Path | None
    receipts: Path | None
    column: str | None
    pairs: bool
    chunk_lines: int


def make_engine(name: str, workers: int, address: str | None, cpus: float, gpus: float | None) -> Engine:
    if name == "ray":
        from termweave.shards.ray_engine import RayData

        return RayData(workers, address, cpus, gpus)
    from termweave.shards.processes import Processes

    return Processes(workers)


def translate_in_shards(
    corpus: Corpus,
    engine: Engine,
    wanted: Wanted,
    model: Path | None,
    direction: str | None,
    device: str,
    precision: str,
    **search: Any,
) -> None:
    from termweave.cli.text_work import term_remarks
    from termweave.model.checkpoint import load_settings, ready_model
    from termweave.shards import Settings, translate_shards

    output = _require_folders(corpus)
    folder = (ready_model() if model is None else model).resolve()
    load_settings(folder)  # what is no model is refused before anything is read
    writing = (corpus.column, corpus.pairs, corpus.receipts is not None)
    settings = Settings(folder, _absolute(wanted), direction, device, precision, search, *writing)
    start = time.monotonic()
    with told_if_interrupted(lambda: f"finished chunks are kept in {output}; the same command goes on from there"):
        report = translate_shards(
            corpus.inputs, output, settings, engine, rows=corpus.chunk_lines, receipts=corpus.receipts, told=_tell
        )
    typer.echo(_summary(report, time.monotonic() - start), err=True)
    for message in term_remarks(wanted, report.tally.statuses, report.tally.used):
        warn(message)


def _require_folders(corpus: Corpus) -> Path:
    """The folder to write to."""
    if not corpus.inputs:
        raise ConfigError("--shards: name files, folders or patterns to translate")
    if corpus.output is None or str(corpus.output) == "-":
        raise ConfigError("--shards: name the folder to write to with --output")
    for option, folder in (("--output", corpus.output), ("--receipts", corpus.receipts)):
        if folder is not None and (folder.is_file() or str(folder) == "-"):
            raise ConfigError(f"{option} {folder}: with --shards this is a folder, with a file for every shard")
    return corpus.output


def _absolute(wanted: Wanted) -> Wanted:
    """Workers may live in other folders."""
    return replace(wanted, glossaries=tuple(path.resolve() for path in wanted.glossaries))


def _tell(report: ShardReport) -> None:
    typer.echo(f"{report.output}: {', '.join(_counts(report.tally))}", err=True)


def _summary(report: Report, seconds: float) -> str:
    fresh = report.tally.sentences - report.resumed
    parts = [f"{report.shards:,} shard{'s' * (report.shards != 1)}", *_counts(report.tally)]
    if report.resumed:
        parts.append(f"{report.resumed:,} sentences from runs before")
    if fresh:
        parts.append(f"{fresh / seconds:,.1f} sentences/s")
    return ", ".join(parts)


def _counts(tally: Tally) -> Iterator[str]:
    from termweave.cli.text_work import STATUSES, counted

    yield f"{tally.sentences:,} sentence{'s' * (tally.sentences != 1)}"
    for status in STATUSES:
        if tally.statuses[status]:
            yield counted(tally.statuses[status], status)
