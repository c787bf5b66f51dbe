"""The built-in aligner: two models that generate each side from the other, trained to agree (Liang et al. 2006).

1. Candidate pairs from co-occurrence.
2. A few passes of a diagonal model without memory: cheap, and enough to throw most pairs out.
3. A few passes of the hidden Markov model.
4. The likeliest origin of every word in both directions, symmetrised.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from termweave.alignment.cooccurrence import find_candidates
from termweave.alignment.expectation import decide, expect
from termweave.alignment.lexicon import estimate, prune, uniform_lexicon
from termweave.alignment.links import LINK
from termweave.alignment.model import (
    JUMP_WIDTH,
    MAX_WORDS,
    Counts,
    DoubleArray,
    IntArray,
    Jumps,
    Lexicon,
    PairTable,
    Stage,
    Text,
    Workspace,
    empty_counts,
    make_workspace,
    text_of,
)
from termweave.alignment.symmetrisation import LinkArray, symmetrise
from termweave.alignment.threads import thread_count
from termweave.errors import DataError
from termweave.progress import Advance
from termweave.storage import RaggedArray, RaggedWriter

_DIAGONAL = Stage(tension=4.0, null=0.1, agree=True)
_MARKOV = Stage(tension=-1.0, null=0.3, agree=True)
# Agreement makes the tables sharp; ending without it wins back links that only one direction can see, such as those of
# several words to one, which matter for distant languages.
_STAGES = (
    _DIAGONAL._replace(agree=False),
    _DIAGONAL,
    _DIAGONAL,
    _MARKOV,
    _MARKOV._replace(agree=False),
    _MARKOV._replace(agree=False),
)

# How often `align_words` calls `advance`: once for the candidates, once per training pass, once for the decisions.
ALIGN_STEPS = len(_STAGES) + 2

# Sentence pairs whose links are held in memory at a time, per thread.
_BATCH = 20_000
# Far jumps share their weight among about so many positions.
_FAR_POSITIONS = 20


def align_words(
    source: RaggedArray,
    target: RaggedArray,
    output: Path,
    *,
    source_words: int,
    target_words: int,
    identical: npt.NDArray[np.integer] | None = None,
    threads: int = 0,
    advance: Advance | None = None,
) -> None:
    """Align int32 word ids; write links (dtype LINK) to the RaggedArray `output`, one row per sentence pair.

    `identical` (source_words) gives for each source word the target word spelled alike, or -1. Rows with an empty side
    get no links. `threads` 0 means one per core; the result depends on the text and the number of threads only.
    """
    check_words(source, target, source_words, target_words, identical)
    threads = min(thread_count(threads), max(1, len(source)))
    text = text_of(source, target)
    alike = np.full(source_words, -1, np.int32) if identical is None else np.asarray(identical, dtype=np.int32)
    report = advance or _ignore
    aligner = _Aligner(text, source_words, target_words, alike, threads)
    report()
    for stage in _STAGES:
        aligner.train(stage)
        report()
    with RaggedWriter(output, LINK) as writer:
        for links, lengths in aligner.links(_STAGES[-1]):
            writer.extend(links, lengths)
    report()


def check_words(
    source: RaggedArray, target: RaggedArray, source_words: int, target_words: int,
    identical: npt.NDArray[np.integer] | None,
) -> None:  # fmt: skip
    """Refuse input no aligner could use."""
    if len(source) != len(target):
        raise DataError(f"{len(source)} source sentences but {len(target)} target sentences; align line by line first")
    for side, ids, words in (("source", source, source_words), ("target", target, target_words)):
        if len(ids.values) and (int(ids.values.min()) < 0 or int(ids.values.max()) >= words):
            raise DataError(f"{side} word ids must lie between 0 and {words - 1}; write the ids again")
    if identical is not None and len(identical) != source_words:
        raise DataError(f"`identical` has {len(identical)} entries for {source_words} source words")


def _ignore(amount: int = 1) -> None:
    pass


class _Aligner:
    """The model under training, with the memory its threads work in."""

    def __init__(self, text: Text, source_words: int, target_words: int, identical: IntArray, threads: int) -> None:
        self.text = text
        self.sizes = (source_words, target_words)
        self.identical = identical
        self.threads = threads
        self.table: PairTable = find_candidates(text, source_words, target_words, threads)
        self.lexicon: Lexicon = uniform_lexicon(len(self.table.columns), source_words, target_words)
        self.jumps: Jumps = first_jumps()
        self.spaces: list[Workspace] = [make_workspace(text, target_words) for _ in range(threads)]
        self.bounds = _balance(text, threads)

    def train(self, stage: Stage) -> None:
        """One pass of expectation and maximisation. Each thread has a fixed part, and parts are added in order."""

        def part(thread: int) -> Counts:
            counts = empty_counts(len(self.table.columns), *self.sizes)
            begin, end = self.bounds[thread], self.bounds[thread + 1]
            expect(self.text, begin, end, self.table, self.lexicon, self.jumps, stage, counts, self.spaces[thread])
            return counts

        with ThreadPoolExecutor(self.threads) as pool:
            counts, *others = pool.map(part, range(self.threads))
        for other in others:
            for mine, theirs in zip(counts, other, strict=True):
                np.add(mine, theirs, out=mine)
        self.table, counts = prune(self.table, counts)
        self.lexicon = estimate(self.table, counts, self.identical)
        if stage.tension < 0:
            self.jumps = estimate_jumps(counts.jumps)

    def links(self, stage: Stage) -> Iterator[tuple[LinkArray, npt.NDArray[np.int64]]]:
        """Symmetrised links in batches of sentences, in order: links end to end, and how many each sentence has."""

        def part(job: tuple[int, int, Workspace]) -> tuple[LinkArray, npt.NDArray[np.int64]]:
            begin, end, space = job
            source_offsets = self.text.source_offsets[begin : end + 1]
            target_offsets = self.text.target_offsets[begin : end + 1]
            forward = np.empty(int(target_offsets[-1] - target_offsets[0]), dtype=np.int32)
            backward = np.empty(int(source_offsets[-1] - source_offsets[0]), dtype=np.int32)
            decide(self.text, begin, end, self.table, self.lexicon, self.jumps, stage, space, forward, backward)
            return symmetrise(forward, backward, source_offsets, target_offsets)

        sentences = len(self.text.source_offsets) - 1
        starts = range(0, sentences, _BATCH)
        with ThreadPoolExecutor(self.threads) as pool:
            for first in range(0, len(starts), self.threads):
                batch = starts[first : first + self.threads]
                jobs = [(begin, min(begin + _BATCH, sentences), self.spaces[k]) for k, begin in enumerate(batch)]
                yield from pool.map(part, jobs)


def _balance(text: Text, parts: int) -> list[int]:
    """Sentence numbers that cut the text into parts of about equal work."""
    rows = np.minimum(np.diff(text.source_offsets), MAX_WORDS)
    work = np.cumsum(rows * np.minimum(np.diff(text.target_offsets), MAX_WORDS) + 1)
    if not len(work):
        return [0] * (parts + 1)
    cuts = np.searchsorted(work, np.linspace(0, int(work[-1]), parts + 1)[1:-1])
    return [0, *(int(cut) for cut in cuts), len(work)]


def first_jumps() -> Jumps:
    """Before anything is counted: one step ahead is likeliest, then evenly less on both sides."""
    counts = np.zeros((2, 2 * JUMP_WIDTH + 2))
    counts[:, :-1] = 100 * np.exp(-0.5 * np.abs(np.arange(-JUMP_WIDTH, JUMP_WIDTH + 1) - 1))
    counts[:, -1] = 10
    return estimate_jumps(counts)


def estimate_jumps(counts: DoubleArray) -> Jumps:
    weights = (counts + 0.1) / (counts + 0.1).sum(axis=1, keepdims=True)
    return Jumps(weights[:, :-1].astype(np.float32), (weights[:, -1] / _FAR_POSITIONS).astype(np.float32))
