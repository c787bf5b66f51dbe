"""Drawing constraints for training sentences, anew every epoch, from the stored phrase pairs.

For every sentence, with its own random stream:

1. with probability `empty_share`, no constraint at all: the model must stay a good plain translator;
2. else draw how many constraints are wanted, uniform in 1..max_constraints, and for each the wanted length in
   source words, uniform in 1..max_words;
3. longest first, pick at random a phrase pair of the wanted length that overlaps no chosen one on either side
   and fits into `max_tokens`; where there is none, one word shorter, and so on; where none is left, drop it;
4. shuffle, so that the order tells the model nothing about length.
"""

from __future__ import annotations

import numba
import numpy as np

from termweave.config import SamplingConfig
from termweave.constraints.phrases import PHRASE
from termweave.constraints.randomness import advance, below, seed_number, stream, unit
from termweave.storage import Array

PURPOSE = 1  # of the random stream, see `randomness`


def sample_constraints(
    phrases_values: Array, phrases_offsets: Array, rows: Array, seed: int, epoch: int, config: SamplingConfig
) -> tuple[Array, Array]:
    """Constraints (PHRASE) of the sentences `rows`, end to end, and their number per sentence (int64).

    What a sentence gets depends on its row, `seed` and `epoch` only, not on the other rows asked for.
    """
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    chosen = np.empty(len(rows) * config.max_constraints, dtype=PHRASE)
    lengths = np.zeros(len(rows), dtype=np.int64)
    total = _sample(
        np.asarray(phrases_values),
        np.asarray(phrases_offsets),
        rows,
        seed_number(seed),
        epoch,
        config.max_constraints,
        config.max_words,
        config.empty_share,
        config.max_tokens,
        chosen,
        lengths,
    )
    return chosen[:total].copy(), lengths


@numba.njit(nogil=True, cache=True)
def _sample(
    values: Array,
    offsets: Array,
    rows: Array,
    seed: np.uint64,
    epoch: int,
    max_constraints: int,
    max_words: int,
    empty_share: float,
    max_tokens: int,
    chosen: Array,
    lengths: Array,
) -> int:
    total = 0
    for index in range(len(rows)):
        row = rows[index]
        phrases = values[offsets[row] : offsets[row + 1]]
        state = stream(seed, epoch, row, PURPOSE)
        if len(phrases) == 0 or unit(state) < empty_share:
            continue
        picked = chosen[total : total + max_constraints]
        lengths[index] = _sample_sentence(phrases, state, max_constraints, max_words, max_tokens, picked)
        total += lengths[index]
    return total


@numba.njit(nogil=True, cache=True)
def _sample_sentence(
    phrases: Array, state: np.uint64, max_constraints: int, max_words: int, max_tokens: int, picked: Array
) -> int:
    """Steps 2 to 4 for one sentence: fills the front of `picked`, returns how many."""
    state = advance(state)
    wanted = np.zeros(1 + below(state, max_constraints), dtype=np.int64)
    for index in range(len(wanted)):  # in ascending order; numba's own sorting must not be cached
        state = advance(state)
        words, place = 1 + below(state, max_words), index
        while place > 0 and wanted[place - 1] > words:
            wanted[place] = wanted[place - 1]
            place -= 1
        wanted[place] = words
    candidates = np.empty(len(phrases), dtype=np.int64)
    count = 0
    source_left, target_left = max_tokens, max_tokens
    for index in range(len(wanted) - 1, -1, -1):
        for words in range(wanted[index], 0, -1):
            found = _free_phrases(phrases, words, picked[:count], source_left, target_left, candidates)
            if found > 0:
                state = advance(state)
                picked[count] = phrases[candidates[below(state, found)]]
                source_left -= picked[count].source_tokens
                target_left -= picked[count].target_tokens
                count += 1
                break
    for last in range(count - 1, 0, -1):  # Fisher–Yates
        state = advance(state)
        other = below(state, last + 1)
        moved = phrases[0:1].copy()
        moved[0] = picked[last]
        picked[last] = picked[other]
        picked[other] = moved[0]
    return count


@numba.njit(nogil=True, cache=True)
def _free_phrases(
    phrases: Array, words: int, chosen: Array, source_left: int, target_left: int, candidates: Array
) -> int:
    """Collect the phrase pairs of `words` source words that overlap nothing chosen; returns how many."""
    found = 0
    for index in range(len(phrases)):
        phrase = phrases[index]
        if phrase.words != words:
            continue
        if phrase.source_tokens > source_left or phrase.target_tokens > target_left:
            continue
        free = True
        for other in range(len(chosen)):
            taken = chosen[other]
            free = free and (
                phrase.source_start + phrase.source_tokens <= taken.source_start
                or taken.source_start + taken.source_tokens <= phrase.source_start
            )
            free = free and (
                phrase.target_start + phrase.target_tokens <= taken.target_start
                or taken.target_start + taken.target_tokens <= phrase.target_start
            )
        if free:
            candidates[found] = index
            found += 1
    return found
