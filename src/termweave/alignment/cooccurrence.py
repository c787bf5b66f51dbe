"""Which words may be translations of each other: the pairs that stand in the same sentences more than by chance.

The aligner's tables hold these pairs and no others, so their size is set by the vocabularies, not by the text.
Counting goes word by word: all sentences of one word are found through an index, and the words of their translations
are counted in one array as long as the other vocabulary. No hashing and no sorting of pairs is needed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from termweave.alignment.model import DoubleArray, IntArray, LongArray, PairTable, Text

_Side = tuple[IntArray, LongArray]  # word ids end to end, and where each sentence begins

# Occurrences indexed at a time: bounds the memory of the index, whatever the size of the text.
_INDEX_OCCURRENCES = 12_000_000
# Words above this frequency are counted in an even sample of their sentences; their statistics are safe anyway.
_SAMPLED_SENTENCES = 50_000


def find_candidates(text: Text, source_words: int, target_words: int, threads: int) -> PairTable:
    """The best-associated target words of every source word, and the reverse, in one table."""
    source, target = (text.source, text.source_offsets), (text.target, text.target_offsets)
    forward = _best_partners(source, target, source_words, target_words, threads)
    backward = _best_partners(target, source, target_words, source_words, threads)
    return _unite(forward, backward)


def _best_partners(
    rows: _Side, columns: _Side, row_words: int, column_words: int, threads: int
) -> tuple[LongArray, IntArray]:
    """For each row word its best column words: where each list begins, and all lists end to end."""
    row_counts = np.bincount(rows[0], minlength=row_words)
    column_counts = np.bincount(columns[0], minlength=column_words).astype(np.float64)
    limits = _row_limits(row_counts)
    starts = np.zeros(row_words + 1, dtype=np.int64)
    np.cumsum(limits, out=starts[1:])
    partners = np.empty(int(starts[-1]), dtype=np.int32)
    found = np.zeros(row_words, dtype=np.int64)
    for first, last in _word_ranges(row_counts):
        index_starts = np.zeros(last - first + 1, dtype=np.int64)
        np.cumsum(row_counts[first:last], out=index_starts[1:])
        sentences = np.empty(int(index_starts[-1]), dtype=np.int32)
        _index_sentences(*rows, first, last, index_starts[:-1].copy(), sentences)
        bounds = _even_bounds(index_starts, threads)

        def count(
            part: int, bounds: Any = bounds, first: int = first, index: Any = (index_starts, sentences)
        ) -> None:
            _count_partners(
                *index, bounds[part], bounds[part + 1], first, *columns,
                column_counts, starts, partners, found,
            )  # fmt: skip

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(count, range(threads)))
    return _close_gaps(starts, partners, found)


def _row_limits(counts: npt.NDArray[Any]) -> LongArray:
    """Frequent words have more translations: 12 partners for a word seen once, up to 200."""
    return np.where(counts > 0, np.minimum(200, 8 + 4 * np.sqrt(counts)), 0).astype(np.int64)


def _word_ranges(counts: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Consecutive words that together occur at most _INDEX_OCCURRENCES times (or a single word)."""
    ends = np.cumsum(counts)
    ranges = []
    first = 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _INDEX_OCCURRENCES, side="right")))
        ranges.append((first, last))
        first = last
    return ranges


def _even_bounds(index_starts: LongArray, parts: int) -> LongArray:
    """Word numbers that cut the index into parts of about equal size."""
    wanted = np.linspace(0, int(index_starts[-1]), parts + 1)
    bounds = np.searchsorted(index_starts, wanted)
    bounds[0], bounds[-1] = 0, len(index_starts) - 1
    return bounds.astype(np.int64)


@numba.njit(nogil=True, cache=True)
def _index_sentences(
    values: IntArray, offsets: LongArray, first: int, last: int, cursors: LongArray, sentences: IntArray
) -> None:
    for row in range(len(offsets) - 1):
        for position in range(offsets[row], offsets[row + 1]):
            word = values[position]
            if first <= word < last:
                sentences[cursors[word - first]] = row
                cursors[word - first] += 1


