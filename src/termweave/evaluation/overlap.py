"""Are the constraints of a test set known from training, and are those that are not met as well?

A constraint is looked up in the prepared training corpus in two ways:

- as a phrase pair: the aligner linked just these two phrases somewhere, so training may have drawn them;
- as text: its source and its target stand, as whole words, in the two halves of one sentence pair, linked or not.

Every phrase pair is text as well, except where words end otherwise than letters and digits say. Both are looked up in
subwords, in the spellings with and without a space before them; letter case counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import ConstrainedSentence
from termweave.data.corpus import DirectionData, PreparedCorpus
from termweave.errors import DataError
from termweave.evaluation.csr import constraints_met
from termweave.storage import Array
from termweave.text.vocabulary import TextEncoder
from termweave.text.words import normalise

Needles = tuple[Array, Array, Array, Array]  # see `_needles`


@dataclass(frozen=True)
class Overlap:
    """How often the constraints of a set occur in training; one entry for each distinct pair of source and target."""

    pairs: tuple[tuple[str, str], ...]
    phrase_pairs: tuple[int, ...]  # training sentences that hold it as a phrase pair
    texts: tuple[int, ...]  # training sentences that hold it as text
    constraints: tuple[tuple[int, ...], ...]  # for each sentence of the set, its constraints as numbers of pairs
    training_sentences: int

    def share_seen(self, *, as_text: bool = False, distinct: bool = False) -> float | None:
        """Percentage of the constraints that training has seen; None if there are none.

        distinct: a constraint that several sentences have counts once.
        """
        seen = self._seen(as_text)
        numbers = range(len(seen)) if distinct else [number for row in self.constraints for number in row]
        return 100 * sum(seen[number] for number in numbers) / len(numbers) if numbers else None

    def _seen(self, as_text: bool) -> list[bool]:
        return [count > 0 for count in (self.texts if as_text else self.phrase_pairs)]

    def split(
        self,
        hypotheses: Sequence[str],
        sentences: Sequence[ConstrainedSentence],
        language: str,
        *,
        as_text: bool = False,
    ) -> SplitSuccess:
        """The success rate of constraints that training has seen, and of the others."""
        if not len(hypotheses) == len(sentences) == len(self.constraints):
            raise DataError(
                f"{len(hypotheses)} translations and {len(sentences)} sentences do not go with an overlap of "
                f"{len(self.constraints)} sentences; use the set it was measured on"
            )
        seen, counts = self._seen(as_text), {True: [0, 0], False: [0, 0]}
        for hypothesis, sentence, numbers in zip(hypotheses, sentences, self.constraints, strict=True):
            met = constraints_met(hypothesis, sentence.constraints, language)
            for number, flag in zip(numbers, met, strict=True):
                counts[seen[number]][0] += flag
                counts[seen[number]][1] += 1
        return SplitSuccess(*counts[True], *counts[False])

    def to_json(self) -> dict[str, object]:
        return {
            "training_sentences": self.training_sentences,
            "constraints": sum(map(len, self.constraints)),
            "distinct_constraints": len(self.pairs),
            "seen_as_phrase_pair": self.share_seen(),
            "seen_as_text": self.share_seen(as_text=True),
            "distinct_seen_as_phrase_pair": self.share_seen(distinct=True),
            "distinct_seen_as_text": self.share_seen(as_text=True, distinct=True),
        }


@dataclass(frozen=True)
class SplitSuccess:
    """Constraints met and demanded, by whether training has seen them."""

    seen_met: int
    seen: int
    unseen_met: int
    unseen: int

    @property
    def seen_rate(self) -> float | None:
        """CSR at phrase level, per cent; None if there is no such constraint."""
        return 100 * self.seen_met / self.seen if self.seen else None

    @property
    def unseen_rate(self) -> float | None:
        return 100 * self.unseen_met / self.unseen if self.unseen else None

    def to_json(self) -> dict[str, object]:
        return {
            "seen": self.seen,
            "seen_met": self.seen_met,
            "csr_seen": self.seen_rate,
            "unseen": self.unseen,
            "unseen_met": self.unseen_met,
            "csr_unseen": self.unseen_rate,
        }


def measure_overlap(
    sentences: Sequence[ConstrainedSentence], corpus: PreparedCorpus, direction: str | None = None
) -> Overlap:
    """Look up the constraints of a set in the training text of a direction."""
    data = _direction(corpus, direction)
    if data.phrases is None:
        raise DataError(f"{corpus.folder} has no phrase pairs yet; run `termweave prepare` again, it goes on")
    numbers: dict[tuple[str, str], int] = {}
    constraints = [
        tuple(numbers.setdefault(_pair(constraint), len(numbers)) for constraint in sentence.constraints)
        for sentence in sentences
    ]
    pairs = tuple(numbers)
    size = corpus.subwords.size
    source = _needles([pair[0] for pair in pairs], corpus.subwords.source, size)
    target = _needles([pair[1] for pair in pairs], corpus.subwords.target, size)
    found = data.phrases.values
    counts = _count(
        (data.source.values, data.source.offsets),
        (data.target.values, data.target.offsets),
        (found["source_start"], found["target_start"], found["source_tokens"], found["target_tokens"]),
        data.phrases.offsets,
        source,
        target,
        (corpus.subwords.ends_inside_word, corpus.subwords.begins_inside_word),
        len(pairs),
    )
    linked, texts = (tuple(map(int, each)) for each in counts)
    return Overlap(pairs, linked, texts, tuple(constraints), len(data))


def _direction(corpus: PreparedCorpus, name: str | None) -> DirectionData:
    names = [data.name for data in corpus.directions]
    if name is None and len(names) == 1:
        return corpus.directions[0]
    if name not in names:
        asked = "no direction was given" if name is None else f"{corpus.folder} was not prepared for {name}"
        raise DataError(f"{asked}; choose one of: {', '.join(names)}")
    return corpus.directions[names.index(name)]


def _pair(constraint: Constraint) -> tuple[str, str]:
    return normalise(constraint.source), normalise(constraint.target)


def _needles(texts: Sequence[str], encoder: TextEncoder, size: int) -> Needles:
    """What to look for, ordered by first token, so that a token of the corpus leads to the few that begin with it.

    firsts (vocabulary + 1,): the needles that begin with token t are firsts[t] to firsts[t + 1]. owner: which text a
    needle spells. tokens and offsets: those of needle n are tokens[offsets[n]:offsets[n + 1]].
    """
    spellings = []
    for number, text in enumerate(texts):
        attached = encoder.encode_attached(text)
        for tokens in {tuple(encoder.encode(text)), tuple(attached or ())} - {()}:
            spellings.append((tokens, number))
    spellings.sort()
    first = np.array([tokens[0] for tokens, _ in spellings], dtype=np.int64)
    lengths = np.array([0, *(len(tokens) for tokens, _ in spellings)], dtype=np.int64)
    return (
        np.searchsorted(first, np.arange(size + 1)),
        np.array([number for _, number in spellings], dtype=np.int64),
        np.array([token for tokens, _ in spellings for token in tokens], dtype=np.int64),
        np.cumsum(lengths),
    )


@numba.njit(nogil=True, cache=True)
def _count(
    source: tuple[Array, Array],
    target: tuple[Array, Array],
    phrases: tuple[Array, Array, Array, Array],
    phrase_offsets: Array,
    source_needles: Needles,
    target_needles: Needles,
    joins: tuple[Array, Array],
    pairs: int,
) -> tuple[Array, Array]:
    """For each pair the training sentences that hold it as a phrase pair, and as text."""
    linked, texts = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    # The last sentence in which something was found stands for "found in this sentence": nothing need be cleared.
    source_found, target_found, linked_found = (np.full(pairs, -1), np.full(pairs, -1), np.full(pairs, -1))
    source_starts, target_starts, source_lengths, target_lengths = phrases
    for sentence in range(len(source[1]) - 1):
        words = source[0][source[1][sentence] : source[1][sentence + 1]]
        others = target[0][target[1][sentence] : target[1][sentence + 1]]
        _mark(words, source_needles, joins, sentence, source_found, target_found, texts)
        _mark(others, target_needles, joins, sentence, target_found, source_found, texts)
        for phrase in range(phrase_offsets[sentence], phrase_offsets[sentence + 1]):
            start, length = source_starts[phrase], source_lengths[phrase]
            other_start, other_length = target_starts[phrase], target_lengths[phrase]
            firsts, owners = source_needles[0], source_needles[1]
            for needle in range(firsts[words[start]], firsts[words[start] + 1]):
                owner = owners[needle]
                if linked_found[owner] == sentence or not _is_at(words, start, length, needle, source_needles):
                    continue
                if _is_spelled(others, other_start, other_length, owner, target_needles):
                    linked_found[owner] = sentence
                    linked[owner] += 1
    return linked, texts


@numba.njit(nogil=True, cache=True)
def _mark(
    words: Array,
    needles: Needles,
    joins: tuple[Array, Array],
    sentence: int,
    found: Array,
    other_found: Array,
    counts: Array,
) -> None:
    """Note the sentence for every text that stands in it as whole words, and count where the other side does too."""
    firsts, owners, _, offsets = needles
    ends_inside, begins_inside = joins
    for start in range(len(words)):
        if start > 0 and begins_inside[words[start]] and ends_inside[words[start - 1]]:
            continue
        for needle in range(firsts[words[start]], firsts[words[start] + 1]):
            length = offsets[needle + 1] - offsets[needle]
            end = start + length
            if found[owners[needle]] == sentence or end > len(words):
                continue
            if end < len(words) and ends_inside[words[end - 1]] and begins_inside[words[end]]:
                continue
            if _is_at(words, start, length, needle, needles):
                found[owners[needle]] = sentence
                counts[owners[needle]] += other_found[owners[needle]] == sentence


@numba.njit(nogil=True, cache=True)
def _is_at(words: Array, start: int, length: int, needle: int, needles: Needles) -> bool:
    """Are these the tokens of a needle, no more and no less?"""
    tokens, offsets = needles[2], needles[3]
    first = offsets[needle]
    if offsets[needle + 1] - first != length:
        return False
    for place in range(length):  # noqa: SIM110  (compiled: a generator would not be)
        if words[start + place] != tokens[first + place]:
            return False
    return True


@numba.njit(nogil=True, cache=True)
def _is_spelled(words: Array, start: int, length: int, owner: int, needles: Needles) -> bool:
    """Do these tokens spell the text `owner`?"""
    firsts, owners = needles[0], needles[1]
    for needle in range(firsts[words[start]], firsts[words[start] + 1]):
        if owners[needle] == owner and _is_at(words, start, length, needle, needles):
            return True
    return False
