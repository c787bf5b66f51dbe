"""The vocabulary of an imported MarianMT model: one SentencePiece model for each side, and a table of ids they share.

Three things set it apart from `Subwords`. The models rewrite text before they cut it (½ becomes 1⁄2), so the places of
tokens follow from SentencePiece's own map between the two. Characters without a piece are unknown, and text that has
one cannot be spelled. And the sides have a language each: a direction cannot be turned round.

On disk it is one file like any other vocabulary: an archive, not compressed, of the two models as they came, the table,
and which ids and languages play which part.
"""

from __future__ import annotations

import functools
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from termweave.errors import CheckpointError, ConfigError
from termweave.text.subwords import Subwords
from termweave.text.vocabulary import SPACE_MARK, KnownWords, TextEncoder, Vocabulary

SOURCE, TARGET, TABLE, ROLES = "source.spm", "target.spm", "vocab.json", "roles.json"
UNKNOWN, UNKNOWN_TEXT = "<unk>", "\u2047"
_FIRST_BYTES = b"PK"  # of an archive; those of a SentencePiece model are others
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same vocabulary gives the same file, whenever it is written


@dataclass(frozen=True)
class Roles:
    """Which ids and languages play which part."""

    pad: int
    bos: int  # what the decoder begins with
    eos: int
    source: tuple[str, ...]  # languages of the source side
    target: tuple[str, ...]
    tags: dict[str, str]  # target language → the piece that asks for it, ">>fra<<"; empty if the model has but one

    @classmethod
    def read(cls, tree: Mapping[str, Any]) -> Roles:
        """From what JSON made of it."""
        return cls(**{**tree, "source": tuple(tree["source"]), "target": tuple(tree["target"])})


def load_vocabulary(path: Path) -> Vocabulary:
    """A vocabulary of either kind."""
    try:
        with path.open("rb") as file:
            archived = file.read(len(_FIRST_BYTES)) == _FIRST_BYTES
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no subword model here") from None
    if not archived:
        return Subwords.load(path)
    try:
        return MarianVocabulary(path.read_bytes())
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}; import the model again") from None


class MarianVocabulary(Vocabulary):
    def __init__(self, model: bytes) -> None:
        self.model = model
        files = _unpack(model)
        self.roles = Roles.read(json.loads(files[ROLES]))
        self._pieces: list[str] = json.loads(files[TABLE])
        self._ids: dict[str, int] = {piece: index for index, piece in enumerate(self._pieces)}
        self.size = len(self._pieces)
        self.pad, self.bos, self.eos = self.roles.pad, self.roles.bos, self.roles.eos
        self.unk = self._ids[UNKNOWN]
        self._source = MarianEncoder(files[SOURCE], self)
        self._target = MarianEncoder(files[TARGET], self)

    @classmethod
    def build(cls, source: bytes, target: bytes, table: Mapping[str, int], roles: Roles) -> MarianVocabulary:
        """source, target: SentencePiece models; table: piece → id."""
        pieces = sorted(table, key=lambda piece: table[piece])
        if [table[piece] for piece in pieces] != list(range(len(pieces))):
            raise CheckpointError(f"{TABLE}: the ids must be 0, 1, 2 and so on, each for one piece")
        contents = {
            SOURCE: source,
            TARGET: target,
            TABLE: json.dumps(pieces, ensure_ascii=False).encode(),
            ROLES: json.dumps(asdict(roles)).encode(),
        }
        return cls(_pack(contents))

    @property
    def source(self) -> TextEncoder:
        return self._source

    @property
    def target(self) -> TextEncoder:
        return self._target

    def encoder(self, language: str) -> TextEncoder:
        if language not in (*self.roles.source, *self.roles.target):
            raise ConfigError(f"the imported model's vocabulary is not for {language!r}, but for {self._directions()}")
        return self._source if language in self.roles.source else self._target

    def require_directions(self, directions: Sequence[str]) -> None:
        for direction in directions:
            source, _, target = direction.partition("-")
            if source not in self.roles.source or target not in self.roles.target:
                raise ConfigError(
                    f"the imported model's vocabulary is not for {direction}, but for {self._directions()}; "
                    "change data.directions, or import a model of that direction"
                )

    def _directions(self) -> str:
        return ", ".join(f"{source}-{target}" for source in self.roles.source for target in self.roles.target)

    def lead(self, direction: str, directions: Sequence[str]) -> int | None:
        """A model of several target languages wants its tag, even where it was imported for one of them."""
        self.require_directions([direction])
        return self.tags.get(direction.split("-")[1])

    @functools.cached_property
    def tags(self) -> dict[str, int]:
        return {language: self._ids[piece] for language, piece in self.roles.tags.items()}

    def decode(self, ids: Iterable[int]) -> str:
        kept = (self._pieces[int(index)] for index in ids if int(index) not in self._special)
        return spelled(kept)

    def piece(self, index: int) -> str:
        return self._pieces[index]

    def id_of(self, piece: str) -> int:
        return self._ids.get(piece, self.unk)

    @functools.cached_property
    def _special(self) -> frozenset[int]:
        tags = (index for index, piece in enumerate(self._pieces) if is_tag(piece))
        return frozenset({self.pad, self.bos, self.eos, self.unk, *tags})

    def _is_inside_word(self, index: int, place: int) -> bool:
        # Nothing is written for what is unknown, so that words on both sides of it grow together.
        return index == self.unk or super()._is_inside_word(index, place)


