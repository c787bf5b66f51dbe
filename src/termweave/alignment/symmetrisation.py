"""Two one-sided alignments into one: grow-diag-final-and, intersection, union; compiled, many sentences at a time."""

from __future__ import annotations

from typing import Any, Literal

import numba
import numpy as np
import numpy.typing as npt

from termweave.alignment.links import LINK

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
LinkArray = npt.NDArray[Any]
Method = Literal["grow-diag-final-and", "intersection", "union"]

_METHODS = {"grow-diag-final-and": 0, "intersection": 1, "union": 2}

_ONE_SIDED, _LINKED = 1, 2  # how many sides have a link


def symmetrise(
    forward: IntArray,
    backward: IntArray,
    source_offsets: LongArray,
    target_offsets: LongArray,
    method: Method = "grow-diag-final-and",
) -> tuple[LinkArray, LongArray]:
    """Unite two alignments of the same sentence pairs.

    forward: for every target word, end to end over all sentences, the 0-based source position it links to, or -1;
    backward: for every source word, the target position, or -1. Row i of a side lies between offsets i and i + 1
    (the first offset need not be 0, so that a slice of a longer text's offsets serves). Returns links end to end
    (dtype LINK, sorted within a sentence) and the number of links of each sentence.
    """
    bound = int(np.count_nonzero(forward >= 0) + np.count_nonzero(backward >= 0))
    sources = np.empty(bound, dtype=np.uint16)
    targets = np.empty(bound, dtype=np.uint16)
    lengths = np.zeros(len(source_offsets) - 1, dtype=np.int64)
    total = _symmetrise_rows(
        forward, backward, np.asarray(source_offsets), np.asarray(target_offsets),
        _METHODS[method], sources, targets, lengths,
    )  # fmt: skip
    links = np.empty(total, dtype=LINK)
    links["source"] = sources[:total]
    links["target"] = targets[:total]
    return links, lengths


@numba.njit(nogil=True, cache=True)
def _symmetrise_rows(
    forward: IntArray, backward: IntArray, source_offsets: LongArray, target_offsets: LongArray,
    method: int, sources: npt.NDArray[np.uint16], targets: npt.NDArray[np.uint16], lengths: LongArray,
) -> int:  # fmt: skip
    total = 0
    for row in range(len(lengths)):
        matrix = _overlay(
            forward[target_offsets[row] - target_offsets[0] : target_offsets[row + 1] - target_offsets[0]],
            backward[source_offsets[row] - source_offsets[0] : source_offsets[row + 1] - source_offsets[0]],
        )
        rows, columns = matrix.shape
        if method == 0:
            _grow_diag_final_and(matrix)
        least = _ONE_SIDED if method == 2 else _LINKED
        before = total
        for i in range(rows):
            for j in range(columns):
                if matrix[i, j] >= least:
                    sources[total] = i
                    targets[total] = j
                    total += 1
        lengths[row] = total - before
    return total


@numba.njit(nogil=True, cache=True)
def _overlay(forward: IntArray, backward: IntArray) -> npt.NDArray[np.uint8]:
    """How many of the two sides have each link, in a matrix just large enough for all links of the sentence."""
    rows = columns = 0
    for j in range(len(forward)):
        if forward[j] >= 0:
            rows = max(rows, forward[j] + 1)
            columns = j + 1
    for i in range(len(backward)):
        if backward[i] >= 0:
            rows = max(rows, i + 1)
            columns = max(columns, backward[i] + 1)
    matrix = np.zeros((rows, columns), dtype=np.uint8)
    for j in range(len(forward)):
        if forward[j] >= 0:
            matrix[forward[j], j] += 1
    for i in range(len(backward)):
        if backward[i] >= 0:
            matrix[i, backward[i]] += 1
    return matrix


@numba.njit(nogil=True, cache=True)
def _grow_diag_final_and(matrix: npt.NDArray[np.uint8]) -> None:
    """Koehn, Och and Marcu (2003): start from links of both sides, add links of one side.

    1. Grow: again and again, a neighbour (eight directions) of a link joins if one of its two words has no link yet.
    2. Final-and: a remaining one-sided link joins if neither of its words has a link.
    """
    rows, columns = matrix.shape
    row_linked = np.zeros(rows, dtype=np.bool_)
    column_linked = np.zeros(columns, dtype=np.bool_)
    for i in range(rows):
        for j in range(columns):
            if matrix[i, j] == _LINKED:
                row_linked[i] = True
                column_linked[j] = True
    growing = True
    while growing:
        growing = False
        for i in range(rows):
            for j in range(columns):
                if matrix[i, j] == _LINKED and _grow_around(matrix, i, j, row_linked, column_linked):
                    growing = True
    for i in range(rows):
        for j in range(columns):
            if matrix[i, j] == _ONE_SIDED and not row_linked[i] and not column_linked[j]:
                matrix[i, j] = _LINKED
                row_linked[i] = True
                column_linked[j] = True


@numba.njit(nogil=True, cache=True)
def _grow_around(
    matrix: npt.NDArray[np.uint8], row: int, column: int,
    row_linked: npt.NDArray[np.bool_], column_linked: npt.NDArray[np.bool_],
) -> bool:  # fmt: skip
    rows, columns = matrix.shape
    grown = False
    for direction in range(8):
        i = row + (-1, 0, 1, 0, -1, -1, 1, 1)[direction]
        j = column + (0, -1, 0, 1, -1, 1, -1, 1)[direction]
        if i < 0 or j < 0 or i >= rows or j >= columns or matrix[i, j] != _ONE_SIDED:
            continue
        if not row_linked[i] or not column_linked[j]:
            matrix[i, j] = _LINKED
            row_linked[i] = True
            column_linked[j] = True
            grown = True
    return grown
