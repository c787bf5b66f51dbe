"""Alignment error rate (Och and Ney 2003)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from termweave.alignment.links import GoldLinks
from termweave.errors import DataError
from termweave.storage import RaggedArray


@dataclass(frozen=True)
class AlignmentErrorRate:
    """All three lie between 0 and 1. Precision asks for possible links, recall for sure ones."""

    error_rate: float
    precision: float
    recall: float
    links: int  # links predicted
    sure: int  # sure links in the gold standard
    sentences: int

    def __str__(self) -> str:
        rates = (("AER", self.error_rate), ("precision", self.precision), ("recall", self.recall))
        figures = ", ".join(f"{name} {100 * rate:.1f}" for name, rate in rates)
        return f"{figures} ({self.links} links, {self.sure} sure, {self.sentences} sentences)"


def alignment_error_rate(
    gold: Sequence[GoldLinks], predicted: RaggedArray | Sequence[Iterable[tuple[int, int]]]
) -> AlignmentErrorRate:
    """1 - (|A∩S| + |A∩P|) / (|A| + |S|), over all sentences together. Nothing to find and nothing found is no error."""
    if len(gold) != len(predicted):
        raise DataError(f"{len(gold)} sentences have gold links, {len(predicted)} have predicted ones; they must match")
    links = sure = sure_hits = possible_hits = 0
    for row, truth in enumerate(gold):
        found = set(_pairs(predicted, row))
        links += len(found)
        sure += len(truth.sure)
        sure_hits += len(found & truth.sure)
        possible_hits += len(found & truth.possible)
    return AlignmentErrorRate(
        error_rate=1 - _share(sure_hits + possible_hits, links + sure),
        precision=_share(possible_hits, links),
        recall=_share(sure_hits, sure),
        links=links,
        sure=sure,
        sentences=len(gold),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _pairs(predicted: RaggedArray | Sequence[Iterable[tuple[int, int]]], row: int) -> Iterable[tuple[int, int]]:
    if isinstance(predicted, RaggedArray):
        pairs: list[tuple[int, int]] = predicted[row].tolist()
        return pairs
    return predicted[row]
