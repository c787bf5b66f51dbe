"""Which words may be translations of each other: the pairs that stand in the same sentences more than by chance.

The aligner's tables hold these pairs and no others, so their size is set by the vocabularies, not by the text.
Counting goes word by word: all sentences of one word are found through an index, and the words of their translations
are counted in one array as long as the other vocabulary. No hashing and no sorting of pairs is needed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from termweave.alignment.model import IntArray, LongArray, PairTable, Text

# Occurrences indexed at a time: bounds the memory of the index, whatever the size of the text.
_INDEX_OCCURRENCES = 12_000_000
# Words above this frequency are counted in an even sample of their sentences; their statistics are safe anyway.
_SAMPLED_SENTENCES = 50_000


class _Side(NamedTuple):
    """One side of the text: word ids end to end, where each sentence begins, how often each word occurs."""

    words: IntArray
    offsets: LongArray
    counts: LongArray


class _Index(NamedTuple):
    """In which sentences the words first, first + 1 … occur."""

    first: int
    starts: LongArray
    sentences: IntArray


class _Lists(NamedTuple):
    """A list of partners for each word, with room for starts[k + 1] - starts[k], filled up to found[k]."""

    starts: LongArray
    partners: IntArray
    found: LongArray


def find_candidates(text: Text, source_words: int, target_words: int, threads: int) -> PairTable:
    """The best-associated target words of every source word, and the reverse, in one table."""
    source = _Side(text.source, text.source_offsets, _count_words(text.source, source_words))
    target = _Side(text.target, text.target_offsets, _count_words(text.target, target_words))
    forward = _close_gaps(_best_partners(source, target, threads))
    backward = _close_gaps(_best_partners(target, source, threads))
    return _unite(forward, backward)


@numba.njit(nogil=True, cache=True)
def _count_words(words: IntArray, vocabulary: int) -> LongArray:
    """np.bincount would first copy the whole text into wider numbers."""
    counts = np.zeros(vocabulary, dtype=np.int64)
    for word in words:
        counts[word] += 1
    return counts


def _best_partners(rows: _Side, columns: _Side, threads: int) -> _Lists:
    """For each word of `rows` the words of `columns` most strongly associated with it."""
    starts = _running_total(_row_limits(rows.counts))
    lists = _Lists(starts, np.empty(int(starts[-1]), dtype=np.int32), np.zeros(len(rows.counts), dtype=np.int64))
    for first, last in _word_ranges(rows.counts):
        index = _make_index(rows, first, last)
        bounds = _even_bounds(index.starts, threads)
        with ThreadPoolExecutor(threads) as pool:
            parts = pairwise(bounds.tolist())
            jobs = [pool.submit(_count_partners, index, begin, end, columns, lists) for begin, end in parts]
            for job in jobs:
                job.result()
    return lists


def _running_total(lengths: LongArray) -> LongArray:
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _make_index(side: _Side, first: int, last: int) -> _Index:
    starts = _running_total(side.counts[first:last])
    index = _Index(first, starts, np.empty(int(starts[-1]), dtype=np.int32))
    _fill_index(side, index, starts[:-1].copy())
    return index


def _row_limits(counts: LongArray) -> LongArray:
    """Frequent words have more translations: 12 partners for a word seen once, up to 200."""
    return np.where(counts > 0, np.minimum(200, 8 + 4 * np.sqrt(counts)), 0).astype(np.int64)


def _word_ranges(counts: LongArray) -> list[tuple[int, int]]:
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
def _fill_index(side: _Side, index: _Index, cursors: LongArray) -> None:
    for row in range(len(side.offsets) - 1):
        for position in range(side.offsets[row], side.offsets[row + 1]):
            local = side.words[position] - index.first
            if 0 <= local < len(cursors):
                index.sentences[cursors[local]] = row
                cursors[local] += 1


@numba.njit(nogil=True, cache=True)
def _count_partners(index: _Index, begin: int, end: int, columns: _Side, lists: _Lists) -> None:
    """Fill the lists of words begin … end of the index with their best partners.

    The score is count × log(count / expected count): what the pair adds to the likelihood ratio.
    """
    counter = np.zeros(len(columns.counts), dtype=np.int32)
    touched = np.empty(len(columns.counts), dtype=np.int32)
    scores = np.empty(len(columns.counts), dtype=np.float32)
    for local in range(begin, end):
        row = index.first + local
        distinct, visited = _count_row(index, local, columns, counter, touched)
        for slot in range(distinct):
            word = touched[slot]
            expected = visited * columns.counts[word] / (len(columns.offsets) - 1)
            scores[slot] = counter[word] * np.log(counter[word] / expected)
            counter[word] = 0
        room = lists.partners[lists.starts[row] : lists.starts[row + 1]]
        lists.found[row] = _keep_best(scores[:distinct], touched[:distinct], room)


@numba.njit(nogil=True, cache=True)
def _count_row(index: _Index, local: int, columns: _Side, counter: IntArray, touched: IntArray) -> tuple[int, int]:
    """Count the words that share sentences with one word; returns how many they are, and in how many sentences."""
    step = 1 + (index.starts[local + 1] - index.starts[local]) // _SAMPLED_SENTENCES
    distinct = 0
    visited = 0
    previous = -1
    for position in range(index.starts[local], index.starts[local + 1], step):
        sentence = index.sentences[position]
        if sentence == previous:
            continue
        previous = sentence
        visited += 1
        for cell in range(columns.offsets[sentence], columns.offsets[sentence + 1]):
            word = columns.words[cell]
            if counter[word] == 0:
                touched[distinct] = word
                distinct += 1
            counter[word] += 1
    return distinct, visited


@numba.njit(nogil=True, cache=True)
def _keep_best(scores: npt.NDArray[np.float32], words: IntArray, kept: IntArray) -> int:
    """Copy the words with the highest scores; ties at the border go to the words met first."""
    limit = len(kept)
    if len(scores) <= limit:
        for slot in range(len(scores)):
            kept[slot] = words[slot]
        return len(scores)
    border = _kth_largest(scores.copy(), limit)
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


@numba.njit(nogil=True, cache=True)
def _kth_largest(values: npt.NDArray[np.float32], rank: int) -> float:
    """The value at place `rank` (from 1) of the descending order, by quickselect; reorders `values`."""
    first, last, wanted = 0, len(values) - 1, rank - 1
    while first < last:
        pivot = values[(first + last) // 2]
        left, right = first, last
        while left <= right:
            while values[left] > pivot:
                left += 1
            while values[right] < pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if wanted <= right:
            last = right
        elif wanted >= left:
            first = left
        else:
            break
    return float(values[wanted])


def _close_gaps(lists: _Lists) -> PairTable:
    """The lists end to end, without the room they did not use."""
    starts = _running_total(lists.found)
    columns = np.empty(int(starts[-1]), dtype=np.int32)
    _copy_rows(lists, starts, columns)
    return PairTable(starts, columns)


@numba.njit(nogil=True, cache=True)
def _copy_rows(lists: _Lists, starts: LongArray, columns: IntArray) -> None:
    for row in range(len(starts) - 1):
        for slot in range(starts[row + 1] - starts[row]):
            columns[starts[row] + slot] = lists.partners[lists.starts[row] + slot]


def _unite(forward: PairTable, backward: PairTable) -> PairTable:
    """Both lists in rows by source word, ascending, each pair once; `backward` is in rows by target word."""
    rows, columns = len(forward.starts) - 1, len(backward.starts) - 1
    starts = _running_total(np.diff(forward.starts) + _count_words(backward.columns, rows))
    lists = _Lists(starts, np.empty(int(starts[-1]), dtype=np.int32), np.zeros(rows, dtype=np.int64))
    _merge_rows(_transpose(forward, columns), backward, lists)
    return _close_gaps(lists)


def _transpose(table: PairTable, columns: int) -> PairTable:
    starts = _running_total(_count_words(table.columns, columns))
    rows = np.empty(len(table.columns), dtype=np.int32)
    _fill_transposed(table, starts[:-1].copy(), rows)
    return PairTable(starts, rows)


@numba.njit(nogil=True, cache=True)
def _fill_transposed(table: PairTable, cursors: LongArray, rows: IntArray) -> None:
    for row in range(len(table.starts) - 1):
        for pair in range(table.starts[row], table.starts[row + 1]):
            column = table.columns[pair]
            rows[cursors[column]] = row
            cursors[column] += 1


@numba.njit(nogil=True, cache=True)
def _merge_rows(first: PairTable, second: PairTable, lists: _Lists) -> None:
    """Turn two tables in rows by target word round. Target words come in order, so no row needs sorting."""
    for target in range(len(first.starts) - 1):
        for table in (first, second):
            for pair in range(table.starts[target], table.starts[target + 1]):
                row = table.columns[pair]
                end = lists.starts[row] + lists.found[row]
                if lists.found[row] == 0 or lists.partners[end - 1] != target:
                    lists.partners[end] = target
                    lists.found[row] += 1
