"""Which sentence pairs are fit for training. What is left out is counted by reason."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from termweave.text.words import UNSPACED_LANGUAGES, Span, join_tokens, normalise

Hashes = npt.NDArray[np.uint64]

REASONS = ("empty", "too_long", "ratio", "test_set", "duplicate")
_SLACK = 5  # characters added to both lengths: ratios of very short sentences say little
_NEITHER_LETTER_NOR_DIGIT = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class CleaningRules:
    """What a pair must satisfy; travels to the worker processes."""

    source_language: str
    target_language: str
    max_characters: int
    max_ratio: float
    overlap_keys: frozenset[int] = frozenset()  # hashes of the sentences of the test sets


class RawPair(NamedTuple):
    """A pair as read. With `links`, both sides are tokenised and the links number their tokens."""

    source: str
    target: str
    links: tuple[tuple[int, int], ...] | None = None
    repeat: int = 1  # how often it stands in an epoch


class CleanPair(NamedTuple):
    """A pair in natural text. The spans are those of given tokens, and empty if words are still to be found."""

    source: str
    target: str
    source_spans: tuple[Span, ...] = ()
    target_spans: tuple[Span, ...] = ()
    links: tuple[tuple[int, int], ...] | None = None
    repeat: int = 1


@dataclass(frozen=True)
class CleanChunk:
    """The fit pairs of a chunk, the hash of each, and how many were left out for which reason."""

    pairs: list[CleanPair]
    hashes: Hashes
    rejected: dict[str, int]


def clean_chunk(rules: CleaningRules, pairs: list[RawPair]) -> CleanChunk:
    """Everything that can be decided about a pair without the others."""
    rejected = dict.fromkeys(REASONS, 0)
    kept: list[CleanPair] = []
    for raw in pairs:
        pair = _clean_pair(raw, rules)
        reason = _reason_against(pair, rules)
        if reason:
            rejected[reason] += 1
        else:
            kept.append(pair)
    hashes = np.fromiter((_hash(f"{pair.source}\n{pair.target}") for pair in kept), dtype=np.uint64, count=len(kept))
    return CleanChunk(kept, hashes, rejected)


def _clean_pair(raw: RawPair, rules: CleaningRules) -> CleanPair:
    if raw.links is None:
        return CleanPair(normalise(raw.source), normalise(raw.target), repeat=raw.repeat)
    source, source_spans = _join(raw.source, rules.source_language)
    target, target_spans = _join(raw.target, rules.target_language)
    return CleanPair(source, target, source_spans, target_spans, raw.links, raw.repeat)


def _join(line: str, language: str) -> tuple[str, tuple[Span, ...]]:
    """Tokenised text joined. A token that consists of invisible characters must keep its number: it becomes U+FFFD."""
    text, spans = join_tokens([normalise(token) or "\ufffd" for token in line.split()], language)
    return text, tuple(spans)


def _reason_against(pair: CleanPair, rules: CleaningRules) -> str | None:
    if not pair.source or not pair.target:
        return "empty"
    if max(len(pair.source), len(pair.target)) > rules.max_characters:
        return "too_long"
    lengths = _length(pair.source, rules.source_language), _length(pair.target, rules.target_language)
    if max(lengths) + _SLACK > rules.max_ratio * (min(lengths) + _SLACK):
        return "ratio"
    if rules.overlap_keys and not rules.overlap_keys.isdisjoint((overlap_key(pair.source), overlap_key(pair.target))):
        return "test_set"
    return None


def _length(text: str, language: str) -> int:
    """Length comparable across languages: a Chinese character says as much as three letters, its bytes in UTF-8."""
    return len(text.encode()) if language in UNSPACED_LANGUAGES else len(text)


def overlap_key(text: str) -> int:
    """A hash of the letters and digits of `text`, case ignored: the same for tokenised and for natural text.

    Text without any letter or digit has the key 0, which stands in no test set.
    """
    letters = _NEITHER_LETTER_NOR_DIGIT.sub("", text).casefold()
    return _hash(letters) if letters else 0


def overlap_keys(texts: Iterable[str]) -> frozenset[int]:
    return frozenset(overlap_key(normalise(text)) for text in texts) - {0}


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class SeenHashes:
    """Which hashes have been seen, in eight bytes each: sorted arrays of growing size, merged like a log."""

    def __init__(self) -> None:
        self._levels: list[Hashes] = []

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Remember `hashes`; True where one is seen for the first time."""
        unique, first = np.unique(hashes, return_index=True)
        fresh = np.ones(len(unique), dtype=bool)
        for level in self._levels:
            places = np.minimum(np.searchsorted(level, unique), len(level) - 1)
            fresh &= level[places] != unique
        is_new = np.zeros(len(hashes), dtype=bool)
        is_new[first[fresh]] = True
        if fresh.any():
            self._merge(unique[fresh])
        return is_new

    def _merge(self, level: Hashes) -> None:
        while self._levels and len(self._levels[-1]) <= 2 * len(level):
            level = np.concatenate([self._levels.pop(), level])
            level.sort(kind="stable")  # merges the two sorted runs
        self._levels.append(level)


def drop_duplicates(chunks: Iterable[CleanChunk]) -> Iterator[CleanChunk]:
    """Keep the first copy of every pair."""
    seen = SeenHashes()
    for chunk in chunks:
        is_new = seen.add(chunk.hashes)
        pairs = [pair for pair, new in zip(chunk.pairs, is_new, strict=True) if new]
        rejected = chunk.rejected | {"duplicate": len(chunk.pairs) - len(pairs)}
        yield CleanChunk(pairs, chunk.hashes[is_new], rejected)
