"""The lines of a document or a text with tags, translated in the batches of all clients.

Documents are read and written by ordinary functions, which call for translations as they come to sentences. So they run
in threads of their own, and their lines wait in the same queue as everything else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from termweave.decoding.marked import MarkedSentence
from termweave.decoding.terminology import within_limits
from termweave.server.backend import Backend, SearchSettings, Sentence
from termweave.server.batching import Batcher
from termweave.server.problems import Problem
from termweave.server.segments import Segmented, segment, separator
from termweave.server.terms import Planner

TOGETHER = 64  # lines of one document that wait at a time, so that it leaves room for others


class Stopped(Exception):  # noqa: N818  (it is asked for)
    """Nobody waits for the translation any more."""


class LineTranslator:
    """Called with lines, it gives their translations. Not from the event loop: it blocks.

    is_patient: waits where the queue is full, as documents do; requests are told to come again.
    spending: around the translation of so many characters; raises a `Problem` if they are too many. They are spent
        when the block ends well.
    """

    def __init__(
        self,
        backend: Backend,
        batcher: Batcher,
        settings: SearchSettings,
        terms: Planner,
        loop: asyncio.AbstractEventLoop,
        *,
        is_patient: bool = False,
        spending: Callable[[int], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._backend, self._batcher, self._settings, self.terms, self._loop = backend, batcher, settings, terms, loop
        self._is_patient, self._spending = is_patient, spending
        self._stopped = threading.Event()
        self.characters = 0  # that were translated

    def stop(self) -> None:
        """It translates nothing more; the thread that calls it ends with `Stopped`."""
        self._stopped.set()

    def __call__(self, lines: list[str]) -> list[str]:
        return [
            text for start in range(0, len(lines), TOGETHER) for text in self._some(lines[start : start + TOGETHER])
        ]

    def _some(self, lines: list[str]) -> list[str]:
        prepared = [self._prepared(line) for line in lines]
        results = iter(self._submitted([sentence for _, sentences in prepared for sentence in sentences]))
        return [self._joined(segmented, [next(results) for _ in sentences]) for segmented, sentences in prepared]

    def _prepared(self, line: str) -> tuple[Segmented, list[Sentence]]:
        """A line as sentences: several, if it is too long for one."""
        marked = MarkedSentence.of(line)
        source = self._settings.direction.partition("-")[0]
        if marked is None:
            segmented = segment(line, "none", source, self._backend.longest, self._backend.count_tokens, self.terms)
            return segmented, [self._sentence(own.text) for own in segmented.segments]
        sentence = self._sentence(marked.text, marked)
        if sentence.tokens > self._backend.longest:
            # No translation with marks: the document then asks for the text between them, piece by piece.
            return Segmented("", ()), []
        return segment(line, "none", source, 1, lambda _: 0), [sentence]

    def _sentence(self, text: str, marked: MarkedSentence | None = None) -> Sentence:
        plan = within_limits(self.terms.plan(text))
        return Sentence(text, plan, 2 + self._backend.count_tokens(text), marked)

    def _joined(self, segmented: Segmented, translations: list[str]) -> str:
        source, _, target = self._settings.direction.partition("-")
        pieces = [
            piece
            for own, text in zip(segmented.segments, translations, strict=True)
            for piece in (text, separator(own.after, source, target))
        ]
        return "".join([segmented.before, *pieces])

    def _submitted(self, sentences: list[Sentence]) -> list[str]:
        characters = sum(len(sentence.text) for sentence in sentences)
        while not self._stopped.is_set():
            try:
                with self._spending(characters):
                    submitting = self._batcher.submit(sentences, self._settings)
                    results = asyncio.run_coroutine_threadsafe(submitting, self._loop).result()
                self.characters += characters
                return [result.text for result in results]
            except Problem as problem:
                if not self._is_patient or problem.status != 503 or not self._batcher.alive:
                    raise
                self._stopped.wait(problem.retry_after or 1)
        raise Stopped
