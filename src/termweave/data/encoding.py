"""From cleaned text to numbers: subword ids, word ids, and where each word lies in the ids.

All functions work on chunks of sentences; loops over single tokens run in numpy or in SentencePiece.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from termweave.data.folder import CONTENT, ID, PUNCTUATION, STRADDLED, WORD_SPAN
from termweave.storage import Array
from termweave.text.marian_vocabulary import load_vocabulary
from termweave.text.stopwords import is_content, is_punctuation
from termweave.text.vocabulary import TextEncoder, Vocabulary
from termweave.text.words import Span, split_words

_REMEMBERED = 200_000  # parts of text whose words, and words whose kind, a process keeps in mind from chunk to chunk


class EncodingRules(NamedTuple):
    """What the worker processes need to know."""

    tokenizer: Path
    languages: tuple[str, str]
    max_tokens: int


class TextPair(NamedTuple):
    """A cleaned pair; the spans are those of given tokens, if it came with links, and None otherwise."""

    source: str
    target: str
    source_spans: Sequence[Span] | None = None
    target_spans: Sequence[Span] | None = None


@dataclass(frozen=True)
class EncodedSide:
    """One side of the sentences of a chunk, end to end."""

    ids: Array
    id_lengths: Array
    words: Array  # positions in `vocabulary`
    word_lengths: Array
    vocabulary: list[str]  # the distinct words of this chunk, casefolded, in order of appearance
    spans: Array  # WORD_SPAN, one per word


@dataclass(frozen=True)
class EncodedChunk:
    """The sentences of a chunk that are short enough; `kept` marks them among all that went in."""

    sides: tuple[EncodedSide, EncodedSide]
    kept: Array


def encode_chunk(rules: EncodingRules, pairs: list[TextPair]) -> EncodedChunk:
    """Encode a chunk, without the pairs of which a side has too many tokens."""
    encoders = [_load(rules.tokenizer).encoder(language) for language in rules.languages]
    if any(pair.source_spans is not None for pair in pairs):
        return _encode_literally(rules, encoders, pairs)
    divided = [_divide([pair.source for pair in pairs]), _divide([pair.target for pair in pairs])]
    kept = np.ones(len(pairs), dtype=bool)
    for parts, encoder in zip(divided, encoders, strict=True):
        lengths = np.array([len(row) for row in encoder.encode_batch(parts.distinct)], dtype=np.int64)
        kept &= parts.sums(lengths[parts.numbers]) <= rules.max_tokens
    sides = []
    for parts, encoder, language in zip(divided, encoders, rules.languages, strict=True):
        used = parts if kept.all() else parts.keep(kept)
        spans = [_split_part(part, language) for part in used.distinct]
        rows = encoder.encode_batch(used.distinct)
        sides.append(_put_together(_encode_words(encoder, used.distinct, spans, rows, language), used))
    return EncodedChunk((sides[0], sides[1]), kept)


def _encode_literally(rules: EncodingRules, encoders: list[TextEncoder], pairs: list[TextPair]) -> EncodedChunk:
    """The way for text that brings its own tokens: every word of every sentence is looked at."""
    texts = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
    given = [[pair.source_spans for pair in pairs], [pair.target_spans for pair in pairs]]
    rows = [encoder.encode_batch(side) for encoder, side in zip(encoders, texts, strict=True)]
    kept = np.array([max(map(len, pair)) <= rules.max_tokens for pair in zip(*rows, strict=True)], dtype=bool)
    chosen = np.flatnonzero(kept).tolist()
    sides = []
    for side, language in enumerate(rules.languages):
        spans = [given[side][row] or split_words(texts[side][row], language) for row in chosen]
        ids = [rows[side][row] for row in chosen]
        sides.append(_encode_words(encoders[side], [texts[side][row] for row in chosen], spans, ids, language))
    return EncodedChunk((sides[0], sides[1]), kept)


@functools.lru_cache(maxsize=1)
def _load(path: Path) -> Vocabulary:
    """Once per process, not once per chunk."""
    return load_vocabulary(path)


@dataclass(frozen=True)
class _Parts:
    """Texts as sequences of the parts between their spaces, each distinct part numbered in order of appearance."""

    distinct: list[str]
    numbers: Array  # the parts of all texts, end to end
    per_text: Array

    def sums(self, amounts: Array) -> Array:
        """Sum up, over each text, what is given for each of its parts."""
        texts = np.repeat(np.arange(len(self.per_text)), self.per_text)
        return np.bincount(texts, weights=amounts, minlength=len(self.per_text)).astype(np.int64)

    def keep(self, kept: Array) -> _Parts:
        """Only some texts, with the parts numbered as if there had never been others."""
        numbers = self.numbers[np.repeat(kept, self.per_text)]
        used, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        order = np.argsort(first)
        renumbered = np.empty(len(used), dtype=np.int64)
        renumbered[order] = np.arange(len(used))
        return _Parts(
            [self.distinct[number] for number in used[order].tolist()], renumbered[places], self.per_text[kept]
        )


def _divide(texts: list[str]) -> _Parts:
    numbers = _Numbers()
    parts = np.array([numbers[part] for text in texts for part in text.split(" ")], dtype=np.int64)
    return _Parts(list(numbers), parts, np.array([text.count(" ") + 1 for text in texts], dtype=np.int64))


def _encode_words(
    encoder: TextEncoder, texts: list[str], spans: Sequence[Sequence[Span]], rows: list[list[int]], language: str
) -> EncodedSide:
    """Texts, their words and their ids (`rows`) as arrays."""
    table = _WordTable(language)
    forms = np.array(
        [table[text[start:end]] for text, row in zip(texts, spans, strict=True) for start, end in row], dtype=np.int64
    )
    ids = np.fromiter(chain.from_iterable(rows), dtype=ID)
    id_lengths = np.array([len(row) for row in rows], dtype=np.int64)
    word_lengths = np.array([len(row) for row in spans], dtype=np.int64)
    flat_spans = np.fromiter(chain.from_iterable(chain.from_iterable(spans)), dtype=np.int64).reshape(-1, 2)
    places = np.zeros(len(forms), dtype=WORD_SPAN)
    places["token_start"], places["token_end"] = locate_words(encoder, texts, ids, id_lengths, flat_spans, word_lengths)
    places["flags"] = np.array(table.flags, dtype=np.uint8)[forms]
    words = np.array(table.folded, dtype=np.int32)[forms]
    return EncodedSide(ids, id_lengths, words, word_lengths, list(table.vocabulary), places)


def _put_together(encoded: EncodedSide, parts: _Parts) -> EncodedSide:
    """Texts from their parts. Neither words nor pieces cross a space, so it is enough to encode each part once."""
    id_lengths, word_lengths = encoded.id_lengths[parts.numbers], encoded.word_lengths[parts.numbers]
    ids = encoded.ids[_ranges(_starts(encoded.id_lengths)[parts.numbers], id_lengths)]
    chosen = _ranges(_starts(encoded.word_lengths)[parts.numbers], word_lengths)
    ids_per_text = parts.sums(id_lengths)
    before = _starts(id_lengths) - np.repeat(_starts(ids_per_text), parts.per_text)  # tokens earlier in the text
    places = encoded.spans[chosen]
    for edge in ("token_start", "token_end"):
        inside = places[edge] != STRADDLED
        places[edge] += np.where(inside, np.repeat(before, word_lengths), 0).astype(np.uint16)
    words = encoded.words[chosen]
    return EncodedSide(ids, ids_per_text, words, parts.sums(word_lengths), encoded.vocabulary, places)


def _starts(lengths: Array) -> Array:
    return np.cumsum(lengths) - lengths


def _ranges(starts: Array, lengths: Array) -> Array:
    """The index ranges start … start + length, one after the other."""
    return np.repeat(starts - _starts(lengths), lengths) + np.arange(int(lengths.sum()))


class _Numbers(dict[str, int]):
    """Numbers things as they are met."""

    def __missing__(self, thing: str) -> int:
        self[thing] = number = len(self)
        return number


class _WordTable(dict[str, int]):
    """Numbers the forms of words as they are met, and works out what there is to know about each only once."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language
        self.vocabulary: dict[str, int] = {}  # casefolded
        self.folded: list[int] = []  # form → position in the vocabulary
        self.flags: list[int] = []

    def __missing__(self, form: str) -> int:
        self.folded.append(self.vocabulary.setdefault(form.casefold(), len(self.vocabulary)))
        self.flags.append(_word_flags(form, self.language))
        self[form] = number = len(self)
        return number


