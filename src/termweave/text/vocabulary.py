"""What every kind of vocabulary can do: text into ids and back, and what is known of single pieces.

Pieces are written as SentencePiece writes them, with a mark for the space that leads them. What a piece says about
words follows from its characters alone, so it is worked out here once, for all kinds.
"""

from __future__ import annotations

import functools
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from termweave.errors import ConfigError
from termweave.storage import atomic_path
from termweave.text.words import Span

SPACE_MARK = "\u2581"
_REMEMBERED = 20_000  # spellings of phrases
# Marks that stand right before and behind a phrase, alone or as pairs.
_MARKS = ("()", "[]", '""', "''", "„“", "‚‘", "“”", "‘’", "»«", "«»", "›‹", "‹›")
_AROUND = [("", ""), *((before, "") for before in "/:=-.#"), *(("", behind) for behind in ".,:;!?/-")]
_AROUND += [around for own in _MARKS for around in ((own[0], ""), ("", own[1]), (own[0], own[1]))]


class TextEncoder(ABC):
    """Turns the text of one side, source or target, into ids. Texts come in the form `normalise` gives them."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without begin and end of sentence."""

    @abstractmethod
    def closest(self, text: str) -> str:
        """What the vocabulary can spell of a text: the text itself, unless it lacks characters or rewrites some."""

    @abstractmethod
    def token_bytes(self, texts: Sequence[str], ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Bytes of text each token stands for, the space before each text and word counted.

        ids: those of `encode_batch`, end to end.
        """

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, several times faster: pieces never cross a space, so words are encoded once."""
        known = self._known_words
        rows: list[list[int]] = []
        for text in texts:
            words = text.split(" ")
            if "" in words:  # empty, or with spaces that normalised text does not have
                rows.append(self.encode(text))
                continue
            row: list[int] = []
            for word in words:
                row += known[word]
            rows.append(row)
        return rows

    def spans(self, text: str, ids: Sequence[int]) -> list[Span]:
        """The characters each token stands for; the space that leads a piece is left out.

        A character spelled in several bytes belongs to the first of them; the others are empty.
        """
        padded = np.frombuffer(f" {text}".encode(), dtype=np.uint8)
        ends = (
            np.cumsum(self.token_bytes([text], np.asarray(ids, dtype=np.int64))) if len(ids) else np.zeros(0, np.int64)
        )
        if not len(ids) or int(ends[-1]) != len(padded):
            if len(ids) or text:
                raise ValueError("these ids are not the encoding of this text")
            return []
        starts = np.concatenate(([0], ends[:-1]))
        starts = starts + (padded[starts] == ord(" "))
        characters = np.concatenate(([0], np.cumsum((padded & 0xC0) != 0x80))) - 1  # one for the leading space
        return list(zip(characters[starts].tolist(), characters[ends].tolist(), strict=True))

    def encode_attached(self, text: str) -> list[int] | None:
        """The ids of `text` as it stands right behind an opening bracket; None if they cannot be told apart from it."""
        bracket, ids = self._bracket, self.encode(f"({text}")
        return ids[len(bracket) :] if ids[: len(bracket)] == bracket else None

    @functools.cached_property
    def _bracket(self) -> list[int]:
        return self.encode("(")

    @functools.cached_property
    def spellings(self) -> Callable[[str], tuple[tuple[int, ...], ...]]:
        """The ids of a phrase behind a space, then right behind a bracket, then together with the marks that share a
        piece with its ends: "%s" in quotes may begin with the piece «"%». None if the vocabulary cannot spell it.

        The terms of a glossary come again and again, so they are remembered.
        """
        return functools.lru_cache(_REMEMBERED)(self._spellings)

    def _spellings(self, text: str) -> tuple[tuple[int, ...], ...]:
        if self.closest(text) != text:
            return ()
        found = [self.encode(text), self.encode_attached(text) or ()]
        # Letters share no piece with marks; for phrases that begin and end with one, there is nothing more to find.
        ends = not text[:1].isalpha(), not text[-1:].isalpha()
        around = {(before * ends[0], behind * ends[1]) for before, behind in _AROUND} if any(ends) else ()
        found += [self._inside(text, *marks) for marks in sorted(around)]
        return tuple(dict.fromkeys(tuple(ids) for ids in found if ids))

    def _inside(self, text: str, before: str, behind: str) -> list[int]:
        """The ids that a phrase is spelled with between two marks; none if the vocabulary cannot spell those."""
        whole = f"{before}{text}{behind}"
        if self.closest(whole) != whole:
            return []
        ids, first, last = self.encode(whole), len(before), len(before) + len(text)
        places = zip(ids, self.spans(whole, ids), strict=True)
        return [own for own, (start, end) in places if start < last and end > first]

    @functools.cached_property
    def _known_words(self) -> KnownWords:
        return KnownWords(self._encode_word)

    def _encode_word(self, word: str) -> list[int]:
        return self.encode(word)


class Vocabulary(ABC):
    """Ids and what they stand for. Two encoders may share the ids, one for each side of a translation."""

    pad: int
    unk: int
    bos: int  # what the output begins with, before its first token
    eos: int
    size: int
    model: bytes  # the file it was read from, for writing it beside a checkpoint

    @property
    @abstractmethod
    def source(self) -> TextEncoder: ...

    @property
    @abstractmethod
    def target(self) -> TextEncoder: ...

    @abstractmethod
    def encoder(self, language: str) -> TextEncoder:
        """The encoder for text in a language."""

    @abstractmethod
    def require_directions(self, directions: Sequence[str]) -> None:
        """Refuse what the vocabulary was not made for."""

    @property
    @abstractmethod
    def tags(self) -> dict[str, int]:
        """Language → id of the tag that asks for it. No text can spell a tag."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; what is no text (padding, tags, begin, end, unknown) is skipped."""

    @abstractmethod
    def piece(self, index: int) -> str: ...

    @property
    @abstractmethod
    def _special(self) -> frozenset[int]:
        """The ids that are no text."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model,)

    def save(self, path: Path) -> None:
        with atomic_path(path) as temporary:
            temporary.write_bytes(self.model)

    def tag(self, language: str) -> int:
        """The id of the tag that asks for a translation into `language`."""
        tags = self.tags
        if language not in tags:
            known = ", ".join(sorted(tags)) or "none"
            raise ConfigError(f"the subword model has no tag for {language!r} (it has: {known}); prepare it anew")
        return tags[language]

    def lead(self, direction: str, directions: Sequence[str]) -> int | None:
        """The tag that leads the source in one of a model's directions; a single direction needs none."""
        return self.tag(direction.split("-")[1]) if len(directions) > 1 else None

    def decode_batch(self, rows: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(row) for row in rows]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as SentencePiece writes them, for people to look at."""
        return [self.piece(int(index)) for index in ids]

    def starts_word(self, ids: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether each token begins with a space, or is the first of the sentence."""
        return self._leading_space[np.asarray(ids, dtype=np.int64)]

    @functools.cached_property
    def lone_space(self) -> int:
        """The token that is a space and nothing else; -1 if the vocabulary has none."""
        return next((index for index in range(self.size) if self.piece(index) == SPACE_MARK), -1)

    @functools.cached_property
    def ends_inside_word(self) -> npt.NDArray[np.bool_]:
        """Whether a word could go on behind each piece. Characters of unspaced writing are words of their own."""
        return np.array([self._is_inside_word(index, -1) for index in range(self.size)])

    @functools.cached_property
    def begins_inside_word(self) -> npt.NDArray[np.bool_]:
        """Whether each piece could go on with a word that stands before it."""
        return np.array([self._is_inside_word(index, 0) for index in range(self.size)])

    def _is_inside_word(self, index: int, place: int) -> bool:
        """Is the character at one end of a piece part of a word?"""
        piece = self.piece(index)
        return index not in self._special and bool(piece) and is_word_character(piece[place])

    @functools.cached_property
    def _leading_space(self) -> npt.NDArray[np.bool_]:
        return np.array([self.piece(index).startswith(SPACE_MARK) for index in range(self.size)])


def is_word_character(character: str) -> bool:
    wide = unicodedata.east_asian_width(character) in {"W", "F"}
    return not wide and (character.isalnum() or unicodedata.category(character).startswith("M"))


class KnownWords(dict[str, list[int]]):
    """Words → numbers of theirs, worked out on first sight. Forgets everything now and then: memory stays bounded."""

    limit = 200_000
    longest = 40  # longer ones are Chinese sentences or noise, and hardly come again

    def __init__(self, work_out: Callable[[str], list[int]]) -> None:
        super().__init__()
        self._work_out = work_out

    def __missing__(self, word: str) -> list[int]:
        numbers = self._work_out(word)
        if len(self) >= self.limit:
            self.clear()
        if len(word) <= self.longest:
            self[word] = numbers
        return numbers