@numba.njit(nogil=True, cache=True)
def _count_partners(
    index_starts: LongArray, sentences: IntArray, begin: int, end: int, first: int,
    column_values: IntArray, column_offsets: LongArray, column_counts: DoubleArray,
    starts: LongArray, partners: IntArray, found: LongArray,
) -> None:  # fmt: skip
    """Fill the rows of words first+begin … first+end with their best partners.

    The score is count × log(count / expected count): what the pair adds to the likelihood ratio.
    """
    counter = np.zeros(len(column_counts), dtype=np.int32)
    touched = np.empty(len(column_counts), dtype=np.int32)
    scores = np.empty(len(column_counts), dtype=np.float32)
    total_sentences = len(column_offsets) - 1
    for local in range(begin, end):
        occurrences = index_starts[local + 1] - index_starts[local]
        if occurrences == 0:
            continue
        step = 1 + occurrences // _SAMPLED_SENTENCES
        distinct = 0
        visited = 0
        previous = -1
        for position in range(index_starts[local], index_starts[local + 1], step):
            sentence = sentences[position]
            if sentence == previous:
                continue
            previous = sentence
            visited += 1
            for cell in range(column_offsets[sentence], column_offsets[sentence + 1]):
                word = column_values[cell]
                if counter[word] == 0:
                    touched[distinct] = word
                    distinct += 1
                counter[word] += 1
        for slot in range(distinct):
            word = touched[slot]
            expected = visited * column_counts[word] / total_sentences
            scores[slot] = counter[word] * np.log(counter[word] / expected)
            counter[word] = 0
        row = first + local
        found[row] = _keep_best(
            scores[:distinct], touched[:distinct], partners[starts[row] : starts[row + 1]]
        )


@numba.njit(nogil=True, cache=True)
def _keep_best(scores: npt.NDArray[np.float32], words: IntArray, kept: IntArray) -> int:
    """Copy the words with the highest scores; ties at the border go to the words met first."""
    limit = len(kept)
    if len(scores) <= limit:
        kept[: len(scores)] = words
        return len(scores)
    border = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    count = 0
    for slot in range(len(scores)):
        if scores[slot] > border:
            kept[count] = words[slot]
            count += 1
    for slot in range(len(scores)):
        if scores[slot] == border and count < limit:
            kept[count] = words[slot]
            count += 1
    return count


def _close_gaps(starts: LongArray, partners: IntArray, found: LongArray) -> tuple[LongArray, IntArray]:
    closed = np.zeros(len(starts), dtype=np.int64)
    np.cumsum(found, out=closed[1:])
    columns = np.empty(int(closed[-1]), dtype=np.int32)
    _copy_rows(starts, partners, closed, columns)
    return closed, columns


@numba.njit(nogil=True, cache=True)
def _copy_rows(starts: LongArray, partners: IntArray, closed: LongArray, columns: IntArray) -> None:
    for row in range(len(closed) - 1):
        for slot in range(closed[row + 1] - closed[row]):
            columns[closed[row] + slot] = partners[starts[row] + slot]


def _unite(forward: tuple[LongArray, IntArray], backward: tuple[LongArray, IntArray]) -> PairTable:
    lengths = np.diff(forward[0]) + np.bincount(backward[1], minlength=len(forward[0]) - 1)
    starts = np.zeros(len(forward[0]), dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    columns = np.empty(int(starts[-1]), dtype=np.int32)
    found = _merge_rows(*forward, *backward, starts, columns)
    return PairTable(*_close_gaps(starts, columns, found))


@numba.njit(nogil=True, cache=True)
def _merge_rows(
    row_starts: LongArray, row_columns: IntArray, column_starts: LongArray, column_rows: IntArray,
    starts: LongArray, columns: IntArray,
) -> LongArray:  # fmt: skip
    """Both one-sided lists in rows by source word, sorted, each pair once. Returns the row lengths."""
    rows = len(starts) - 1
    found = np.zeros(rows, dtype=np.int64)
    for row in range(rows):
        for slot in range(row_starts[row], row_starts[row + 1]):
            columns[starts[row] + found[row]] = row_columns[slot]
            found[row] += 1
    for column in range(len(column_starts) - 1):
        for slot in range(column_starts[column], column_starts[column + 1]):
            row = column_rows[slot]
            columns[starts[row] + found[row]] = column
            found[row] += 1
    for row in range(rows):
        members = np.sort(columns[starts[row] : starts[row] + found[row]])
        count = 0
        for slot in range(len(members)):
            if slot == 0 or members[slot] != members[slot - 1]:
                columns[starts[row] + count] = members[slot]
                count += 1
        found[row] = count
    return found
