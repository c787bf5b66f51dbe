"""Phrase pairs that may become constraints, extracted from word links.

A window of source words [i, j] and the target words it is linked to, [low, high], make a phrase pair if

1. the window has at most `max_words` words and each of them is linked;
2. no target word in [low, high] is linked to a source word outside the window (unlinked ones are fine);
3. (target words − 1) < 1.6 · (source words − 1) + 1, which keeps far-fetched links out;
4. neither side has a word that is only punctuation, and both have at least one content word;
5. on both sides the phrase begins and ends where a token does, so that it can be cut out of the ids.

Extraction is compiled and releases the interpreter lock: millions of sentences, no Python loop over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from termweave.errors import DataError
from termweave.storage import Array

PHRASE = np.dtype(
    [
        ("source_start", "<u2"),  # position of the first token in its sentence
        ("target_start", "<u2"),
        ("source_tokens", "u1"),  # length in tokens
        ("target_tokens", "u1"),
        ("words", "u1"),  # length of the source side in words
        ("unused", "u1"),
    ]
)

MAX_START = np.iinfo(np.uint16).max
MAX_TOKENS = np.iinfo(np.uint8).max


@dataclass(frozen=True)
class WordSide:
    """The words of many sentences on one side, end to end.

    Tokens are whatever phrases shall be counted in: subwords for training, words or characters for evaluation.
    """

    token_start: Array  # int32: first token of the word in its sentence; -1 if a token straddles that edge
    token_end: Array  # int32: one past its last token; -1 if a token straddles that edge
    content: Array  # uint8: 1 if the word is no stop word, has no digit and is not punctuation
    punctuation: Array  # uint8: 1 if the word is only punctuation
    offsets: Array  # int64: the words of sentence s are offsets[s] to offsets[s + 1]


def extract_phrases(
    links_source: Array,
    links_target: Array,
    link_offsets: Array,
    source: WordSide,
    target: WordSide,
    max_words: int,
) -> tuple[Array, Array]:
    """All phrase pairs of a chunk of sentences, end to end (PHRASE), and their number per sentence (int64).

    `links_source[k]` and `links_target[k]` are the word positions a link joins; the links of sentence s are
    link_offsets[s] to link_offsets[s + 1]. Pairs are ordered by source position, then by length.
    """
    sentences = len(link_offsets) - 1
    if len(source.offsets) - 1 != sentences or len(target.offsets) - 1 != sentences:
        raise DataError(
            f"links of {sentences} sentences do not fit {len(source.offsets) - 1} source and "
            f"{len(target.offsets) - 1} target sentences; align the text again"
        )
    most = int(source.offsets[-1] - source.offsets[0]) * max_words
    phrases = np.zeros(most, dtype=PHRASE)
    lengths = np.zeros(sentences, dtype=np.int64)
    total, broken = _extract(
        np.ascontiguousarray(links_source, dtype=np.uint16),
        np.ascontiguousarray(links_target, dtype=np.uint16),
        np.ascontiguousarray(link_offsets, dtype=np.int64),
        _columns(source),
        np.ascontiguousarray(source.offsets, dtype=np.int64),
        _columns(target),
        np.ascontiguousarray(target.offsets, dtype=np.int64),
        max_words,
        phrases,
        lengths,
    )
    if broken >= 0:
        raise DataError(
            f"sentence {broken + 1} of this chunk has a link to a word that does not exist; "
            "the links belong to another text or another word splitting: align it again"
        )
    return phrases[:total].copy(), lengths


Columns = tuple[Array, Array, Array, Array]


def _columns(side: WordSide) -> Columns:
    return (
        np.ascontiguousarray(side.token_start, dtype=np.int32),
        np.ascontiguousarray(side.token_end, dtype=np.int32),
        np.ascontiguousarray(side.content, dtype=np.uint8),
        np.ascontiguousarray(side.punctuation, dtype=np.uint8),
    )


@numba.njit(nogil=True, cache=True)
def _extract(
    links_source: Array,
    links_target: Array,
    link_offsets: Array,
    source: Columns,
    source_offsets: Array,
    target: Columns,
    target_offsets: Array,
    max_words: int,
    phrases: Array,
    lengths: Array,
) -> tuple[int, int]:
    """Fill `phrases` and `lengths`; returns the total and the first sentence with a wrong link, or -1."""
    total = 0
    for sentence in range(len(lengths)):
        first, last = link_offsets[sentence], link_offsets[sentence + 1]
        if first == last:
            continue
        source_here = _rows(source, source_offsets[sentence], source_offsets[sentence + 1])
        target_here = _rows(target, target_offsets[sentence], target_offsets[sentence + 1])
        source_reach = _reach(links_source[first:last], links_target[first:last], len(source_here[0]))
        target_reach = _reach(links_target[first:last], links_source[first:last], len(target_here[0]))
        if len(source_reach) == 0 or len(target_reach) == 0:
            return total, sentence
        before = total
        total = _extract_sentence(source_reach, target_reach, source_here, target_here, max_words, phrases, total)
        lengths[sentence] = total - before
    return total, -1


@numba.njit(nogil=True, cache=True)
def _rows(side: Columns, first: int, last: int) -> Columns:
    return side[0][first:last], side[1][first:last], side[2][first:last], side[3][first:last]


@numba.njit(nogil=True, cache=True)
def _reach(here: Array, there: Array, words: int) -> Array:
    """First and last word on the other side each word is linked to, (words, 2); last < first if unlinked.

    Empty if a link names a word that does not exist.
    """
    reach = np.empty((words, 2), dtype=np.int64)
    reach[:, 0] = 1 << 30
    reach[:, 1] = -1
    for link in range(len(here)):
        word, other = np.int64(here[link]), np.int64(there[link])
        if word >= words:
            return np.empty((0, 2), dtype=np.int64)
        reach[word, 0] = min(reach[word, 0], other)
        reach[word, 1] = max(reach[word, 1], other)
    return reach


@numba.njit(nogil=True, cache=True)
def _extract_sentence(
    source_reach: Array,
    target_reach: Array,
    source: Columns,
    target: Columns,
    max_words: int,
    phrases: Array,
    total: int,
) -> int:
    """Append the phrase pairs of one sentence to `phrases` at `total`; returns the new total."""
    source_start, source_end, source_content, source_punctuation = source
    target_start, target_end, target_content, target_punctuation = target
    for start in range(len(source_start)):
        low, high, content = 1 << 30, -1, False
        for end in range(start, min(start + max_words, len(source_start))):
            if source_reach[end, 1] < 0 or source_punctuation[end]:
                break  # no longer window can be consistent either
            low, high = min(low, source_reach[end, 0]), max(high, source_reach[end, 1])
            content = content or source_content[end] != 0
            if not content or 10 * (high - low) >= 16 * (end - start) + 10:
                continue
            if not _closed(target_reach, target_content, target_punctuation, low, high, start, end):
                continue
            if min(source_start[start], source_end[end], target_start[low], target_end[high]) < 0:
                continue
            source_tokens = source_end[end] - source_start[start]
            target_tokens = target_end[high] - target_start[low]
            if not (0 < source_tokens <= MAX_TOKENS and 0 < target_tokens <= MAX_TOKENS):
                continue
            if max(source_start[start], target_start[low]) > MAX_START:
                continue
            phrases[total].source_start = source_start[start]
            phrases[total].target_start = target_start[low]
            phrases[total].source_tokens = source_tokens
            phrases[total].target_tokens = target_tokens
            phrases[total].words = end - start + 1
            total += 1
    return total


@numba.njit(nogil=True, cache=True)
def _closed(target_reach: Array, content: Array, punctuation: Array, low: int, high: int, start: int, end: int) -> bool:
    """Whether target words low..high have a content word, no punctuation, and no link leaving start..end."""
    any_content = False
    for word in range(low, high + 1):
        if punctuation[word]:
            return False
        if target_reach[word, 1] >= 0 and (target_reach[word, 0] < start or target_reach[word, 1] > end):
            return False
        any_content = any_content or content[word] != 0
    return any_content
