"""What `termweave translate` is asked to translate: lines of text or a constraint set, with their constraints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import read_constraint_set
from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.constraints.glossary_files import read_glossary
from termweave.data.readers import read_lines
from termweave.decoding.terminology import MOST_GUARANTEED, Receipt, Terminology
from termweave.decoding.translator import Translation, Translator
from termweave.errors import ConfigError, DataError
from termweave.text.words import Span, normalise

CHARACTERS_OF_A_WORD = 8  # and its space: more than words mostly have
MOST_CHARACTERS = 900  # of a sentence: one subword each at the worst, which is what a model takes


@dataclass(frozen=True)
class Wanted:
    """What translations must keep to."""

    glossaries: tuple[Path, ...]
    terms: tuple[GlossaryEntry, ...]
    inflection: bool
    protect: bool

    def read(self, direction: str) -> ReadTerms:
        files = _read_files(self.glossaries, direction)
        origins: dict[str, set[str]] = {}
        for path, glossary in files:
            for entry in glossary.entries:
                origins.setdefault(normalise(entry.source), set()).add(_name(path))
        if not (self.glossaries or self.terms or self.protect):
            return ReadTerms(None, origins)
        return ReadTerms(_terminology(files, self.terms, direction, self.inflection, self.protect), origins)

    def names(self) -> set[str]:
        """Of all that `unused` looks for."""
        return {normalise(term.source) for term in self.terms} | set(map(_name, self.glossaries))

    def unused(self, used: set[str]) -> Iterator[str]:
        """What occurred nowhere. used: see `ReadTerms.used`."""
        for source in dict.fromkeys(term.source for term in self.terms if term.policy != "forbid"):
            if normalise(source) not in used:
                yield f"the term {source!r} occurs in no sentence and was not applied"
        for path in self.glossaries:
            if _name(path) not in used:
                yield f"nothing of the glossary {path} occurs in the text; is it one for these languages?"


@dataclass(frozen=True)
class ReadTerms:
    """The terms that are wanted, and in which glossary files each source stands."""

    terminology: Terminology | None
    origins: dict[str, set[str]]

    def used(self, receipts: Iterable[Receipt]) -> set[str]:
        """Sources of terms that occurred, and names of the glossary files they are in. Those that forbid something
        everywhere always count."""
        sources = {normalise(own.entry.source if own.entry else own.source) for own in receipts}
        return sources.union(*(self.origins.get(source, ()) for source in ("", *sources)))


def chosen_direction(direction: str | None, translator: Translator) -> str:
    if direction is not None and direction not in translator.directions:
        raise ConfigError(
            f"the model does not translate {direction}; choose one of: {', '.join(translator.directions)}"
        )
    if direction is None and len(translator.directions) > 1:
        raise ConfigError(f"no direction was given; choose one of: {', '.join(translator.directions)}")
    return direction or translator.directions[0]


def shortened(sentence: str, terms: Terminology | None = None) -> list[str]:
    """A sentence that is too long for the model, or has too many terms to guarantee them all, in pieces of whole words;
    no cut goes through a term."""
    if len(sentence) <= MOST_CHARACTERS:
        return _with_fewer_terms(sentence, terms)
    text = " ".join(sentence.split())
    places = sorted(terms.places(text)) if terms is not None else []
    pieces: list[str] = []
    start = 0
    while len(text) - start > MOST_CHARACTERS:
        end = _last_cut(text, start, places)
        pieces += _with_fewer_terms(text[start:end].strip(), terms)
        start = end
    return [*pieces, *_with_fewer_terms(text[start:].strip(), terms)]


def _with_fewer_terms(text: str, terms: Terminology | None) -> list[str]:
    """Cut in the middle, as often as it takes. So many terms need many words; most sentences are not looked at."""
    is_short = text.count(" ") < MOST_GUARANTEED and len(text) < MOST_GUARANTEED * CHARACTERS_OF_A_WORD
    if terms is None or is_short or len(terms.plan(text).required) <= MOST_GUARANTEED:
        return [text]
    inside = {position for first, last in terms.places(text) for position in range(first + 1, last)}
    cuts = [place for place, character in enumerate(text) if character == " " and place not in inside]
    middle = min(cuts, key=lambda place: abs(place - len(text) // 2), default=0)
    if not (left := text[:middle].strip()) or not (right := text[middle:].strip()):
        return [text]
    return [*_with_fewer_terms(left, terms), *_with_fewer_terms(right, terms)]


def _last_cut(text: str, start: int, places: Sequence[Span]) -> int:
    """The last place to cut before a piece gets too long: behind a space, if there is one in its second half."""
    longest = start + MOST_CHARACTERS
    near = [place for place in places if start < place[1] and place[0] < longest]
    inside = {position for first, last in near for position in range(first + 1, last)}
    allowed = [position for position in range(longest, start, -1) if position not in inside]
    spaces = (position for position in allowed if text[position - 1] == " " and position > start + MOST_CHARACTERS // 2)
    return next(spaces, allowed[0] if allowed else longest)


def read_requests(
    source: Path | None, constraint_set: Path | None, with_constraints: bool
) -> tuple[list[str], list[list[Constraint]]]:
    """Sentences and the constraints of each."""
    if source is not None and constraint_set is not None:
        raise ConfigError("give either a text file or --set, not both")
    if constraint_set is None and not with_constraints:
        raise ConfigError("--no-constraints belongs to --set: plain text has no constraints of its own")
    wanted: list[list[Constraint]]
    if constraint_set is not None:
        rows = read_constraint_set(constraint_set)
        sentences = [row.source for row in rows]
        wanted = [list(row.constraints) if with_constraints else [] for row in rows]
    else:
        sentences = list(read_lines(source)) if source is not None else as_rows(read_standard_input())
        wanted = [[] for _ in sentences]
    return sentences, wanted


def read_terms(
    glossaries: Sequence[Path], terms: Sequence[GlossaryEntry], direction: str, inflection: bool, protect: bool
) -> Terminology:
    """Glossary files and single terms as one; what a single term speaks of, the files do not."""
    return _terminology(_read_files(glossaries, direction), terms, direction, inflection, protect)


def _name(path: Path) -> str:
    return str(path.resolve())  # workers may live in other folders


def _read_files(glossaries: Sequence[Path], direction: str) -> list[tuple[Path, Glossary]]:
    source, _, target = direction.partition("-")
    return [(path, read_glossary(path, source, target)) for path in glossaries]


def _terminology(
    files: Sequence[tuple[Path, Glossary]],
    terms: Sequence[GlossaryEntry],
    direction: str,
    inflection: bool,
    protect: bool,
) -> Terminology:
    spoken_for = {normalise(term.source).casefold() for term in terms if term.policy != "forbid"}
    entries = [
        entry
        for _, glossary in files
        for entry in glossary.entries
        if entry.policy == "forbid" or normalise(entry.source).casefold() not in spoken_for
    ]
    return Terminology(Glossary.of([*terms, *entries], direction), direction, inflection=inflection, protect=protect)


def parse_term(term: str) -> GlossaryEntry:
    """ "SOURCE=TARGET" → an entry."""
    source, separator, target = term.partition("=")
    if not separator:
        raise ConfigError(f"--term {term!r}: write it as SOURCE=TARGET, for example --term 'Haus=building'")
    if not source.strip() or not target.strip():
        raise ConfigError(f"--term {term!r}: a side is empty; write it as SOURCE=TARGET")
    return GlossaryEntry(source.strip(), (target.strip(),))


def as_lines(
    translations: Sequence[Translation], wanted: Sequence[Sequence[Constraint]], as_json: bool, nbest: int
) -> list[str]:
    """What is written: a JSON object a sentence, or `nbest` texts, the next best below the best, empty if missing."""
    if as_json:
        return [as_record(translation, own) for translation, own in zip(translations, wanted, strict=True)]
    lines = []
    for translation in translations:
        texts = [translation.text, *(other.text for other in translation.others)]
        lines += texts + [""] * (nbest - len(texts))
    return lines


def as_record(translation: Translation, constraints: Sequence[Constraint]) -> str:
    """One line of JSON: the output, its score, and where each constraint stands in it, in characters."""
    record = _fields(translation, constraints)
    if translation.others:
        record["others"] = [_fields(other, constraints) for other in translation.others]
    return json.dumps(record, ensure_ascii=False)


def receipt_record(sentence: str, translation: Translation, **place: int) -> str:
    """One line of JSON: what became of the terms of a sentence, and where it stands."""
    receipts = [receipt.to_json() for receipt in translation.receipts]
    record = {**place, "source": sentence, "output": translation.text, "receipts": receipts}
    return json.dumps(record, ensure_ascii=False)


def _fields(translation: Translation, constraints: Sequence[Constraint]) -> dict[str, Any]:
    record: dict[str, Any] = {"output": translation.text, "score": round(translation.score, 4)}
    record["constraints"] = [
        {"source": constraint.source, "target": constraint.target, "span": None if span is None else list(span)}
        for constraint, span in zip(constraints, translation.spans, strict=True)
    ]
    record["receipts"] = [receipt.to_json() for receipt in translation.receipts]
    return {name: value for name, value in record.items() if value != []}


def read_standard_input() -> str:
    if sys.stdin is None:  # so it is in programs without a console
        raise DataError("there is no standard input; name a text file")
    try:
        return sys.stdin.buffer.read().decode("utf-8").removeprefix("\ufeff")  # a byte order mark is no text
    except UnicodeDecodeError as error:
        raise DataError(f"standard input is not UTF-8 text (byte {error.start}); convert it first") from None


def as_rows(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
