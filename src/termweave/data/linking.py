"""Word links of a pair folder: brought by the user, or computed by the aligner."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from termweave.alignment import ALIGN_STEPS, LINK, align_with_eflomal, align_words, store_pharaoh
from termweave.config import AlignmentConfig
from termweave.data.cleaning import RawPair
from termweave.data.folder import SIDES, WORD, PairFolder, ragged_files
from termweave.data.plan import PairPlan, PlannedCorpus
from termweave.data.readers import read_together
from termweave.errors import DataError
from termweave.progress import progress_bar
from termweave.storage import RaggedArray, RaggedWriter, remove

_MERGED_ROWS = 50_000  # rows written at a time


def read_linked_corpus(planned: PlannedCorpus, folder: PairFolder) -> Iterator[RawPair]:
    """Tokenised pairs with the links the user brought, turned into the order of languages of their folder."""
    corpus = planned.corpus
    folder.path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.path, prefix=".brought.") as name:
        links = store_pharaoh(Path(corpus.links), Path(name) / "links")
        count = 0
        for count, (source, target) in enumerate(read_together(Path(corpus.source), Path(corpus.target)), start=1):
            if count > len(links):
                break
            row: list[tuple[int, int]] = links[count - 1].tolist()
            _check_row(row, source, target, f"{corpus.links}, line {count}")
            if planned.swapped:
                yield RawPair(target, source, tuple(sorted((second, first) for first, second in row)), corpus.repeat)
            else:
                yield RawPair(source, target, tuple(row), corpus.repeat)
        if count != len(links):
            raise DataError(f"{corpus.links} has {len(links):,} lines, but {corpus.source} has more or fewer")


def _check_row(row: list[tuple[int, int]], source: str, target: str, where: str) -> None:
    if not row:
        return
    sizes = len(source.split()), len(target.split())
    last = max(first for first, _ in row), max(second for _, second in row)
    if last[0] >= sizes[0] or last[1] >= sizes[1]:
        raise DataError(
            f"{where}: links reach the words {last[0]} and {last[1]}, counted from 0, but the sentences have "
            f"{sizes[0]} and {sizes[1]} words between white space"
        )


def compute_links(pair: PairPlan, settings: AlignmentConfig, threads: int) -> None:
    """Write the links of a pair folder. Rows the user brought links for keep those, whatever the aligner says."""
    folder = pair.folder
    if pair.brings_all_links:
        _copy_links(folder.brought_links, folder.links)
        return
    output = folder.path / "aligned.links" if pair.brings_links else folder.links
    _align(folder, output, settings, threads)
    if pair.brings_links:
        _merge_links(folder, output)
        for path in ragged_files(output):
            remove(path)


def _align(folder: PairFolder, output: Path, settings: AlignmentConfig, threads: int) -> None:
    source, target = (RaggedArray.open(folder.words(side), WORD) for side in SIDES)
    numbers = [_read_vocabulary(folder.vocabulary(side)) for side in SIDES]
    identical = np.array([numbers[1].get(word, -1) for word in numbers[0]], dtype=np.int32)
    sizes = {"source_words": len(numbers[0]), "target_words": len(numbers[1])}
    del numbers
    aligner = align_with_eflomal if settings.method == "eflomal" else align_words
    with progress_bar(f"align {folder.name}", ALIGN_STEPS) as advance:
        aligner(source, target, output, **sizes, identical=identical, threads=threads, advance=advance)


def _read_vocabulary(path: Path) -> dict[str, int]:
    return {word: number for number, word in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1])}


def _copy_links(origin: Path, destination: Path) -> None:
    links = RaggedArray.open(origin, LINK)
    with RaggedWriter(destination, LINK) as writer:
        for first in range(0, len(links), _MERGED_ROWS):
            offsets = links.offsets[first : first + _MERGED_ROWS + 1]
            writer.extend(links.values[offsets[0] : offsets[-1]], offsets[1:] - offsets[:-1])


def _merge_links(folder: PairFolder, aligned_path: Path) -> None:
    """Row by row: brought links where there are any, otherwise computed ones."""
    aligned, brought = RaggedArray.open(aligned_path, LINK), RaggedArray.open(folder.brought_links, LINK)
    with RaggedWriter(folder.links, LINK) as writer:
        for first in range(0, len(aligned), _MERGED_ROWS):
            rows = range(first, min(first + _MERGED_ROWS, len(aligned)))
            merged = RaggedArray.from_rows([brought[row] if len(brought[row]) else aligned[row] for row in rows], LINK)
            writer.extend(merged.values, merged.lengths)
