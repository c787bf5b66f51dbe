"""From texts to translations: split into sentences, find the terms, translate in batches, put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from termweave.decoding.tagged import TaggedSentence
from termweave.decoding.terminology import Receipt, within_limits
from termweave.decoding.translator import Translation
from termweave.server.backend import Backend, SearchSettings, Sentence
from termweave.server.batching import Batcher
from termweave.server.problems import Problem
from termweave.server.segments import Segmented, Splitting, segment, separator
from termweave.server.terms import Planner
from termweave.server.workers import Workers
from termweave.text.words import Span


@dataclass(frozen=True)
class Wanted:
    """Texts of one direction, to be translated alike."""

    texts: Sequence[str]
    settings: SearchSettings
    terms: Planner
    splitting: Splitting = "lines"


@dataclass(frozen=True)
class Translated:
    """One translated text. `score` is the mean of its sentences' scores; spans of receipts are those of the text."""

    text: str
    score: float = 0.0
    receipts: tuple[Receipt, ...] = ()
    sentences: tuple[tuple[Span, Span], ...] = ()  # where each stands in the text, and its translation in this one
    others: tuple[Translated, ...] = ()


@dataclass(frozen=True)
class _Prepared:
    """One text, ready to be submitted."""

    segmented: Segmented
    sentences: tuple[Sentence, ...]


class TextTranslator:
    def __init__(self, backend: Backend, batcher: Batcher, workers: Workers, most_sentences: int) -> None:
        self._backend = backend
        self._batcher = batcher
        self._workers = workers
        self._most = most_sentences

    async def translate(self, wanted: Wanted) -> list[Translated]:
        # Splitting and finding terms take a while for long texts; the event loop has others to serve meanwhile.
        prepared = await self._workers.short(self._prepare, wanted)
        sentences = [sentence for text in prepared for sentence in text.sentences]
        found = iter(await self._batcher.submit(sentences, wanted.settings))
        source, _, target = wanted.settings.direction.partition("-")
        return [
            _put_together(text, [next(found) for _ in text.sentences], source, target, wanted.settings.nbest)
            for text in prepared
        ]

    def _prepare(self, wanted: Wanted) -> list[_Prepared]:
        prepared, count = [], 0
        language = wanted.settings.direction.partition("-")[0]
        for text in wanted.texts:
            longest, count_tokens = self._backend.longest, self._backend.count_tokens
            segmented = segment(text, wanted.splitting, language, longest, count_tokens, wanted.terms)
            count += len(segmented.segments)
            if count > self._most:
                raise Problem(413, "The texts have too many sentences", f"at most {self._most:,} fit into one request")
            sentences = [self._sentence(own.text, wanted.terms) for own in segmented.segments]
            prepared.append(_Prepared(segmented, tuple(sentences)))
        return prepared

    def _sentence(self, text: str, terms: Planner) -> Sentence:
        tagged = TaggedSentence.of(text)
        bare = text if tagged is None else tagged.text
        plan = within_limits(terms.plan(bare))
        return Sentence(bare, plan, 2 + self._backend.count_tokens(bare), tagged=tagged)


def _put_together(
    text: _Prepared, translations: Sequence[Translation], source: str, target: str, nbest: int
) -> Translated:
    """The n-th alternative of a text is made of the n-th of each sentence, or the last there is."""
    ranked = [(translation, *translation.others) for translation in translations]
    most = min(nbest, max(map(len, ranked), default=1))
    each = [_joined(text, [own[min(rank, len(own) - 1)] for own in ranked], source, target) for rank in range(most)]
    return replace(each[0], others=tuple(each[1:]))


def _joined(text: _Prepared, translations: Sequence[Translation], source: str, target: str) -> Translated:
    parts, receipts, sentences = [text.segmented.before], [], []
    read, written = len(text.segmented.before), len(text.segmented.before)
    segments = text.segmented.segments
    for place, (own, translation) in enumerate(zip(segments, translations, strict=True)):
        receipts += [_moved(receipt, read, written) for receipt in translation.receipts]
        sentences.append(((read, read + len(own.text)), (written, written + len(translation.text))))
        last = place == len(segments) - 1
        between = own.after if last else separator(own.after, source, target)
        parts += [translation.text, between]
        read += len(own.text) + len(own.after)
        written += len(translation.text) + len(between)
    score = sum(translation.score for translation in translations) / max(len(translations), 1)
    return Translated("".join(parts), score, tuple(receipts), tuple(sentences))


def _moved(receipt: Receipt, read: int, written: int) -> Receipt:
    """A receipt of a sentence that begins at `read` in its text, and its translation at `written`."""
    start, end = receipt.source_span
    there = receipt.target_span
    return replace(
        receipt,
        source_span=(read + start, read + end),
        target_span=None if there is None else (written + there[0], written + there[1]),
    )
