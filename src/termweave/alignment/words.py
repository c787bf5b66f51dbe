"""Word strings into numbers: what the aligners read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from termweave.storage import RaggedArray, RaggedWriter


class _Vocabulary(dict[str, int]):
    """Ids by spelling. A new spelling gets the id of its casefolded form, so that casefolding is done once for each."""

    size = 0

    def __missing__(self, word: str) -> int:
        folded = word.casefold()
        number = self.get(folded)
        if number is None:
            number = self[folded] = self.size
            self.size += 1
        self[word] = number
        return number


class WordIds:
    """Writes the sentences of one side as word ids (int32 RaggedArray); only the vocabulary is held in memory.

    with WordIds(folder / "source") as source, WordIds(folder / "target") as target:
        for source_batch, target_batch in batches:
            source.extend(source_batch)
            target.extend(target_batch)
    align_words(source.open(), target.open(), folder / "links", source_words=source.size,
                target_words=target.size, identical=identical_words(source, target))
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._vocabulary = _Vocabulary()
        self._writer = RaggedWriter(path, np.int32)

    @property
    def size(self) -> int:
        """How many different words there are so far, letter case apart."""
        return self._vocabulary.size

    def extend(self, sentences: Sequence[Sequence[str]]) -> None:
        """Append sentences, each a sequence of words."""
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        words: Iterable[str] = chain.from_iterable(sentences)
        ids = np.fromiter(map(self._vocabulary.__getitem__, words), dtype=np.int32, count=int(lengths.sum()))
        self._writer.extend(ids, lengths)

    def open(self) -> RaggedArray:
        """The ids written, memory-mapped; only after `close`."""
        return RaggedArray.open(self.path, np.int32)

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> WordIds:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self._writer.__exit__(kind, value, trace)


def identical_words(source: WordIds, target: WordIds) -> npt.NDArray[np.int32]:
    """For each source word id the target word id spelled alike (letter case apart), or -1."""
    identical = np.full(source.size, -1, dtype=np.int32)
    for word, number in source._vocabulary.items():
        other = target._vocabulary.get(word)
        if other is not None:
            identical[number] = other
    return identical
