"""Subwords: a SentencePiece BPE vocabulary in which no text is out of vocabulary.

Normalisation is the identity and unknown characters are spelled in bytes, so decoding gives back exactly what
was encoded, and the places of pieces in the text follow from their lengths alone.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from termweave.errors import CheckpointError, ConfigError, DataError
from termweave.storage import atomic_path
from termweave.text.vocabulary import SPACE_MARK, TextEncoder, Vocabulary, is_word_character
from termweave.text.words import BROKEN

PAD, UNK, BOS, EOS = 0, 1, 2, 3
_QUIET = 2  # SentencePiece's log level: errors only


class Subwords(Vocabulary, TextEncoder):
    """A vocabulary of our own, the same for both sides."""

    pad, unk, bos, eos = PAD, UNK, BOS, EOS

    def __init__(self, model: bytes) -> None:
        self.model = model  # the serialised SentencePiece model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size: int = self._processor.get_piece_size()

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

    @property
    def source(self) -> TextEncoder:
        return self

    @property
    def target(self) -> TextEncoder:
        return self

    def encoder(self, language: str) -> TextEncoder:
        return self

    def require_directions(self, directions: Sequence[str]) -> None:
        languages = {language for direction in directions for language in direction.split("-")}
        if missing := sorted(languages - self.tags.keys()):
            raise ConfigError(f"the subword model has no tag for {', '.join(missing)}; prepare it anew")

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
        ids: list[int] = self._processor.encode(text)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; padding, tags, begin and end are skipped, and so are bytes that are no whole character."""
        special = self._special
        spelled = [int(index) for index in ids if int(index) not in special]
        text: str = self._processor.decode(spelled)
        if BROKEN in text and (whole := self._whole(spelled)) != spelled:
            text = " ".join(self._processor.decode(whole).split())  # what was between two spaces may be gone
        return text

    def _whole(self, ids: Sequence[int]) -> list[int]:
        """Without bytes that are no part of a character."""
        whole: list[int] = []
        for is_byte, run in itertools.groupby(ids, self._processor.is_byte):
            if is_byte:
                codes = bytes(int(self.piece(index)[3:5], 16) for index in run)  # <0x5B>
                whole += [
                    self._processor.piece_to_id(f"<0x{code:02X}>") for code in codes.decode(errors="ignore").encode()
                ]
            else:
                whole += run
        return whole

    def piece(self, index: int) -> str:
        piece: str = self._processor.id_to_piece(index)
        return piece

    def closest(self, text: str) -> str:
        """Bytes spell everything."""
        return text

    def token_bytes(self, texts: Sequence[str], ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        lengths: npt.NDArray[np.int64] = self.byte_lengths[ids]
        return lengths

    @functools.cached_property
    def byte_lengths(self) -> npt.NDArray[np.int64]:
        """Bytes of text each piece stands for, its leading space counted as one; specials stand for none."""
        lengths = np.zeros(self.size, dtype=np.int64)
        for index in range(self.size):
            if index in self._special:
                continue
            piece = self._processor.id_to_piece(index)
            spelled = piece.replace(SPACE_MARK, " ").encode()
            lengths[index] = 1 if self._processor.is_byte(index) else len(spelled)
        return lengths

    def _is_inside_word(self, index: int, place: int) -> bool:
        if not self._processor.is_byte(index):
            return super()._is_inside_word(index, place)
        code = int(self.piece(index)[3:5], 16)  # <0x5B>
        # A byte of a longer character: of which one, only its neighbours know. The careful answer is yes.
        return code >= 0x80 or is_word_character(chr(code))

    @functools.cached_property
    def _special(self) -> frozenset[int]:
        processor = self._processor
        return frozenset(
            index
            for index in range(self.size)
            if processor.is_control(index) or processor.is_unknown(index) or index == PAD
        )


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
