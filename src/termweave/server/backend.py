"""What the server needs of a translator, and the real one behind it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from termweave.constraints.constraint import Constraint
from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.decoding.confidence import with_probabilities
from termweave.decoding.marked import MarkedSentence, with_marks
from termweave.decoding.options import Search
from termweave.decoding.tagged import TaggedSentence, put_back
from termweave.decoding.terminology import Terminology, TermPlan
from termweave.decoding.translator import InspectedOutput, Translation, Translator
from termweave.text.words import normalise


@dataclass(frozen=True)
class Sentence:
    """One sentence to translate; `tokens` is its size in subwords."""

    text: str
    plan: TermPlan = field(default_factory=TermPlan)  # its terms
    tokens: int = 1
    marked: MarkedSentence | None = None  # the marks that are to be put into its translation
    tagged: TaggedSentence | None = None  # the same for tags of its own, and receipts are told with them


@dataclass(frozen=True)
class SearchSettings:
    """How sentences are translated. Sentences with equal settings can share a batch."""

    direction: str
    search: Search = "vdba"
    beam: int = 4
    nbest: int = 1
    ordered: bool = False
    forbidden: tuple[str, ...] = ()
    length_penalty: float = 1.0
    probabilities: bool = False  # of terms, in their receipts


class Backend(Protocol):
    """Translates batches, one at a time. Counting tokens must be possible meanwhile, from other threads."""

    @property
    def directions(self) -> tuple[str, ...]: ...

    @property
    def longest(self) -> int:
        """Subwords of the longest sentence it takes."""
        ...

    def count_tokens(self, text: str) -> int: ...

    def translate(self, sentences: Sequence[Sentence], settings: SearchSettings) -> list[Translation]: ...

    def inspect(
        self, text: str, translation: str, constraints: Sequence[Constraint], direction: str
    ) -> InspectedOutput:
        """What the model looks at, from any thread."""
        ...


class TranslatorBackend:
    """A `Translator`, as the server sees it."""

    longest = 500  # the model takes twice as many; quality falls before that

    def __init__(self, translator: Translator, batch_tokens: int) -> None:
        self._translator = translator
        self._batch_tokens = batch_tokens
        self._model = threading.Lock()  # inspecting hooks into its layers, which a batch must not see

    @property
    def directions(self) -> tuple[str, ...]:
        return self._translator.directions

    def warm_up(self) -> None:
        """Compile what compiles itself when it is first used, so that no client waits for it.

        No model says U+16A0 by itself, so the search that guarantees terms is used too.
        """
        direction = self.directions[0]
        glossary = Glossary.of([GlossaryEntry("a", ("\u16a0",))], direction)
        plan = Terminology(glossary, direction).plan("a")
        self.translate([Sentence("a", plan)], SearchSettings(direction, beam=1))

    def count_tokens(self, text: str) -> int:
        return len(self._translator.subwords.source.encode(normalise(text)))

    def inspect(
        self, text: str, translation: str, constraints: Sequence[Constraint], direction: str
    ) -> InspectedOutput:
        with self._model:
            return self._translator.inspect(text, translation, constraints, direction=direction)

    def translate(self, sentences: Sequence[Sentence], settings: SearchSettings) -> list[Translation]:
        with self._model:
            return self._translate(sentences, settings)

    def _translate(self, sentences: Sequence[Sentence], settings: SearchSettings) -> list[Translation]:
        texts = [sentence.text for sentence in sentences]
        results = self._translator.translate(
            texts,
            terminology=_Planned([sentence.plan for sentence in sentences]),
            direction=settings.direction,
            search=settings.search,
            beam=settings.beam,
            nbest=settings.nbest,
            ordered=settings.ordered,
            forbidden=settings.forbidden,
            length_penalty=settings.length_penalty,
            batch_tokens=self._batch_tokens,
        )
        if settings.probabilities:
            results = self._with_probabilities(texts, results, settings.direction)
        finished = with_marks(
            self._translator, [sentence.marked for sentence in sentences], results, settings.direction
        )
        results = [
            result if sentence.marked is None else replace(result, text=text)
            for sentence, result, text in zip(sentences, results, finished, strict=True)
        ]
        return put_back(self._translator, [sentence.tagged for sentence in sentences], results, settings.direction)

    def _with_probabilities(
        self, texts: Sequence[str], results: Sequence[Translation], direction: str
    ) -> list[Translation]:
        """Of the best translations and the others, in one go."""
        every = [(text, own) for text, result in zip(texts, results, strict=True) for own in (result, *result.others)]
        completed = iter(
            with_probabilities(
                self._translator, [text for text, _ in every], [own for _, own in every], direction=direction
            )
        )
        return [replace(next(completed), others=tuple(next(completed) for _ in result.others)) for result in results]


class _Planned(Terminology):
    """Terms that were found before, for each sentence in turn: those of a batch come from several glossaries."""

    def __init__(self, plans: Sequence[TermPlan]) -> None:
        self._plans = iter(plans)

    def plan(self, sentence: str) -> TermPlan:
        return next(self._plans)
