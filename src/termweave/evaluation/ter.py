"""Translation edit rate (TER; Snover et al., 2006) with what it is made of: which token of an output is right.

An output is turned into its reference by insertions, deletions, substitutions and shifts, each at cost 1. A shift moves
a run of neighbouring tokens to another place. The fewest edits cannot be found in reasonable time, so shifts are chosen
greedily:

1. Align the output, in its present order, with the reference by edit distance.
2. A run of tokens is a candidate for a shift if the same run stands in the reference, holds an error here and answers
   to an error there. It may move to either side of what the tokens of the reference's run, and the one before it, are
   aligned to.
3. Take the shift that lowers the edit distance most; among equals the longest run, then the leftmost, then the leftmost
   destination. If it lowers it at all, carry it out, count one edit, and begin again.

The edits are the shifts and the edit distance that is left. A token is right if that last alignment pairs it with an
equal token of the reference. An example, with a reference of five tokens:

    reference   the old miller sells flour
    output      flour the old miller buys
    shift       the old miller buys flour         1 edit: "flour" moves behind "buys"
    then        the old miller SELLS flour        1 edit: "buys" is replaced; the four others are right

Limits on the length and distance of shifts are those of Tercom, the authors' program. The limits by which it and
sacreBLEU save time (a band around the diagonal, a number of candidates) are not needed here: code is compiled, and only
those rows of the table are computed anew that a shift changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numba
import numpy as np

from termweave.storage import Array

LONGEST_SHIFT = 10  # tokens
FARTHEST_SHIFT = 50  # tokens between the places of the run in the output and in the reference
NOTHING = -1


@dataclass(frozen=True)
class TerAlignment:
    """How an output goes with its reference."""

    links: tuple[int | None, ...]  # for each token of the output the equal token of the reference it is paired with
    shifts: int
    edits: int  # shifts included
    reference_length: int

    @property
    def correct(self) -> tuple[bool, ...]:
        """For each token of the output: is it right?"""
        return tuple(link is not None for link in self.links)

    @property
    def rate(self) -> float:
        """TER: edits a token of the reference, in per cent; 100 where there is no reference but an output."""
        if self.reference_length == 0:
            return 100.0 if self.edits else 0.0
        return 100 * self.edits / self.reference_length


def ter_alignment(output: Sequence[Hashable], reference: Sequence[Hashable]) -> TerAlignment:
    """Align an output with its reference; tokens may be words, ids, or whatever can be compared."""
    numbers: dict[Hashable, int] = {}
    words, expected = (
        np.array([numbers.setdefault(token, len(numbers)) for token in side], dtype=np.int64)
        for side in (output, reference)
    )
    links, shifts, edits = _align(words, expected)
    paired = tuple(None if link == NOTHING else int(link) for link in links)
    return TerAlignment(paired, int(shifts), int(edits), len(reference))


@numba.njit(nogil=True, cache=True)
def _align(words: Array, reference: Array) -> tuple[Array, int, int]:
    """Links of the tokens in their original order, shifts, and all edits."""
    words = words.copy()
    origin = np.arange(len(words))  # where the token that now stands here stood at first
    shifts = 0
    while True:
        forward = _forward_distances(words, reference)
        links, wrong, missed, place = _trace(words, reference, forward)
        start, length, destination = _best_shift(words, reference, forward, wrong, missed, place)
        if length == 0:
            break
        words = _shifted(words, start, length, destination)
        origin = _shifted(origin, start, length, destination)
        shifts += 1
    original = np.empty(len(words), np.int64)
    for position in range(len(words)):
        original[origin[position]] = links[position]
    return original, shifts, shifts + forward[len(words), len(reference)]


@numba.njit(nogil=True, cache=True)
def _forward_distances(words: Array, reference: Array) -> Array:
    """(words + 1, reference + 1): the edit distance of the first i words to the first j of the reference."""
    table = np.empty((len(words) + 1, len(reference) + 1), np.int64)
    table[0] = np.arange(len(reference) + 1)
    for row in range(len(words)):
        _next_row(table[row], words[row], reference, table[row + 1])
    return table


@numba.njit(nogil=True, cache=True)
def _backward_distances(words: Array, reference: Array) -> Array:
    """The same for what is left: of words i and on to the reference from j on."""
    return _forward_distances(words[::-1], reference[::-1])[::-1, ::-1]


@numba.njit(nogil=True, cache=True)
def _next_row(above: Array, word: int, reference: Array, row: Array) -> None:
    """One word more."""
    row[0] = above[0] + 1
    for column in range(len(reference)):
        replaced = above[column] + (reference[column] != word)
        row[column + 1] = min(replaced, above[column + 1] + 1, row[column] + 1)


@numba.njit(nogil=True, cache=True)
def _trace(words: Array, reference: Array, table: Array) -> tuple[Array, Array, Array, Array]:
    """The alignment behind the distance, from the end to the beginning.

    links: for each word the equal one of the reference. wrong (words + 1,) and missed (reference + 1,): how many words
    before each position have no such partner. place: for each word of the reference the word of the output that stands
    for it, or the last one before it; -1 before the first.
    """
    links = np.full(len(words), NOTHING)
    place = np.empty(len(reference), np.int64)
    matched = np.zeros(len(reference), np.bool_)
    row, column = len(words), len(reference)
    while row > 0 or column > 0:
        if row > 0 and column > 0:
            equal = words[row - 1] == reference[column - 1]
            if table[row, column] == table[row - 1, column - 1] + (not equal):
                row, column = row - 1, column - 1
                place[column] = row
                if equal:
                    links[row] = column
                    matched[column] = True
                continue
        if row > 0 and table[row, column] == table[row - 1, column] + 1:
            row -= 1
        else:
            column -= 1
            place[column] = row - 1
    return links, _counts(links == NOTHING), _counts(~matched), place


@numba.njit(nogil=True, cache=True)
def _counts(flags: Array) -> Array:
    """How many are set before each position."""
    counts = np.zeros(len(flags) + 1, np.int64)
    for position in range(len(flags)):
        counts[position + 1] = counts[position] + flags[position]
    return counts


@numba.njit(nogil=True, cache=True)
def _best_shift(
    words: Array, reference: Array, forward: Array, wrong: Array, missed: Array, place: Array
) -> tuple[int, int, int]:
    """First word, length and destination of the run to move; length 0 if no shift lowers the distance."""
    backward = _backward_distances(words, reference)
    rows = np.empty((2, len(reference) + 1), np.int64)
    present = forward[len(words), len(reference)]
    best = (0, 0, 0, 0)  # what it saves, length, −start, −slot: the larger, the better
    chosen = 0
    for start in range(len(words)):
        for other in range(max(0, start - FARTHEST_SHIFT), min(len(reference), start + FARTHEST_SHIFT + 1)):
            longest = min(LONGEST_SHIFT, len(words) - start, len(reference) - other)
            for length in range(1, longest + 1):
                if words[start + length - 1] != reference[other + length - 1]:
                    break
                if wrong[start + length] == wrong[start] or missed[other + length] == missed[other]:
                    continue
                if start <= place[other] < start + length:
                    continue  # it stands there already
                for before in range(other - 1, other + length):
                    slot = 0 if before < 0 else place[before] + 1
                    destination = _destination(slot, start, length, len(words))
                    distance = _shifted_distance(words, reference, forward, backward, start, length, destination, rows)
                    candidate = (present - distance, length, -start, -slot)
                    if candidate[0] > 0 and candidate > best:
                        best, chosen = candidate, destination
    return -best[2], best[1], chosen


@numba.njit(nogil=True, cache=True)
def _destination(slot: int, start: int, length: int, words: int) -> int:
    """The new place of a run's first word that is to go in front of the word at `slot`.

    A slot inside the run itself would mean no move at all. As in Tercom, it then moves on by as many words as the slot
    lies behind its beginning.
    """
    return slot - length if slot > start + length else min(slot, words - length)


@numba.njit(nogil=True, cache=True)
def _shifted_distance(
    words: Array,
    reference: Array,
    forward: Array,
    backward: Array,
    start: int,
    length: int,
    destination: int,
    rows: Array,
) -> int:
    """The edit distance after a shift. What stands before and behind the words that move is known already."""
    first, last = min(start, destination), max(start, destination) + length
    row = forward[first]
    for position in range(first, last):
        target = rows[position % 2]
        _next_row(row, words[_source_of(position, start, length, destination)], reference, target)
        row = target
    distance = int(row[0] + backward[last, 0])
    for column in range(1, len(reference) + 1):
        distance = min(distance, int(row[column] + backward[last, column]))
    return distance


@numba.njit(nogil=True, cache=True)
def _source_of(position: int, start: int, length: int, destination: int) -> int:
    """Where the word stood that a shift brings to a position; destination: the new place of the run's first word."""
    if destination <= position < destination + length:
        return start + position - destination
    if destination + length <= position < start + length:
        return position - length
    if start <= position < destination:
        return position + length
    return position


@numba.njit(nogil=True, cache=True)
def _shifted(values: Array, start: int, length: int, destination: int) -> Array:
    moved = np.empty_like(values)
    for position in range(len(values)):
        moved[position] = values[_source_of(position, start, length, destination)]
    return moved
