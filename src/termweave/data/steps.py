"""The five steps of preparation. Each reads what the ones before it wrote, writes its own files and returns counts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np

from termweave.alignment.links import LINK
from termweave.constraints.phrases import PHRASE, WordSide, extract_phrases
from termweave.data.cleaning import (
    REASONS,
    CleanChunk,
    CleaningRules,
    CleanPair,
    RawPair,
    clean_chunk,
    drop_duplicates,
    overlap_keys,
)
from termweave.data.encoding import EncodedChunk, EncodedSide, EncodingRules, TextPair, encode_chunk
from termweave.data.folder import (
    CHARACTER_SPAN,
    CONTENT,
    ID,
    PUNCTUATION,
    SIDES,
    STRADDLED,
    WORD,
    WORD_SPAN,
    PairFolder,
)
from termweave.data.linking import compute_links, read_linked_corpus
from termweave.data.parallel import chunked, ordered_map
from termweave.data.plan import PairPlan, Plan, PlannedCorpus
from termweave.data.readers import read_lines, read_tmx, read_together
from termweave.errors import ConfigError, DataError
from termweave.progress import progress_bar
from termweave.storage import Array, RaggedArray, RaggedWriter, atomic_path, write_text
from termweave.text.marian_vocabulary import load_vocabulary
from termweave.text.subwords import Subwords

Counts = dict[str, dict[str, int]]  # name of the pair folder, or "all" → what was counted → how many

_CHUNK = 10_000  # sentence pairs that travel to a worker at a time
_PHRASE_CHUNK = 50_000  # sentence pairs whose phrases are extracted at a time
_SAMPLE_SEED = 1


def clean(plan: Plan) -> Counts:
    """Read all corpora; keep what is fit for training and stands in no test set."""
    test_sets = (read_together(Path(entry.source), Path(entry.target)) for entry in plan.config.test_sets)
    keys = overlap_keys(chain.from_iterable(chain.from_iterable(test_sets)))
    return {pair.folder.name: _clean_folder(plan, pair, keys) for pair in plan.pairs}


def _clean_folder(plan: Plan, pair: PairPlan, keys: frozenset[int]) -> dict[str, int]:
    settings = plan.config.data
    rules = CleaningRules(*pair.folder.languages, settings.max_characters, settings.max_ratio, keys)
    raw = chain.from_iterable(_read_corpus(planned, pair.folder) for planned in pair.corpora)
    chunks: Iterator[CleanChunk] = ordered_map(partial(clean_chunk, rules), chunked(raw, _CHUNK), plan.workers)
    if settings.remove_duplicates:
        chunks = drop_duplicates(chunks)
    counts = dict.fromkeys(("read", "kept", *REASONS), 0)
    with contextlib.ExitStack() as stack, progress_bar(f"clean {pair.folder.name}") as advance:
        texts = [_open_text(stack, pair.folder.text(side)) for side in SIDES]
        given = _GivenWriters(stack, pair.folder) if pair.brings_links else None
        for chunk in chunks:
            pairs = [kept for kept in chunk.pairs for _ in range(kept.repeat)]
            texts[0].writelines(f"{kept.source}\n" for kept in pairs)
            texts[1].writelines(f"{kept.target}\n" for kept in pairs)
            if given:
                given.extend(pairs)
            if len(pairs) > len(chunk.pairs):
                counts["repeated"] = counts.get("repeated", 0) + len(pairs) - len(chunk.pairs)
            for reason, number in chunk.rejected.items():
                counts[reason] += number
            counts["kept"] += len(chunk.pairs)
            counts["read"] += len(chunk.pairs) + sum(chunk.rejected.values())
            advance(len(chunk.pairs) + sum(chunk.rejected.values()))
    if not counts["kept"]:
        why = ", ".join(f"{reason} {counts[reason]:,}" for reason in REASONS if counts[reason])
        raise DataError(f"{pair.folder.name}: no sentence pair is left after cleaning ({why})")
    return counts


def _open_text(stack: contextlib.ExitStack, path: Path) -> IO[str]:
    temporary = stack.enter_context(atomic_path(path))
    return stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))


class _GivenWriters:
    """Writes the token spans and links of pairs that came with them; the rows of all others are empty."""

    def __init__(self, stack: contextlib.ExitStack, folder: PairFolder) -> None:
        self._spans = [stack.enter_context(RaggedWriter(folder.given_spans(side), CHARACTER_SPAN)) for side in SIDES]
        self._links = stack.enter_context(RaggedWriter(folder.given_links, LINK))

    def extend(self, pairs: list[CleanPair]) -> None:
        for writer, rows in zip(
            self._spans, ([pair.source_spans for pair in pairs], [pair.target_spans for pair in pairs]), strict=True
        ):
            spans = RaggedArray.from_rows([list(row) for row in rows], CHARACTER_SPAN)
            writer.extend(spans.values, spans.lengths)
        links = RaggedArray.from_rows([list(pair.links or ()) for pair in pairs], LINK)
        self._links.extend(links.values, links.lengths)


def _read_corpus(planned: PlannedCorpus, folder: PairFolder) -> Iterator[RawPair]:
    """The pairs of a corpus, turned into the order of languages of its folder."""
    corpus = planned.corpus
    if corpus.tmx:
        for pair in read_tmx(Path(corpus.tmx), *folder.languages):
            yield RawPair(*pair, repeat=corpus.repeat)
    elif corpus.links:
        yield from read_linked_corpus(planned, folder)
    else:
        order = (corpus.target, corpus.source) if planned.swapped else (corpus.source, corpus.target)
        for source, target in read_together(*map(Path, order)):
            yield RawPair(source, target, repeat=corpus.repeat)


def subwords(plan: Plan) -> Counts:
    """Learn the vocabulary from a sample of the cleaned text, or take the one that is named."""
    settings = plan.config.subwords
    if settings.model:
        existing = load_vocabulary(Path(settings.model))
        try:
            existing.require_directions(plan.config.data.directions)
        except ConfigError as error:
            raise ConfigError(f"subwords.model: {settings.model}: {error}") from None
        existing.save(plan.tokenizer)
        return {"all": {"pieces": existing.size}}
    sentences = _Counter(_sample_text(plan, settings.sample))
    vocabulary = Subwords.train(
        sentences,
        plan.tokenizer,
        size=settings.size,
        languages=plan.languages,
        character_coverage=settings.character_coverage,
    )
    return {"all": {"asked": settings.size, "pieces": vocabulary.size, "sentences": sentences.count}}


class _Counter:
    """Counts what is iterated over."""

    def __init__(self, items: Iterator[str]) -> None:
        self._items = items
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        for item in self._items:
            self.count += 1
            yield item


def _sample_text(plan: Plan, size: int) -> Iterator[str]:
    """About `size` sentences, both sides of a pair or none, spread evenly over all corpora; seeded."""
    paths = [pair.folder.text(side) for pair in plan.pairs for side in SIDES]
    total = sum(sum(1 for _ in read_lines(path)) for path in paths)
    for pair in plan.pairs:
        random = np.random.default_rng(_SAMPLE_SEED)
        for chunk in chunked(read_together(*map(pair.folder.text, SIDES)), _CHUNK):
            chosen = random.random(len(chunk)) < size / total
            yield from chain.from_iterable(pair for pair, take in zip(chunk, chosen, strict=True) if take)


def encode(plan: Plan) -> Counts:
    """Turn the cleaned text into ids, drop what is too long in subwords, and locate the words in the ids."""
    return {pair.folder.name: _encode_folder(plan, pair) for pair in plan.pairs}


def _encode_folder(plan: Plan, pair: PairPlan) -> dict[str, int]:
    folder = pair.folder
    rules = EncodingRules(plan.tokenizer, folder.languages, plan.config.data.max_tokens)
    texts = chunked(_read_clean(pair), _CHUNK)
    chunks: Iterator[EncodedChunk] = ordered_map(partial(encode_chunk, rules), texts, plan.workers)
    counts = dict.fromkeys(("kept", "too_many_tokens", "source_tokens", "target_tokens"), 0)
    with contextlib.ExitStack() as stack, progress_bar(f"encode {folder.name}") as advance:
        writers = [_SideWriters(stack, folder, side) for side in SIDES]
        given = RaggedArray.open(folder.given_links, LINK) if pair.brings_links else None
        brought = stack.enter_context(RaggedWriter(folder.brought_links, LINK)) if pair.brings_links else None
        row = 0
        for chunk in chunks:
            for writer, side in zip(writers, chunk.sides, strict=True):
                writer.extend(side)
                counts[f"{writer.side}_tokens"] += len(side.ids)
            if given and brought:
                links = RaggedArray.from_rows(
                    [given[row + place] for place in np.flatnonzero(chunk.kept).tolist()], LINK
                )
                brought.extend(links.values, links.lengths)
            row += len(chunk.kept)
            counts["kept"] += int(chunk.kept.sum())
            counts["too_many_tokens"] += int((~chunk.kept).sum())
            advance(len(chunk.kept))
    if not counts["kept"]:
        raise DataError(f"{folder.name}: no sentence pair is short enough; raise data.max_tokens")
    for writer in writers:
        write_text(folder.vocabulary(writer.side), "".join(f"{word}\n" for word in writer.vocabulary))
        counts[f"{writer.side}_words"] = len(writer.vocabulary)
    return counts


def _read_clean(pair: PairPlan) -> Iterator[TextPair]:
    lines = read_together(*map(pair.folder.text, SIDES))
    if not pair.brings_links:
        for source, target in lines:
            yield TextPair(source, target)
        return
    spans = [RaggedArray.open(pair.folder.given_spans(side), CHARACTER_SPAN) for side in SIDES]
    for row, (source, target) in enumerate(lines):
        yield TextPair(source, target, spans[0][row].tolist() or None, spans[1][row].tolist() or None)


class _SideWriters:
    """Writes one side of the encoded text; numbers the words over all chunks in order of appearance."""

    def __init__(self, stack: contextlib.ExitStack, folder: PairFolder, side: str) -> None:
        self.side = side
        self.vocabulary: dict[str, int] = {}
        self._ids = stack.enter_context(RaggedWriter(folder.ids(side), ID))
        self._words = stack.enter_context(RaggedWriter(folder.words(side), WORD))
        self._spans = stack.enter_context(RaggedWriter(folder.spans(side), WORD_SPAN))

    def extend(self, chunk: EncodedSide) -> None:
        known = self.vocabulary
        numbers = np.array([known.setdefault(word, len(known)) for word in chunk.vocabulary], dtype=WORD)
        self._ids.extend(chunk.ids, chunk.id_lengths)
        self._words.extend(numbers[chunk.words] if len(chunk.words) else chunk.words, chunk.word_lengths)
        self._spans.extend(chunk.spans, chunk.word_lengths)


def align(plan: Plan) -> Counts:
    """Link the words of every pair, except where the user brought links."""
    counts: Counts = {}
    for pair in plan.pairs:
        compute_links(pair, plan.config.alignment, plan.workers)
        links = RaggedArray.open(pair.folder.links, LINK)
        counts[pair.folder.name] = {"sentences": len(links), "links": len(links.values)}
    return counts


def phrases(plan: Plan) -> Counts:
    """Extract the phrase pairs of every direction."""
    return {
        direction: _extract_direction(pair, direction, plan.config.phrases.max_words)
        for pair in plan.pairs
        for direction in pair.directions
    }


def _extract_direction(pair: PairPlan, direction: str, max_words: int) -> dict[str, int]:
    order = SIDES if direction == pair.folder.name else SIDES[::-1]
    links = RaggedArray.open(pair.folder.links, LINK)
    spans = [RaggedArray.open(pair.folder.spans(side), WORD_SPAN) for side in order]
    counts = {"sentences": len(links), "phrases": 0, "sentences_without": 0}
    with RaggedWriter(pair.folder.phrases(direction), PHRASE) as writer:
        for first, last in _row_ranges(len(links), direction):
            chunk = _rows(links, first, last)
            sides = [_word_side(_rows(side, first, last)) for side in spans]
            found, lengths = extract_phrases(
                chunk.values[order[0]], chunk.values[order[1]], chunk.offsets, sides[0], sides[1], max_words
            )
            writer.extend(found, lengths)
            counts["phrases"] += len(found)
            counts["sentences_without"] += int((lengths == 0).sum())
    return counts


def _row_ranges(rows: int, name: str) -> Iterable[tuple[int, int]]:
    with progress_bar(f"phrases {name}", rows) as advance:
        for first in range(0, rows, _PHRASE_CHUNK):
            last = min(first + _PHRASE_CHUNK, rows)
            yield first, last
            advance(last - first)


def _rows(ragged: RaggedArray, first: int, last: int) -> RaggedArray:
    """Rows `first` to `last` as an array of their own, in memory."""
    offsets = np.array(ragged.offsets[first : last + 1])
    return RaggedArray(np.array(ragged.values[offsets[0] : offsets[-1]]), offsets - offsets[0])


def _word_side(words: RaggedArray) -> WordSide:
    flags: Array = words.values["flags"]
    return WordSide(
        token_start=_edges(words.values["token_start"]),
        token_end=_edges(words.values["token_end"]),
        content=(flags & CONTENT != 0).astype(np.uint8),
        punctuation=(flags & PUNCTUATION != 0).astype(np.uint8),
        offsets=words.offsets,
    )


def _edges(stored: Array) -> Array:
    return np.where(stored == STRADDLED, -1, stored.astype(np.int32)).astype(np.int32)
