"""Subwords: a SentencePiece BPE vocabulary in which no text is out of vocabulary.

Normalisation is the identity and unknown characters are spelled in bytes, so decoding gives back exactly what
was encoded, and the places of pieces in the text follow from their lengths alone.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from termweave.errors import CheckpointError, ConfigError, DataError
from termweave.storage import atomic_path
from termweave.text.words import Span

PAD, UNK, BOS, EOS = 0, 1, 2, 3
_SPACE_MARK = "\u2581"
_QUIET = 2  # SentencePiece's log level: errors only


class Subwords:
    """A trained vocabulary. Texts are expected in the form `termweave.text.normalise` gives them."""

    pad, unk, bos, eos = PAD, UNK, BOS, EOS

    def __init__(self, model: bytes) -> None:
        self.model = model  # the serialised SentencePiece model, for writing it beside a checkpoint
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size: int = self._processor.get_piece_size()

    def __reduce__(self) -> tuple[type[Subwords], tuple[bytes]]:
        return type(self), (self.model,)

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        path: Path,
        *,
        size: int = 32000,
        languages: Iterable[str] = (),
        character_coverage: float = 0.9995,
        threads: int = 1,
    ) -> Subwords:
        """Learn a vocabulary of at most `size` pieces and write it to `path`.

        Text too small for so many pieces gives as many as there are: compare `.size` with what was asked for.
        `threads` hardly matters for BPE, but it is written into the file: files differ if it does.
        """
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(sentences),
                    model_writer=file,
                    **_training_options(size, languages, character_coverage, threads),
                )
            except (RuntimeError, OSError) as error:
                raise _training_error(str(error), size) from None
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> Subwords:
        try:
            subwords = cls(path.read_bytes())
        except FileNotFoundError:
            raise CheckpointError(f"{path}: there is no subword model here") from None
        except RuntimeError:
            raise CheckpointError(f"{path} is not a SentencePiece model, or is damaged") from None
        processor = subwords._processor
        ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if ids != (PAD, UNK, BOS, EOS) or not processor.is_byte(processor.piece_to_id("<0x00>")):
            raise CheckpointError(f"{path} was not made by Termweave: its special pieces are others")
        return subwords

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

    @functools.cached_property
    def tags(self) -> dict[str, int]:
        """Language → id of its tag. Control pieces: no input text can spell them."""
        pieces = ((index, self._processor.id_to_piece(index)) for index in range(EOS + 1, self.size))
        return {
            piece[2:-1]: index
            for index, piece in pieces
            if piece.startswith("<2") and self._processor.is_control(index)
        }

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without begin and end of sentence."""
        ids: list[int] = self._processor.encode(text)
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The same for many texts, several times faster: pieces never cross a space, so words are encoded once."""
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

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; padding, tags, begin and end are skipped, broken byte sequences are U+FFFD."""
        special = self._special
        text: str = self._processor.decode([int(index) for index in ids if int(index) not in special])
        return text

    def decode_batch(self, rows: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(row) for row in rows]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as SentencePiece writes them, for people to look at."""
        return [self._processor.id_to_piece(int(index)) for index in ids]

    def spans(self, text: str, ids: Sequence[int]) -> list[Span]:
        """The characters each token stands for; the space that leads a piece is left out.

        A character spelled in several bytes belongs to the first of them; the others are empty.
        """
        padded = np.frombuffer(f" {text}".encode(), dtype=np.uint8)
        ends = np.cumsum(self.byte_lengths[np.asarray(ids, dtype=np.int64)])
        if not len(ids) or int(ends[-1]) != len(padded):
            if len(ids) or text:
                raise ValueError("these ids are not the encoding of this text")
            return []
        starts = np.concatenate(([0], ends[:-1]))
        starts = starts + (padded[starts] == ord(" "))
        characters = np.concatenate(([0], np.cumsum((padded & 0xC0) != 0x80))) - 1  # one for the leading space
        return list(zip(characters[starts].tolist(), characters[ends].tolist(), strict=True))

    def starts_word(self, ids: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether each token begins with a space, or is the first of the sentence."""
        return self._leading_space[np.asarray(ids, dtype=np.int64)]

    @functools.cached_property
    def lone_space(self) -> int:
        """The token that is a space and nothing else; -1 if the vocabulary has none."""
        found = np.flatnonzero(self._leading_space & (self.byte_lengths == 1))
        return int(found[0]) if len(found) else -1

    @functools.cached_property
    def byte_lengths(self) -> npt.NDArray[np.int64]:
        """Bytes of text each piece stands for, its leading space counted as one; specials stand for none."""
        lengths = np.zeros(self.size, dtype=np.int64)
        for index in range(self.size):
            if index in self._special:
                continue
            piece = self._processor.id_to_piece(index)
            spelled = piece.replace(_SPACE_MARK, " ").encode()
            lengths[index] = 1 if self._processor.is_byte(index) else len(spelled)
        return lengths

    def encode_attached(self, text: str) -> list[int] | None:
        """The ids of `text` as it stands right behind an opening bracket; None if they cannot be told apart from it."""
        bracket, ids = self.encode("("), self.encode(f"({text}")
        return ids[len(bracket) :] if ids[: len(bracket)] == bracket else None

    @functools.cached_property
    def ends_inside_word(self) -> npt.NDArray[np.bool_]:
        """Whether a word could go on behind each piece. Characters of unspaced writing are words of their own."""
        return np.array([self._is_word_character(index, -1) for index in range(self.size)])

    @functools.cached_property
    def begins_inside_word(self) -> npt.NDArray[np.bool_]:
        """Whether each piece could go on with a word that stands before it."""
        return np.array([self._is_word_character(index, 0) for index in range(self.size)])

    def _is_word_character(self, index: int, place: int) -> bool:
        piece = self._processor.id_to_piece(index)
        if index in self._special or not piece:
            return False
        character = piece[place]
        if self._processor.is_byte(index):
            code = int(piece[3:5], 16)  # <0x5B>
            if code >= 0x80:
                return True  # of what character, only its neighbours know: the careful answer
            character = chr(code)
        wide = unicodedata.east_asian_width(character) in {"W", "F"}
        return not wide and (character.isalnum() or unicodedata.category(character).startswith("M"))

    @functools.cached_property
    def _known_words(self) -> _KnownWords:
        return _KnownWords(self._processor)

    @functools.cached_property
    def _leading_space(self) -> npt.NDArray[np.bool_]:
        pieces = (self._processor.id_to_piece(index) for index in range(self.size))
        return np.array([piece.startswith(_SPACE_MARK) for piece in pieces])

    @functools.cached_property
    def _special(self) -> frozenset[int]:
        processor = self._processor
        return frozenset(
            index
            for index in range(self.size)
            if processor.is_control(index) or processor.is_unknown(index) or index == PAD
        )


