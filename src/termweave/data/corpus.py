"""A prepared corpus, opened for training: memory-mapped, so opening costs nothing and processes share the pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from termweave.constraints.phrases import PHRASE
from termweave.data.folder import ID, RECORD, SIDES, TOKENIZER, PairFolder, ragged_files, reverse
from termweave.errors import DataError
from termweave.storage import RaggedArray, read_json
from termweave.text.marian_vocabulary import load_vocabulary
from termweave.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class DirectionData:
    """The training sentences of one direction; row i of all arrays is the same sentence pair."""

    name: str  # "de-en"
    source: RaggedArray  # subword ids, without tag, begin and end
    target: RaggedArray
    phrases: RaggedArray | None  # PHRASE; None as long as they have not been extracted
    tag: int | None  # leads the source if the model has several directions

    def __len__(self) -> int:
        return len(self.source)

    @property
    def expansion(self) -> float:
        """Subwords of a target for each of its source, in the middle of all pairs: a few are in strange languages."""
        source, target = self.source.lengths, self.target.lengths
        filled = (source > 0) & (target > 0)
        return float(np.median(target[filled] / source[filled])) if filled.any() else 1.0


@dataclass(frozen=True)
class PreparedCorpus:
    """All directions, and the vocabulary their ids belong to."""

    folder: Path
    subwords: Vocabulary
    directions: tuple[DirectionData, ...]

    @classmethod
    def open(cls, folder: Path) -> PreparedCorpus:
        """Open what `termweave prepare` wrote; it must have come at least as far as the step `encode`."""
        if not (folder / RECORD).exists():
            raise DataError(f"{folder} holds no prepared corpus; run `termweave prepare` with this configuration first")
        record = read_json(folder / RECORD)
        try:
            done, names, pairs = set(record["steps"]), list(record["directions"]), list(record["pairs"])
        except (KeyError, TypeError):
            raise DataError(f"{folder / RECORD} is damaged; run `termweave prepare` again") from None
        if "encode" not in done:
            reached = ", ".join(record["steps"]) or "none"
            raise DataError(
                f"{folder} is not fully prepared (steps done: {reached}); run `termweave prepare` again, it goes on "
                "where it stopped"
            )
        subwords = load_vocabulary(folder / TOKENIZER)
        directions = tuple(
            _open_direction(folder, name, pairs, "phrases" in done, subwords.lead(name, names)) for name in names
        )
        return cls(folder, subwords, directions)


def _open_direction(root: Path, name: str, pairs: list[str], with_phrases: bool, tag: int | None) -> DirectionData:
    """A direction reads its pair folder forwards or backwards."""
    folder = PairFolder(root, name if name in pairs else reverse(name))
    source, target = (RaggedArray.open(folder.ids(side), ID) for side in (SIDES if name in pairs else SIDES[::-1]))
    phrases = None
    if with_phrases and ragged_files(folder.phrases(name))[0].exists():
        phrases = RaggedArray.open(folder.phrases(name), PHRASE)
    if len(source) != len(target) or (phrases is not None and len(phrases) != len(source)):
        raise DataError(f"{folder.path}: the files do not belong together; run `termweave prepare` again")
    return DirectionData(name, source, target, phrases, tag)
