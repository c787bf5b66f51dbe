"""What `termweave translate` works with: a translator, the terms it keeps to, and the receipts it writes."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from termweave.accelerators import prepare_process
from termweave.constraints.constraint import Constraint
from termweave.constraints.occurrences import comparable, count_occurrences
from termweave.decoding.confidence import with_probabilities
from termweave.decoding.marked import MarkedSentence, with_marks
from termweave.decoding.places import named_places
from termweave.decoding.requests import Wanted, chosen_direction, receipt_record, shortened
from termweave.decoding.tagged import bare, put_back, taken_out
from termweave.decoding.terminology import Receipt
from termweave.decoding.translator import Translation, Translator
from termweave.documents import Options, Report
from termweave.documents.files import format_of
from termweave.documents.placeholders import in_order
from termweave.errors import ConfigError
from termweave.model.checkpoint import ready_model
from termweave.storage import atomic_path, folder_state

LEFT = 3  # exit code where something could not be translated without breaking the document
STANDARD_ERROR = Path("-")

Place = Callable[[int, str], str]
"""Where a sentence stands, by its number in a batch and its text; errors name it."""


class TextWork:
    """Called with sentences, it gives their translations; it counts what became of the terms."""

    def __init__(
        self, translator: Translator, wanted: Wanted, direction: str, receipts: IO[str] | None, options: dict[str, Any]
    ) -> None:
        self.translator, self.wanted, self.direction = translator, wanted, direction
        self._terms = wanted.read(direction)
        self.terminology = self._terms.terminology
        self.counts: Counter[str] = Counter()
        self.key = ""
        self._used: set[str] = set()  # what occurred, see `ReadTerms.used`
        self.left = 0  # segments that stand in their document as they were
        self._told: Counter[str] = Counter()  # the counts when the last file was summed up
        self._resumed = False
        self._pending: list[tuple[str, list[tuple[str, Translation]]]] = []  # lines of a document, and their sentences
        self._receipts = receipts
        self._options = options
        self.place: Place = lambda index, sentence: f"sentence {index + 1}"

    @classmethod
    @contextmanager
    def open(
        cls,
        wanted: Wanted,
        model: Path | None,
        direction: str | None,
        receipts: Path | None,
        *,
        device: str,
        precision: str,
        **options: Any,
    ) -> Iterator[TextWork]:
        prepare_process()
        translator = Translator.load(model, device, precision)
        chosen = chosen_direction(direction, translator)
        with _receipt_file(receipts) as file:
            work = cls(translator, wanted, chosen, file, options)
            # Receipts of what an interrupted run had translated would be missing, so with them nothing is continued.
            settings = (
                folder_state(ready_model() if model is None else model),
                chosen,
                precision,
                sorted(options.items()),
                wanted,
                [_digest(p) for p in wanted.glossaries],
            )
            work.key = repr(settings) if receipts is None else repr((settings, id(work), _now()))
            yield work

    def __call__(self, sentences: list[str]) -> list[str]:
        """Sentences of documents: their paired marks are taken out, and put where they belong in the translation."""
        marked = [MarkedSentence.of(sentence) for sentence in sentences]
        texts = [sentence if own is None else own.text for sentence, own in zip(sentences, marked, strict=True)]
        short = [shortened(text, self.terminology) for text in texts]
        pieces = iter(self._translations([piece for own in short for piece in own], None, keep_order=True))
        found = [list(islice(pieces, len(own))) for own in short]
        whole = [own if len(results) == 1 else None for own, results in zip(marked, found, strict=True)]
        self._pending += [
            (line, list(zip(own, results, strict=True)))
            for line, own, results in zip(sentences, short, found, strict=True)
        ]
        joined = [replace(results[0], text=" ".join(map(str, results))) for results in found]
        return with_marks(self.translator, whole, joined, self.direction)

    def settled(self, again: list[str], left: list[str]) -> None:
        """Receipts are written once it is known what stands in the document. again: lines that do not, for they were
        translated in pieces; left: those that stand there as they were."""
        unused, untranslated = Counter(again), Counter(left)
        for line, translations in self._pending:
            if unused[line]:
                unused[line] -= 1
                continue
            for sentence, result in translations:
                self._note(sentence, self._not_applied(sentence, result) if untranslated[line] > 0 else result)
            untranslated[line] -= 1
        self._pending = []

    def translations(
        self, sentences: Sequence[str], wanted: Sequence[Sequence[Constraint]] | None, progress: bool = False
    ) -> list[Translation]:
        """Sentences that stand alone: tags are taken out of them, and put back, if they are to be kept."""
        tagged = taken_out(sentences) if self.wanted.protect else [None] * len(sentences)
        results = self._translations(bare(sentences, tagged), wanted, progress)
        results = put_back(self.translator, tagged, results, self.direction)
        for sentence, result in zip(sentences, results, strict=True):
            self._note(sentence, result)
        return results

    def _translations(
        self,
        sentences: Sequence[str],
        wanted: Sequence[Sequence[Constraint]] | None,
        progress: bool = False,
        keep_order: bool = False,
    ) -> list[Translation]:
        """keep_order: placeholders without a name, such as %s, must come as they stand in the source."""
        direction = self.direction if len(self.translator.directions) > 1 else None
        settings = {"direction": direction, "terminology": self.terminology, **self._options}
        with named_places(lambda index: self.place(index, sentences[index])):
            results = self.translator.translate(sentences, wanted, progress=progress, **settings)
        astray = [
            index
            for index, (sentence, result) in enumerate(zip(sentences, results, strict=True))
            if keep_order and in_order(sentence) != in_order(result.text)
        ]
        if astray and self._options["search"] == "vdba":
            with named_places(lambda index: self.place(astray[index], sentences[astray[index]])):
                again = self.translator.translate([sentences[i] for i in astray], **settings | {"ordered": True})
            for index, result in zip(astray, again, strict=True):
                results[index] = result
        if self._receipts is not None:
            results = with_probabilities(self.translator, sentences, results, wanted, direction=direction)
        return results

    def _not_applied(self, sentence: str, result: Translation) -> Translation:
        """The receipts of a sentence that stays as it was: what is kept is there, no other term is."""
        receipts = (self._in_source(own, sentence) for own in result.receipts)
        return replace(result, text=sentence, receipts=tuple(receipts))

    def _in_source(self, own: Receipt, sentence: str) -> Receipt:
        if own.policy == "keep":
            return replace(own, status="kept", target_span=own.source_span, found=own.source, probability=None)
        if own.policy == "forbid":
            return replace(own, status="missed" if self._holds(sentence, own) else "met")
        return replace(own, status="missed", target_span=None, found=None, probability=None)

    def _holds(self, sentence: str, forbidden: Receipt) -> bool:
        language = self.direction.partition("-")[2]
        targets = forbidden.entry.targets if forbidden.entry else (forbidden.target,)
        words = comparable(sentence, language)
        return any(count_occurrences(words, comparable(target, language)) for target in targets)

    def _note(self, sentence: str, result: Translation) -> None:
        self.counts["sentences"] += 1
        for receipt in result.receipts:
            self.counts[receipt.status] += 1
        self._used |= self._terms.used(result.receipts)
        if result.receipts and self._receipts is not None:
            self._receipts.write(receipt_record(sentence, result) + "\n")

    def place_in(self, path: Path) -> None:
        """From now on sentences are those of a document: its name, their line if it is found, and how they begin."""

        def place(_: int, sentence: str) -> str:
            number = _line_of(path, sentence)
            return f"{path}, {f'line {number}, ' if number else ''}{shortened_quote(sentence)}"

        self.place = place

    def document_options(self, column: str, append: bool, retranslate: bool) -> Options:
        source, _, target = self.direction.partition("-")
        is_number = column.isascii() and column.isdigit()
        return Options(source, target, int(column) if is_number else column, append, not is_number, retranslate)

    @staticmethod
    def format_of(path: Path) -> str:
        """Text, where the name does not tell: corpora are called train.de."""
        try:
            return format_of(path)
        except ConfigError:
            if not path.suffix or (path.suffix[1:].isalpha() and len(path.suffix) in (3, 4)):
                return "txt"
            raise

    def summary(self, report: Report) -> str:
        counts, self._told = self.counts - self._told, self.counts.copy()
        self._resumed = self._resumed or report.resumed > 0
        parts = [f"{report.sentences:,} sentence{'s' * (report.sentences != 1)}"]
        if report.resumed:
            parts.append(f"{report.resumed:,} of them from the run before")
        parts += [counted(counts[status], status) for status in STATUSES if counts[status]]
        if report.in_pieces:
            sentences = f"sentence{'s' * (report.in_pieces != 1)}"
            parts.append(f"{report.in_pieces:,} {sentences} in pieces, between their marks: check the terms there")
        return ", ".join(parts)

    def remarks(self) -> Iterator[str]:
        """What the user should know: nothing is passed over in silence."""
        if self._resumed:
            yield "terms of the sentences from the run before are not counted here; a run with --receipts tells of all"
        if self.left:
            were = "segment left as it was" if self.left == 1 else "segments left as they were"
            yield f"{self.left:,} {were}, for markup or directives would have broken (exit code {LEFT})"
        used = self.wanted.names() if self._resumed else self._used
        yield from term_remarks(self.wanted, self.counts, used)


def term_remarks(wanted: Wanted, statuses: Counter[str], used: set[str]) -> Iterator[str]:
    """used: see `ReadTerms.used`."""
    yield from wanted.unused(used)
    for status in ("missed", "conflict"):
        if statuses[status]:
            yield f"{counted(statuses[status], status)}; --receipts says which"


STATUSES = ("met", "met by alternative", "kept", "missed", "conflict")


def counted(number: int, status: str) -> str:
    return f"{number:,} term{'s' * (number != 1)} {'in conflict' if status == 'conflict' else status}"


def shortened_quote(sentence: str) -> str:
    return repr(sentence if len(sentence) <= 60 else f"{sentence[:60]} …")


def _line_of(path: Path, sentence: str) -> int | None:
    """The first line that holds the beginning of a sentence; markup and line breaks may have changed what follows."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return next((number for number, line in enumerate(file, start=1) if sentence[:40] in line), None)


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _now() -> int:
    import time

    return time.time_ns()


@contextmanager
def _receipt_file(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
    elif path == STANDARD_ERROR:
        yield sys.stderr
    else:
        with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
