"""What lies where in a prepared folder.

prepare.json            steps done, with their keys, counts, times and memory
tokenizer.model         the subword vocabulary
de-en/                  one folder per language pair of the corpora
    clean.source.txt    cleaned text, and clean.target.txt
    given.source        spans of tokens that came with links, given.target, given.links (only if there are any)
    source.ids          subword ids, target.ids
    source.words        word ids for the aligner, target.words
    source.vocabulary   the words in the order of their ids, one per line, target.vocabulary
    source.spans        place and kind of each word in the ids, target.spans
    brought.links       links the user brought, row by row with the ids (only if there are any)
    links               word links
    de-en.phrases       phrase pairs of a direction; en-de.phrases if that is asked for too
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

ID = np.dtype("<u2")
WORD = np.dtype("<i4")
CHARACTER_SPAN = np.dtype([("start", "<u4"), ("end", "<u4")])
WORD_SPAN = np.dtype(
    [
        ("token_start", "<u2"),  # first token of the word in its sentence; STRADDLED if a token crosses that edge
        ("token_end", "<u2"),  # one past its last token, likewise
        ("flags", "u1"),  # CONTENT, PUNCTUATION
    ]
)
STRADDLED = 0xFFFF
CONTENT, PUNCTUATION = 1, 2

RECORD = "prepare.json"
TOKENIZER = "tokenizer.model"
SIDES = ("source", "target")


@dataclass(frozen=True)
class PairFolder:
    """The folder of one language pair. Names without suffix are ragged arrays, two files each."""

    root: Path
    name: str  # "de-en"

    @property
    def path(self) -> Path:
        return self.root / self.name

    @property
    def languages(self) -> tuple[str, str]:
        source, target = self.name.split("-")
        return source, target

    def text(self, side: str) -> Path:
        return self.path / f"clean.{side}.txt"

    def given_spans(self, side: str) -> Path:
        return self.path / f"given.{side}"

    @property
    def given_links(self) -> Path:
        return self.path / "given.links"

    def ids(self, side: str) -> Path:
        return self.path / f"{side}.ids"

    def words(self, side: str) -> Path:
        return self.path / f"{side}.words"

    def vocabulary(self, side: str) -> Path:
        return self.path / f"{side}.vocabulary"

    def spans(self, side: str) -> Path:
        return self.path / f"{side}.spans"

    @property
    def brought_links(self) -> Path:
        return self.path / "brought.links"

    @property
    def links(self) -> Path:
        return self.path / "links"

    def phrases(self, direction: str) -> Path:
        return self.path / f"{direction}.phrases"


def ragged_files(path: Path) -> list[Path]:
    """The two files of a ragged array."""
    return [path.with_name(f"{path.name}.values"), path.with_name(f"{path.name}.offsets")]


def reverse(name: str) -> str:
    """ "de-en" → "en-de"."""
    source, target = name.split("-")
    return f"{target}-{source}"