class MarianEncoder(TextEncoder):
    """One of the two SentencePiece models, with the ids of the vocabulary instead of its own."""

    def __init__(self, model: bytes, vocabulary: MarianVocabulary) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._vocabulary = vocabulary
        if self._normalise("a")[0] != f"{SPACE_MARK}a":
            raise ValueError("its SentencePiece models do not put the space before a word, which we rely on")
        if any(self._processor.is_byte(index) for index in range(self._processor.get_piece_size())):
            raise ValueError("its SentencePiece models spell characters in bytes, which is not supported")

    def encode(self, text: str) -> list[int]:
        # By the pieces' spelling: what is unknown to the model of one side may be a piece of the other's.
        return [self._vocabulary.id_of(piece) for piece in self._cut(text)]

    def closest(self, text: str) -> str:
        unk = self._vocabulary.unk
        pieces = zip(self.encode(text), self._cut(text), strict=True)
        return spelled(
            piece if index != unk else SPACE_MARK * piece.startswith(SPACE_MARK) + UNKNOWN_TEXT
            for index, piece in pieces
        )

    def token_bytes(self, texts: Sequence[str], ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        known = self._known_bytes
        return np.array([number for text in texts for word in text.split(" ") for number in known[word]], np.int64)

    def _cut(self, text: str) -> list[str]:
        pieces: list[str] = self._processor.encode(text, out_type=str)
        return pieces

    def _normalise(self, text: str) -> tuple[str, list[int]]:
        """The text as it is cut, and for each of its characters, and for its end, the place it comes from."""
        normalised, places = self._processor.normalize(text, with_offsets=True)
        return normalised, places

    def _encode_word(self, word: str) -> list[int]:
        """At least one token, though nothing may be left of the word: every word has its place in a corpus's ids."""
        return self.encode(word) or [self._vocabulary.unk]

    @functools.cached_property
    def _known_bytes(self) -> KnownWords:
        return KnownWords(self._word_bytes)

    def _word_bytes(self, word: str) -> list[int]:
        """Bytes each token of a word stands for, with the space before it.

        A character that was rewritten as several belongs to the first token that has a part of it.
        """
        places = self._normalise(word)[1]
        bytes_before = np.cumsum([0, *(len(character.encode()) for character in word)])
        ends, read = [], 0
        for piece in self._cut(word):
            read += len(piece)
            last = places[read - 1] if read > 1 else -1  # the first character is the space, which is not in the word
            ends.append(1 + int(bytes_before[next((place for place in places[read:] if place > last), len(word))]))
        if not ends:
            return [1 + int(bytes_before[-1])]
        ends[-1] = 1 + int(bytes_before[-1])
        return np.diff(ends, prepend=0).tolist()


def is_tag(piece: str) -> bool:
    """A source token that names the language wanted, ">>fra<<"."""
    return piece.startswith(">>") and piece.endswith("<<")


def spelled(pieces: Iterable[str]) -> str:
    return "".join(pieces).replace(SPACE_MARK, " ").strip()


def _pack(contents: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), content)
    return buffer.getvalue()


def _unpack(model: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(model)) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise ValueError("its files are compressed")  # such a file is none of ours, and may unfold without end
        return {name: archive.read(name) for name in (SOURCE, TARGET, TABLE, ROLES)}