class _KnownWords(dict[str, list[int]]):
    """Words → their ids, worked out on first sight. Forgets everything now and then: memory stays bounded."""

    limit = 200_000
    longest = 40  # longer ones are Chinese sentences or noise, and hardly come again

    def __init__(self, processor: Any) -> None:
        super().__init__()
        self._encode = processor.encode

    def __missing__(self, word: str) -> list[int]:
        ids: list[int] = self._encode(word)
        if len(self) >= self.limit:
            self.clear()
        if len(word) <= self.longest:
            self[word] = ids
        return ids


def _training_options(size: int, languages: Iterable[str], character_coverage: float, threads: int) -> dict[str, Any]:
    return {
        "model_type": "bpe",
        "vocab_size": size,
        "hard_vocab_limit": False,  # a small corpus gives a small vocabulary instead of a failure
        "character_coverage": character_coverage,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "add_dummy_prefix": True,  # a word has one spelling, first in the sentence or not
        "remove_extra_whitespaces": False,
        "split_by_unicode_script": True,
        "split_by_number": True,
        "split_digits": False,  # years and amounts are few; single digits would lengthen all of them
        "pad_id": PAD,
        "unk_id": UNK,
        "bos_id": BOS,
        "eos_id": EOS,
        "control_symbols": [f"<2{language}>" for language in sorted(set(languages))],
        "max_sentence_length": 16384,
        "num_threads": threads,
        "minloglevel": _QUIET,
    }


def _training_error(message: str, size: int) -> DataError:
    """What SentencePiece's failure means to the user."""
    required = re.search(r"required_chars.*?(\d+) vs (\d+)", message) or re.search(r"(\d+)\s*<=\s*(\d+)", message)
    if "required_chars" in message and required:
        return DataError(
            f"subwords.size: {size} pieces do not hold all characters of this text; it takes more than "
            f"{max(map(int, required.groups()))}; raise it, or lower subwords.character_coverage"
        )
    if "sentences" in message and "empty" in message:
        return DataError("the subword vocabulary cannot be learned: there is no text left after cleaning")
    return DataError(f"SentencePiece could not learn a vocabulary of {size} pieces: {message}")
