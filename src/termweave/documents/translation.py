"""Segments into translated segments, in batches, however many there are.

1. Each segment is cut at its breaks and at the ends of its sentences.
2. The sentences of a batch are translated together, each as one line with its marks as tokens (`tokens.py`).
3. A sentence whose tokens did not survive is translated again piece by piece: the text between its marks, each run by
   itself. The marks then stand where they stood, but for those inside a term, which stand beside it. The same is done
   where the document cannot write a segment so.
4. A segment that still cannot be written stays as it was.

A sentence whose translation equals it keeps its source to the letter, and so does all space around sentences.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from termweave.documents.placeholders import tagged_parts
from termweave.documents.segments import Kind, Mark, Part, Segment, Text, has_words
from termweave.documents.sentences import Terms, boundaries
from termweave.documents.tokens import Request, cleaned, request
from termweave.documents.whole_terms import beside_terms
from termweave.errors import DataError

Translate = Callable[[list[str]], list[str]]
"""Translates lines, each a sentence; gives back as many, in the same order."""

Check = Callable[[Segment, Segment], bool]
"""Can the document write the second segment in the place of the first?"""

Settled = Callable[[list[str], list[str]], None]
"""Told after each batch which of the lines asked for were not used: those translated again, piece by piece, and those
of segments that stayed as they were."""

Progress = Callable[[int, int], None]
"""Told how much of the whole is done, and how much the whole is."""

_WORD = "Xxxx"  # stands for a mark while sentences are looked for: a word, no abbreviation
_FIRST_PUNCTUATION = re.compile(r"[.,;:!?…)\]]+\s+")
_BATCH_CHARACTERS = 200_000  # a batch ends here at the latest, so that huge paragraphs do not pile up


@dataclass
class Counts:
    """What has been done so far."""

    segments: int = 0
    sentences: int = 0
    in_pieces: int = 0
    """Sentences translated piece by piece, for their marks did not survive."""
    unchanged: int = 0
    """Segments left as they were, for their translation could not be written without breaking markup or directives."""


@dataclass
class _Sentence:
    before: list[Part]
    body: list[Part]
    after: list[Part]
    request: Request | None = None
    result: list[Part] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # whose translations the result is made of
    in_pieces: bool = False

    def parts(self) -> list[Part]:
        return [*self.before, *self.result, *self.after]


class SegmentTranslator:
    """Calls `translate` with about `batch` sentences at a time.

    terms: of a glossary, which must not be cut. settled: told what became of the lines.
    """

    def __init__(
        self,
        translate: Translate,
        language: str,
        batch: int = 256,
        terms: Terms | None = None,
        settled: Settled = lambda again, left: None,
    ) -> None:
        self.translate = translate
        self.language = language
        self.batch = batch
        self.terms = terms
        self.settled = settled
        self.counts = Counts()
        self._again: list[str] = []
        self._left: list[str] = []

    def __call__(self, segments: Iterable[Segment], check: Check | None = None) -> Iterator[Segment]:
        held: list[tuple[Segment, list[_Sentence]]] = []
        sentences = characters = 0
        for segment in segments:
            planned = self._sentences(segment)
            held.append((segment, planned))
            sentences += sum(sentence.request is not None for sentence in planned)
            characters += len(segment.text)
            if sentences >= self.batch or characters >= _BATCH_CHARACTERS or len(held) >= 16 * self.batch:
                yield from self._finish(held, check)
                held, sentences, characters = [], 0, 0
        yield from self._finish(held, check)

    def _finish(self, held: list[tuple[Segment, list[_Sentence]]], check: Check | None) -> Iterator[Segment]:
        waiting = [sentence for _, planned in held for sentence in planned if sentence.request is not None]
        lines = [sentence.request.line for sentence in waiting if sentence.request]
        failed = []
        for sentence, line, translation in zip(waiting, lines, self._translated(lines), strict=True):
            sentence.lines = [line]
            parts = sentence.body if translation == line else (sentence.request or Request("", ())).parse(translation)
            if parts is None:
                failed.append(sentence)
            else:
                sentence.result = parts
        self._in_pieces(failed)
        results = [_assembled(segment, planned) for segment, planned in held]
        if check is not None:
            self._mend(held, results, check)
        self.counts.segments += len(held)
        self.counts.sentences += len(lines)
        self.settled(self._again, self._left)
        self._again, self._left = [], []
        yield from results

    def _mend(self, held: list[tuple[Segment, list[_Sentence]]], results: list[Segment], check: Check) -> None:
        bad = [index for index, (segment, _) in enumerate(held) if not check(segment, results[index])]
        again = [
            sentence for index in bad for sentence in held[index][1] if sentence.request and not sentence.in_pieces
        ]
        self._in_pieces([sentence for sentence in again if sentence.request and sentence.request.marks])
        for index in bad:
            segment, planned = held[index]
            results[index] = _assembled(segment, planned)
            if not check(segment, results[index]):
                results[index] = segment
                self.counts.unchanged += 1
                self._left += [line for sentence in planned for line in sentence.lines]

    def _in_pieces(self, sentences: list[_Sentence]) -> None:
        """Translate the text between the marks of each sentence by itself."""
        runs: list[tuple[_Sentence, _Sentence]] = []
        for sentence in sentences:
            sentence.in_pieces = True
            sentence.result = []
            self._again += sentence.lines
            sentence.lines = []
            for piece in _between_marks(beside_terms(sentence.body, self.terms) if self.terms else sentence.body):
                if self._is_wanted(piece):
                    inner = _without_punctuation(_stripped(piece))
                    inner.request = request(inner.body)
                    sentence.lines.append(inner.request.line)
                    runs.append((sentence, inner))
                else:
                    runs.append((sentence, _Sentence([], piece, [], result=piece)))
        asked = [inner for _, inner in runs if inner.request]
        lines = [inner.request.line for inner in asked if inner.request]
        for inner, line, translation in zip(asked, lines, self._translated(lines), strict=True):
            inner.result = inner.body if translation == line else [Text(translation)]
        for sentence, inner in runs:
            sentence.result.extend(inner.parts())
        self.counts.in_pieces += len(sentences)

    def _translated(self, lines: list[str]) -> list[str]:
        if not lines:
            return []
        translations = self.translate(lines)
        if len(translations) != len(lines):
            raise DataError(f"{len(lines)} sentences were to be translated, but {len(translations)} translations came")
        return [cleaned(translation) for translation in translations]

    def _sentences(self, segment: Segment) -> list[_Sentence]:
        """The sentences of a segment in order; breaks and what holds no words are sentences of their own, kept."""
        planned: list[_Sentence] = []
        run: list[Part] = []
        for part in segment.parts:
            if isinstance(part, Mark) and part.kind is Kind.BREAK:
                planned.extend(self._of_run(run))
                planned.append(_Sentence([], [], [part]))
                run = []
            else:
                run.append(part)
        planned.extend(self._of_run(run))
        return planned

    def _of_run(self, run: list[Part]) -> Iterator[_Sentence]:
        if not self._is_wanted(run):
            yield _Sentence([], run, [], result=run)
            return
        for parts in _cut(run, self.language, self.terms):
            sentence = _stripped(parts)
            sentence.result = sentence.body
            if self._is_wanted(sentence.body):
                sentence.request = request(sentence.body)
            yield sentence

    def _is_wanted(self, parts: list[Part]) -> bool:
        """Is there anything to translate? Without a letter only what is a term, such as "24/7"."""
        if has_words(parts) or self.terms is None:
            return has_words(parts)
        text = "".join(part.shown for part in parts if isinstance(part, Text))
        return bool(text.strip()) and self.terms.wants(text)


def _assembled(segment: Segment, planned: list[_Sentence]) -> Segment:
    return replace(segment, parts=tuple(part for sentence in planned for part in sentence.parts()))


def _visible(part: Part) -> str:
    """What counts where sentences are looked for."""
    if isinstance(part, Text):
        return part.shown
    return part.shown or _WORD if part.kind is Kind.WORD and not part.is_note else ""


def _cut(run: list[Part], language: str, terms: Terms | None) -> Iterator[list[Part]]:
    """Cut a run where its sentences end. Closing marks stay with what they close, opening ones with what follows."""
    visible = "".join(map(_visible, run))
    ends = deque(boundaries(_on_one_line(visible), language, terms))
    sentence: list[Part] = []
    position = 0
    for part in run:
        length = len(_visible(part))
        if not length:
            if isinstance(part, Mark) and part.kind is Kind.OPEN and ends and ends[0] <= position:
                yield sentence
                sentence = []
                ends.popleft()
            sentence.append(part)
            continue
        while ends and ends[0] <= position:
            ends.popleft()
            yield sentence
            sentence = []
        start = 0
        if isinstance(part, Text):
            while ends and ends[0] < position + length:
                sentence.append(part.cut(start, ends[0] - position))
                start = ends.popleft() - position
                yield sentence
                sentence = []
        else:  # no sentence ends inside a placeholder
            while ends and ends[0] < position + length:
                ends.popleft()
        sentence.append(part.cut(start, length) if isinstance(part, Text) else part)
        position += length
    if sentence:
        yield sentence


def _on_one_line(text: str) -> str:
    """Line breaks as spaces, one for one: those that end a sentence are breaks of the segment already."""
    return text.replace("\n", " ")


def _between_marks(parts: list[Part]) -> Iterator[list[Part]]:
    run: list[Part] = []
    for part in parts:
        if isinstance(part, Text):
            run.append(part)
            continue
        if run:
            yield run
        yield [part]
        run = []
    if run:
        yield run


def _stripped(parts: list[Part]) -> _Sentence:
    """A sentence without space around it, pairs that enclose all of it, lonely halves at its ends, notes behind it."""
    body = list(parts)
    before: list[Part] = []
    after: list[Part] = []
    halves = Counter(_identity(part) for part in body if _is(part, Kind.OPEN) or _is(part, Kind.CLOSE))
    moved = True
    while moved and body:
        moved = _strip_space(body, before, after)
        if not body:
            break
        first, last = body[0], body[-1]
        if _is(first, Kind.CLOSE) or (_is(first, Kind.OPEN) and halves[_identity(first)] == 1):
            before.append(body.pop(0))
            halves[_identity(first)] -= 1
        elif _is(last, Kind.OPEN) or (_is(last, Kind.CLOSE) and halves[_identity(last)] == 1):
            after.insert(0, body.pop())
            halves[_identity(last)] -= 1
        elif _is(first, Kind.OPEN) and _is(last, Kind.CLOSE) and _identity(first) == _identity(last):
            before.append(body.pop(0))
            after.insert(0, body.pop())
        elif isinstance(last, Mark) and last.is_note:
            after.insert(0, body.pop())
        else:
            continue
        moved = True
    return _Sentence(before, body, after)


def _strip_space(body: list[Part], before: list[Part], after: list[Part]) -> bool:
    """Move the space at both ends out of the body; True if whole parts went."""
    moved = False
    while body and isinstance(first := body[0], Text):
        space = len(first.shown) - len(first.shown.lstrip())
        if space or not first.shown:
            before.append(first.cut(0, space))
        if space < len(first.shown):
            body[0] = first.cut(space, len(first.shown))
            break
        body.pop(0)
        moved = True
    while body and isinstance(last := body[-1], Text):
        length = len(last.shown.rstrip())
        if length < len(last.shown) or not last.shown:
            after.insert(0, last.cut(length, len(last.shown)))
        if length:
            body[-1] = last.cut(0, length)
            break
        body.pop()
        moved = True
    return moved


def _without_punctuation(piece: _Sentence) -> _Sentence:
    """A piece that begins where the text before it ends, ". Then": a translator would drop the full stop."""
    first = piece.body[0] if piece.body else None
    if isinstance(first, Text) and (match := _FIRST_PUNCTUATION.match(first.shown)):
        rest = first.cut(match.end(), len(first.shown))
        piece.before.append(first.cut(0, match.end()))
        piece.body[:1] = [rest] if rest.shown else []
    return piece


def _is(part: Part, kind: Kind) -> bool:
    return isinstance(part, Mark) and part.kind is kind


def _identity(part: Part) -> int:
    return part.identity if isinstance(part, Mark) else 0


def translate_text(
    text: str,
    translate: Translate,
    language: str = "en",
    terms: Terms | None = None,
    settled: Settled = lambda again, left: None,
) -> str:
    """A long text, sentence by sentence. Its line breaks and all other space between sentences stay."""
    segment = Segment(tuple(tagged_parts(text)))
    [result] = SegmentTranslator(translate, language, terms=terms, settled=settled)([segment])
    return "".join(part.shown if isinstance(part, Text) else part.source for part in result.parts)
