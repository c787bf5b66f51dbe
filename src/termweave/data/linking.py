"""Word links of a pair folder: brought by the user, or computed by the aligner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from termweave.alignment import ALIGN_STEPS, LINK, align_words
from termweave.config import AlignmentConfig
from termweave.data.cleaning import RawPair
from termweave.data.folder import SIDES, WORD, PairFolder, ragged_files
from termweave.data.plan import PairPlan
from termweave.data.readers import read_together
from termweave.errors import DataError
from termweave.progress import progress_bar
from termweave.storage import RaggedArray, RaggedWriter, remove

_MERGED_ROWS = 50_000  # rows written at a time
_LINK_TEXT = re.compile(r"(\d+)-(\d+)")


def read_given_links(source: Path, target: Path, links: Path, swapped: bool) -> Iterator[RawPair]:
    """Tokenised pairs with their links, checked against the number of tokens."""
    for number, (source_line, target_line, link_line) in enumerate(read_together(source, target, links), start=1):
        row = _parse(link_line, f"{links}, line {number}")
        if swapped:
            row = [(second, first) for first, second in row]
        sizes = len(source_line.split()), len(target_line.split())
        for first, second in row:
            if first >= sizes[0] or second >= sizes[1]:
                raise DataError(
                    f"{links}, line {number}: the link between words {first} and {second} leaves the sentence, which "
                    f"has {sizes[0]} and {sizes[1]} words; words are counted from 0 and separated by white space"
                )
        yield RawPair(source_line, target_line, tuple(sorted(set(row))))


def _parse(line: str, where: str) -> list[tuple[int, int]]:
    matches = [(item, _LINK_TEXT.fullmatch(item)) for item in line.split()]
    for item, match in matches:
        if match is None:
            raise DataError(f"{where}: {item!r} is no link; write links as 0-0 1-2")
    return [(int(match[1]), int(match[2])) for _, match in matches if match]


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
    with progress_bar(f"align {folder.name}", ALIGN_STEPS) as advance:
        align_words(source, target, output, **sizes, identical=identical, threads=threads, advance=advance)


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