@functools.lru_cache(maxsize=_REMEMBERED)
def _split_part(part: str, language: str) -> list[Span]:
    return split_words(part, language)


@functools.lru_cache(maxsize=_REMEMBERED)
def _word_flags(form: str, language: str) -> int:
    return CONTENT * is_content(form, language) + PUNCTUATION * is_punctuation(form)


def locate_words(
    encoder: TextEncoder, texts: list[str], ids: Array, id_lengths: Array, word_spans: Array, word_lengths: Array
) -> tuple[Array, Array]:
    """First token and one past the last token of every word, within its sentence.

    Each text is written with the space SentencePiece puts before it; then the lengths of the tokens in bytes add up to
    the places of all of them. A token without length goes with the one before it. The space before a word belongs to
    the word's first token, or is that token itself. An edge inside a token is STRADDLED.
    """
    data = np.frombuffer("".join(f" {text}" for text in texts).encode(), dtype=np.uint8)
    token_bytes = np.zeros(len(ids) + 1, dtype=np.int64)
    np.cumsum(encoder.token_bytes(texts, ids), out=token_bytes[1:])
    if token_bytes[-1] != len(data):
        raise ValueError("these ids are not the encodings of these texts")
    token_at = np.full(len(data) + 1, -1, dtype=np.int64)  # byte → token that begins there
    token_at[token_bytes] = np.arange(len(ids) + 1)
    byte_of_character = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    text_starts = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1] + 1
    edges = byte_of_character[word_spans + np.repeat(text_starts, word_lengths)[:, None]]
    starts, ends = edges[:, 0], edges[:, 1]
    with_space = np.where(data[starts - 1] == ord(" "), token_at[starts - 1], -1)
    first = np.where(with_space >= 0, with_space, token_at[starts])
    last = token_at[ends]
    sentence_start = np.repeat(np.cumsum(id_lengths) - id_lengths, word_lengths)
    return (
        np.where(first >= 0, first - sentence_start, STRADDLED),
        np.where(last >= 0, last - sentence_start, STRADDLED),
    )
