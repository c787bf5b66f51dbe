"""Text files in, a Pharaoh file out: what the command `termweave align` does."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal

from termweave.alignment.aligner import align_words
from termweave.alignment.eflomal import align_with_eflomal
from termweave.alignment.error_rate import AlignmentErrorRate, alignment_error_rate
from termweave.alignment.links import LINK, GoldLinks
from termweave.alignment.pharaoh import read_pharaoh, write_pharaoh
from termweave.alignment.textfile import text_lines
from termweave.alignment.words import WordIds, identical_words
from termweave.errors import DataError
from termweave.progress import Advance
from termweave.storage import RaggedArray

AlignmentMethod = Literal["builtin", "eflomal"]

_BATCH = 20_000


@dataclass(frozen=True)
class GoldFiles:
    """Sentence pairs with hand-made links. They are aligned together with the text, and the result is compared."""

    source: Path
    target: Path
    links: Path
    one_based: bool = False  # the links count words from 1


@dataclass(frozen=True)
class AlignmentReport:
    """What `align_files` did."""

    method: str
    sentences: int  # sentence pairs of the text, gold pairs not counted
    source_words: int  # different words, letter case apart
    target_words: int
    links: int  # links written
    wall_seconds: float
    cpu_seconds: float  # of this process; eflomal's own program is not in it
    error_rate: AlignmentErrorRate | None  # against the gold links, if there are any


def align_files(
    source_path: Path,
    target_path: Path,
    output_path: Path,
    *,
    method: AlignmentMethod = "builtin",
    gold: GoldFiles | None = None,
    threads: int = 0,
    advance: Advance | None = None,
) -> AlignmentReport:
    """Align two files line by line and write the links of the text as a Pharaoh file.

    Words are what stands between white space; letter case does not matter. Files may be plain, .gz or .xz.
    `advance` is called ALIGN_STEPS times.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    align = align_with_eflomal if method == "eflomal" else align_words
    output_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output_path.parent, prefix=".align.") as name:
        folder = Path(name)
        with WordIds(folder / "source") as source, WordIds(folder / "target") as target:
            sentences = _add_text(source_path, target_path, source, target)
            if gold:
                _add_text(gold.source, gold.target, source, target)
        sides = source.open(), target.open()
        truth = _read_gold(gold, *sides, sentences) if gold else None
        align(
            *sides,
            folder / "links",
            source_words=source.size,
            target_words=target.size,
            identical=identical_words(source, target),
            threads=threads,
            advance=advance,
        )
        links = RaggedArray.open(folder / "links", LINK)
        write_pharaoh(output_path, links, last=sentences)
        return AlignmentReport(
            method=method,
            sentences=sentences,
            source_words=source.size,
            target_words=target.size,
            links=int(links.offsets[sentences]),
            wall_seconds=time.perf_counter() - wall,
            cpu_seconds=time.process_time() - cpu,
            error_rate=alignment_error_rate(truth, _rows_from(links, sentences)) if truth is not None else None,
        )


def _add_text(source_path: Path, target_path: Path, source: WordIds, target: WordIds) -> int:
    """Append two files to the word ids; returns the number of lines."""
    total = 0
    pairs = zip_longest(text_lines(source_path), text_lines(target_path))
    while batch := list(islice(pairs, _BATCH)):
        if None in batch[-1]:
            shorter = source_path if batch[-1][0] is None else target_path
            raise DataError(f"{source_path} and {target_path} differ in length: {shorter} has fewer lines")
        source.extend([line.split() for line, _ in batch])
        target.extend([line.split() for _, line in batch])
        total += len(batch)
    return total


def _read_gold(gold: GoldFiles, source: RaggedArray, target: RaggedArray, first: int) -> list[GoldLinks]:
    lengths = {"source_lengths": source.lengths[first:], "target_lengths": target.lengths[first:]}
    return read_pharaoh(gold.links, one_based=gold.one_based, **lengths)


def _rows_from(links: RaggedArray, first: int) -> list[list[tuple[int, int]]]:
    return [links[row].tolist() for row in range(first, len(links))]
