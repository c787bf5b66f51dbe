"""Batches with the word links of their sentences, from which the alignment module of CDAlign is trained.

`termweave prepare` has stored links between words. Here they become links between tokens: every token of a target word
is linked to all tokens of the source words its word is linked to, each with an equal share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numba
import numpy as np
import torch

from termweave.alignment.links import LINK
from termweave.config import SamplingConfig
from termweave.data.batches import FLAT_MULTIPLE, Batch, Rows, TokenLinks, round_up
from termweave.data.corpus import DirectionData, PreparedCorpus
from termweave.data.folder import RECORD, SIDES, STRADDLED, WORD_SPAN, PairFolder, reverse
from termweave.data.layout import rows_of
from termweave.data.stream import BatchStream, PlannedBatch, Weighting
from termweave.errors import DataError
from termweave.storage import Array, RaggedArray, read_json
from termweave.text.vocabulary import Vocabulary

Words = tuple[Array, Array, Array]  # first token, one past the last, and offsets of the words of all sentences


@dataclass(frozen=True)
class DirectionLinks:
    """The word links of one direction; row i belongs to the same sentence pair as in `DirectionData`."""

    links: RaggedArray  # LINK
    source: RaggedArray  # WORD_SPAN
    target: RaggedArray
    backwards: bool  # links are stored from the target to the source


def open_links(corpus: PreparedCorpus) -> list[DirectionLinks]:
    """The links of every direction of a prepared corpus."""
    record = read_json(corpus.folder / RECORD)
    if "align" not in record["steps"]:
        raise DataError(f"{corpus.folder} has no word links yet; run `termweave prepare` to its end first")
    return [_open_direction(corpus.folder, direction, list(record["pairs"])) for direction in corpus.directions]


def _open_direction(root: Path, direction: DirectionData, pairs: list[str]) -> DirectionLinks:
    backwards = direction.name not in pairs
    folder = PairFolder(root, reverse(direction.name) if backwards else direction.name)
    links = RaggedArray.open(folder.links, LINK)
    source, target = (RaggedArray.open(folder.spans(side), WORD_SPAN) for side in (SIDES[::-1] if backwards else SIDES))
    if not len(links) == len(source) == len(target) == len(direction):
        raise DataError(f"{folder.path}: the files do not belong together; run `termweave prepare` again")
    return DirectionLinks(links, source, target, backwards)


class LinkedStream(BatchStream):
    """Plain sentences with their links. What weighs in a batch are the target tokens that are linked at all."""

    def __init__(
        self,
        directions: Sequence[DirectionData],
        links: Sequence[DirectionLinks],
        subwords: Vocabulary,
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        super().__init__(
            directions,
            subwords,
            batch_tokens=batch_tokens,
            seed=seed,
            sampling=SamplingConfig(),
            weighting=Weighting(),
        )
        self.links = links

    def build(self, planned: PlannedBatch, epoch: int, pinned: bool = False) -> Batch:
        batch = super().build(planned, epoch, pinned)
        lead = int(self.directions[planned.direction].tag is not None)
        shape = batch.target.shape[1], batch.source.shape[1]
        links, linked = token_links(self.links[planned.direction], planned.rows, lead, shape)
        # A batch without any link has no loss; a weight above zero lets it pass.
        return replace(batch, links=links, weight=float(max(linked, 1)))


def token_links(direction: DirectionLinks, rows: Array, lead: int, shape: tuple[int, int]) -> tuple[TokenLinks, int]:
    """Links of the tokens of some sentences, and how many target tokens are linked.

    lead: markers before the source's first token; shape: padded widths of target and source.
    """
    chosen = rows_of(direction.links, rows)
    ends = ("target", "source") if direction.backwards else ("source", "target")
    words = chosen[0][ends[0]], chosen[0][ends[1]]
    source, target = _words(direction.source), _words(direction.target)
    counts = np.zeros((len(rows), shape[0]), dtype=np.int64)
    _count(chosen, words, source, target, counts)
    total = int(counts.sum())
    places = np.zeros(round_up(max(total, 1), FLAT_MULTIPLE), dtype=np.int64)
    shares = np.zeros(len(places), dtype=np.float32)
    _fill(chosen, words, source, target, counts, lead, shape[1], places, shares)
    return TokenLinks(torch.from_numpy(places), torch.from_numpy(shares)), int((counts > 0).sum())


def _words(spans: RaggedArray) -> Words:
    values = np.asarray(spans.values)
    return values["token_start"], values["token_end"], np.asarray(spans.offsets)


@numba.njit(nogil=True, cache=True)
def _tokens(words: Words, row: int, word: int) -> tuple[int, int]:
    """First token of a word and one past its last; none where a token belongs to two words."""
    starts, ends, offsets = words
    place = offsets[row] + word
    first, last = int(starts[place]), int(ends[place])
    return (0, 0) if max(first, last) == STRADDLED else (first, last)


@numba.njit(nogil=True, cache=True)
def _count(chosen: Rows, linked: tuple[Array, Array], source: Words, target: Words, counts: Array) -> None:
    """How many source tokens each target token is linked to."""
    _, offsets, rows = chosen
    for index in range(len(rows)):
        for link in range(offsets[rows[index]], offsets[rows[index] + 1]):
            first, last = _tokens(source, rows[index], linked[0][link])
            start, stop = _tokens(target, rows[index], linked[1][link])
            for place in range(start, stop):
                counts[index, place] += last - first


@numba.njit(nogil=True, cache=True)
def _fill(
    chosen: Rows,
    linked: tuple[Array, Array],
    source: Words,
    target: Words,
    counts: Array,
    lead: int,
    width: int,
    places: Array,
    shares: Array,
) -> None:
    _, offsets, rows = chosen
    total = 0
    for index in range(len(rows)):
        for link in range(offsets[rows[index]], offsets[rows[index] + 1]):
            first, last = _tokens(source, rows[index], linked[0][link])
            start, stop = _tokens(target, rows[index], linked[1][link])
            for place in range(start, stop):
                for other in range(first, last):
                    places[total] = (index * counts.shape[1] + place) * width + lead + other
                    shares[total] = 1.0 / counts[index, place]
                    total += 1
