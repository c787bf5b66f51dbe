"""Pharaoh files: a line per sentence pair, with links such as `0-0 1-2`, or `1p2` for links possible but not sure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from termweave.alignment.links import LINK, MAX_POSITION, GoldLinks
from termweave.alignment.textfile import open_text
from termweave.errors import DataError
from termweave.storage import RaggedArray, RaggedWriter, atomic_path

Lengths = npt.NDArray[np.integer[Any]]

# Positions have at most five digits: longer numbers could not be stored, and are refused before they are converted.
_LINE = re.compile(r"\s*(?:[0-9]{1,5}[-p][0-9]{1,5}(?:\s+|$))*")
_LINK = re.compile(r"([0-9]{1,5})([-p])([0-9]{1,5})")
_SEPARATORS = str.maketrans("-p", "  ")
_BATCH = 20_000


def read_pharaoh(
    path: Path,
    *,
    one_based: bool = False,
    source_lengths: Lengths | None = None,
    target_lengths: Lengths | None = None,
) -> list[GoldLinks]:
    """Read hand-made links, keeping sure and possible apart. Lengths, if given, are the words of each sentence."""
    gold = []
    for first, lines, sources, targets, counts in _parse(path, one_based):
        _check_range(path, first, sources, counts, source_lengths, "source")
        _check_range(path, first, targets, counts, target_lengths, "target")
        end = 0
        for line, count in zip(lines, counts.tolist(), strict=True):
            pairs = list(zip(sources[end : end + count].tolist(), targets[end : end + count].tolist(), strict=True))
            sure = (pair for pair, match in zip(pairs, _LINK.finditer(line), strict=True) if match[2] == "-")
            gold.append(GoldLinks(frozenset(sure), frozenset(pairs)))
            end += count
    _check_count(path, len(gold), source_lengths)
    return gold


def store_pharaoh(
    path: Path,
    output: Path,
    *,
    one_based: bool = False,
    source_lengths: Lengths | None = None,
    target_lengths: Lengths | None = None,
) -> RaggedArray:
    """Turn a Pharaoh file of any size into a RaggedArray of LINK, in constant memory; possible links count as links."""
    rows = 0
    with RaggedWriter(output, LINK) as writer:
        for first, _, sources, targets, counts in _parse(path, one_based):
            _check_range(path, first, sources, counts, source_lengths, "source")
            _check_range(path, first, targets, counts, target_lengths, "target")
            writer.extend(_sorted_links(sources, targets, counts), counts)
            rows += len(counts)
        _check_count(path, rows, source_lengths)
    return RaggedArray.open(output, LINK)


def write_pharaoh(path: Path, links: RaggedArray, *, first: int = 0, last: int | None = None) -> None:
    """Write rows first … last of a RaggedArray of LINK as a Pharaoh file."""
    last = len(links) if last is None else last
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for begin in range(first, last, _BATCH):
            offsets = np.asarray(links.offsets[begin : min(begin + _BATCH, last) + 1])
            rows = np.asarray(links.values[offsets[0] : offsets[-1]])
            buffer = np.empty(12 * len(rows) + len(offsets), dtype=np.uint8)
            sources, targets = np.ascontiguousarray(rows["source"]), np.ascontiguousarray(rows["target"])
            size = _format(sources, targets, offsets - offsets[0], buffer)
            buffer[:size].tofile(file)


_Parsed = tuple[int, list[str], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _parse(path: Path, one_based: bool) -> Iterator[_Parsed]:
    """Batches of: number of the first line (from 0), lines, source positions, target positions, links per line."""
    with open_text(path) as file:
        first = 0
        while lines := list(islice(file, _BATCH)):
            for number, line in enumerate(lines):
                if not _LINE.fullmatch(line):
                    raise DataError(_malformed(path, first + number, line))
            numbers = np.array("".join(lines).translate(_SEPARATORS).split(), dtype=np.int64) - int(one_based)
            counts = np.array([line.count("-") + line.count("p") for line in lines], dtype=np.int64)
            sources, targets = numbers[::2], numbers[1::2]
            wrong = (np.minimum(sources, targets) < 0) | (np.maximum(sources, targets) > MAX_POSITION)
            if wrong.any():
                row = first + _row_of(int(np.argmax(wrong)), counts)
                rule = f"positions must lie between {int(one_based)} and {MAX_POSITION + int(one_based)}"
                raise DataError(f"{path}, line {row + 1}: {rule}")
            yield first, lines, sources, targets, counts
            first += len(lines)


def _malformed(path: Path, row: int, line: str) -> str:
    bad = next((part for part in line.split() if not _LINK.fullmatch(part)), line.strip())
    return f"{path}, line {row + 1}: {bad[:40]!r} is not a link; write links as 0-0 (sure) or 0p0 (possible)"


def _row_of(link: int, counts: npt.NDArray[np.int64]) -> int:
    return int(np.searchsorted(np.cumsum(counts), link, side="right"))


def _check_range(
    path: Path, first: int, positions: npt.NDArray[np.int64], counts: npt.NDArray[np.int64],
    lengths: Lengths | None, side: str,
) -> None:  # fmt: skip
    """Refuse links to words the sentence does not have."""
    if lengths is None:
        return
    here = np.asarray(lengths[first : first + len(counts)], dtype=np.int64)
    if len(here) < len(counts):
        raise DataError(f"{path} has more lines than the text has sentences ({len(lengths)}); they must match")
    outside = positions >= np.repeat(here, counts)
    if outside.any():
        link = int(np.argmax(outside))
        row = _row_of(link, counts)
        where = f"{path}, line {first + row + 1}"
        hint = "check the word splitting, and whether the file counts from 1"
        raise DataError(f"{where}: {side} position {positions[link]}, but the sentence has {here[row]} words; {hint}")


def _check_count(path: Path, rows: int, lengths: Lengths | None) -> None:
    if lengths is not None and rows != len(lengths):
        raise DataError(f"{path} has {rows} lines but the text has {len(lengths)} sentences; they must match")


def _sorted_links(
    sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((targets, sources, rows))
    links = np.empty(len(rows), dtype=LINK)
    links["source"] = sources[order]
    links["target"] = targets[order]
    return links


@numba.njit(nogil=True, cache=True)
def _format(
    sources: npt.NDArray[np.uint16], targets: npt.NDArray[np.uint16], offsets: npt.NDArray[np.int64],
    buffer: npt.NDArray[np.uint8],
) -> int:  # fmt: skip
    """Fill `buffer` with lines of text; returns how many bytes they take."""
    size = 0
    for row in range(len(offsets) - 1):
        for link in range(offsets[row], offsets[row + 1]):
            if link > offsets[row]:
                buffer[size] = 32  # space
                size += 1
            size = _format_number(sources[link], buffer, size)
            buffer[size] = 45  # hyphen
            size = _format_number(targets[link], buffer, size + 1)
        buffer[size] = 10  # end of line
        size += 1
    return size


@numba.njit(nogil=True, cache=True)
def _format_number(number: int, buffer: npt.NDArray[np.uint8], size: int) -> int:
    divisor = 1
    while number // divisor >= 10:
        divisor *= 10
    while divisor > 0:
        buffer[size] = 48 + number // divisor % 10  # digit
        size += 1
        divisor //= 10
    return size
