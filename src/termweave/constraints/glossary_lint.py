"""What is probably wrong with a glossary, and what to do about it.

Three grades. An `error` is a glossary that contradicts itself, or text that can never be met. A `warning` is probably a
mistake. A `note` says how the glossary will be understood where that may surprise: the longer of two nested terms wins.

Every check is a lookup in a dictionary of words or texts, so the time grows with the glossary and not with its square.
Findings that concern many pairs of entries are told once for each entry, with a count and one example.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from termweave.constraints.glossary import Fault, Glossary, GlossaryEntry, primary
from termweave.constraints.glossary_files import read_glossary
from termweave.constraints.odd_characters import oddities
from termweave.constraints.term_words import WordSplitter
from termweave.text.stopwords import is_content
from termweave.text.words import normalise

Severity = Literal["error", "warning", "note"]

_LONGEST_TERM = 20  # words; what is longer is a sentence


@dataclass(frozen=True)
class Finding:
    """`line` is that of the entry in its file, or its place in the glossary if it comes from no file."""

    severity: Severity
    code: str
    line: int
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.severity}: {self.message}; {self.remedy} [{self.code}]"


Words = tuple[str, ...]


class _Linter:
    def __init__(self, glossary: Glossary) -> None:
        self.entries = glossary.entries
        self.lines = [entry.line or place for place, entry in enumerate(self.entries, start=1)]
        self.source_language = primary(glossary.source_language)
        source = WordSplitter(glossary.source_language)
        target = WordSplitter(glossary.target_language)
        self.sources: list[Words] = [tuple(source.split(normalise(entry.source)).keys) for entry in self.entries]
        self.targets: list[list[Words]] = [
            [tuple(target.split(normalise(text)).keys) for text in entry.targets] for entry in self.entries
        ]
        self.findings: list[Finding] = []

    def run(self) -> list[Finding]:
        for check in (self._texts, self._same_source, self._forbidden_targets, self._nested, self._overlapping):
            check()
        grades = {"error": 0, "warning": 1, "note": 2}
        return sorted(self.findings, key=lambda finding: (finding.line, grades[finding.severity], finding.code))

    def _add(self, severity: Severity, code: str, place: int, message: str, remedy: str) -> None:
        self.findings.append(Finding(severity, code, self.lines[place], message, remedy))

    def _texts(self) -> None:
        """Each entry by itself."""
        for place, entry in enumerate(self.entries):
            for side, text in (("source", entry.source), *(("target", text) for text in entry.targets)):
                for code, problem, remedy in oddities(text):
                    grade: Severity = "error" if code == "control-character" else "warning"
                    self._add(grade, code, place, f"the {side} {text!r} {problem}", remedy)
            self._source(place, entry)

    def _source(self, place: int, entry: GlossaryEntry) -> None:
        words, source = self.sources[place], entry.source
        if not source:
            return
        if not any(character.isalnum() for character in source):
            self._add("warning", "no-word", place, f"the source {source!r} holds no word", "remove the entry")
        elif len(words) == 1 and not is_content(words[0], self.source_language) and words[0].isalpha():
            self._add(
                "warning",
                "function-word",
                place,
                f"the source {source!r} is a word without meaning of its own and will be found nearly everywhere",
                "use a longer term",
            )
        if len(words) > _LONGEST_TERM:
            self._add(
                "warning",
                "long",
                place,
                f"the source has {len(words)} words, which is a sentence",
                "use a shorter term",
            )
        if entry.policy in ("must", "prefer") and any(normalise(text) == normalise(source) for text in entry.targets):
            self._add(
                "warning",
                "equal",
                place,
                f"the target of {source!r} is the source itself",
                "if it is not to be translated, use the policy `keep`; else mend the target",
            )

    def _same_source(self) -> None:
        """Entries of the same source: duplicates, alternatives, and policies that exclude each other."""
        groups: dict[Words, list[int]] = defaultdict(list)
        for place, words in enumerate(self.sources):
            if words:
                groups[words].append(place)
        for places in groups.values():
            if len(places) > 1:
                self._duplicates(places)
                self._policies(places)

    def _duplicates(self, places: list[int]) -> None:
        """Within a group, the first of each spelling speaks for it: every entry is compared with one other."""
        first_of: dict[tuple[str, str, str], int] = {}
        first_target: dict[tuple[tuple[str, str, str], str], int] = {}
        first_folded: dict[str, int] = {}
        for place in places:
            entry = self.entries[place]
            key = (normalise(entry.source), entry.policy, entry.case)
            same = [text for text in map(normalise, entry.targets) if (key, text) in first_target]
            if same or (entry.policy == "keep" and key in first_of):
                other = first_target[key, same[0]] if same else first_of[key]
                repeated = f"{entry.source!r} → {same[0]!r}" if same else f"{entry.source!r}"
                self._add(
                    "warning", "duplicate", place, f"{repeated} stands on line {self.lines[other]} too", "remove one"
                )
            elif key in first_of and entry.policy != "forbid":
                self._different_targets(place, first_of[key])
            elif entry.policy != "forbid" and entry.policy in first_folded:
                self._case_variant(place, first_folded[entry.policy])
            first_of.setdefault(key, place)
            first_folded.setdefault(entry.policy, place)
            for text in map(normalise, entry.targets):
                first_target.setdefault((key, text), place)

    def _different_targets(self, place: int, other: int) -> None:
        entry, first = self.entries[place], self.entries[other]
        self._add(
            "warning",
            "different-targets",
            place,
            f"{entry.source!r} is {entry.targets[0]!r} here and {first.targets[0]!r} on line {self.lines[other]}",
            "both will do and the first is preferred; if that is not meant, remove one",
        )

    def _case_variant(self, place: int, other: int) -> None:
        entry, first = self.entries[place], self.entries[other]
        if entry.source == first.source or self.targets[place] == self.targets[other]:
            return
        self._add(
            "note",
            "case-variant",
            place,
            f"{entry.source!r} and {first.source!r} (line {self.lines[other]}) differ in letter case or spacing only, "
            "yet are translated differently",
            "each is used where it is spelt so, the first elsewhere; give them the case rule `exact` to be strict",
        )

    def _policies(self, places: list[int]) -> None:
        first: dict[str, int] = {}
        for place in places:
            policy = self.entries[place].policy
            for other_policy, other in first.items():
                pair = {policy, other_policy}
                if pair == {policy} or "forbid" in pair:
                    continue
                source = self.entries[place].source
                message = f"{source!r} is `{policy}` here and `{other_policy}` on line {self.lines[other]}"
                if "keep" in pair:
                    self._add("error", "conflict", place, message, "decide whether it is translated, and remove one")
                else:
                    self._add("warning", "mixed-policies", place, message, "the first counts; remove one")
            first.setdefault(policy, place)

    def _forbidden_targets(self) -> None:
        """Targets that are wanted and forbidden at once, as a whole or in a part."""
        everywhere: dict[Words, int] = {}
        by_source: dict[Words, dict[Words, int]] = defaultdict(dict)
        for place, entry in enumerate(self.entries):
            if entry.policy == "forbid":
                table = by_source[self.sources[place]] if entry.source else everywhere
                for words in self.targets[place]:
                    table.setdefault(words, place)
        lengths = _lengths(everywhere)
        own_lengths = {source: _lengths(table) for source, table in by_source.items()}
        for place, entry in enumerate(self.entries):
            own = by_source.get(self.sources[place], {})
            if entry.policy == "forbid" or not (everywhere or own):
                continue
            texts = entry.targets or (entry.source,)
            wanted = self.targets[place] or [self.sources[place]]
            hits = [
                self._forbidding(text, _first_part(words, everywhere, lengths))
                or self._forbidding(text, _first_part(words, own, own_lengths.get(self.sources[place], ())))
                for text, words in zip(texts, wanted, strict=True)
            ]
            if any(hits):
                self._forbidden(place, hits)

    def _forbidding(self, text: str, words_and_place: tuple[Words, int] | None) -> int:
        """The line that forbids the text, or 0. Where letter case is not carried over, only the same case is meant."""
        if words_and_place is None:
            return 0
        words, place = words_and_place
        entry = self.entries[place]
        written = next(target for target, own in zip(entry.targets, self.targets[place], strict=True) if own == words)
        return self.lines[place] if entry.case == "carry" or normalise(written) in normalise(text) else 0

    def _forbidden(self, place: int, hits: list[int]) -> None:
        source = self.entries[place].source
        line = next(line for line in hits if line)
        if all(hits):
            message = f"{source!r} is to become what line {line} forbids"
            self._add("error", "conflict", place, message, "remove one of the two")
        else:
            message = f"a target of {source!r} is what line {line} forbids"
            self._add("warning", "forbidden-alternative", place, message, "remove that target")

    def _nested(self) -> None:
        """Entries whose source is a part of a longer one."""
        place_of: dict[Words, int] = {}
        for place, words in enumerate(self.sources):
            if words and self.entries[place].policy != "forbid":
                place_of.setdefault(words, place)
        lengths = sorted({len(words) for words in place_of if len(words) < _LONGEST_TERM})
        around: dict[int, list[int]] = defaultdict(list)
        for words, place in place_of.items():
            if len(words) <= _LONGEST_TERM:
                for part in {part for part in _parts(words, lengths) if part in place_of}:
                    around[place_of[part]].append(place)
        for place, longer in around.items():
            self._add(
                "note",
                "nested",
                place,
                f"{self.entries[place].source!r} is part of {_counted(longer, 'longer term')}, "
                f"such as {self.entries[longer[0]].source!r} (line {self.lines[longer[0]]})",
                "where the longer one stands, it wins",
            )

    def _overlapping(self) -> None:
        """Entries that end as others begin: `open file` and `file name` in `open file name`."""
        beginnings: dict[Words, list[int]] = defaultdict(list)
        distinct: dict[Words, int] = {}
        for place, words in enumerate(self.sources):
            if 1 < len(words) <= _LONGEST_TERM and self.entries[place].policy != "forbid":
                distinct.setdefault(words, place)
        for words, place in distinct.items():
            for length in range(1, len(words)):
                beginnings[words[:length]].append(place)
        for words, place in distinct.items():
            for length in range(len(words) - 1, 0, -1):
                ending = words[-length:]
                others = [other for other in beginnings.get(ending, ())[:2] if other != place]
                if others and any(character.isalnum() for character in "".join(ending)):
                    count = len(beginnings[ending]) - (words[:length] == ending)
                    self._add(
                        "note",
                        "overlap",
                        place,
                        f"the end of {self.entries[place].source!r} is the beginning of {_number(count, 'term')}, "
                        f"such as {self.entries[others[0]].source!r} (line {self.lines[others[0]]})",
                        "where they overlap, the longer wins, then the one that begins first",
                    )
                    break


@dataclass(frozen=True)
class LintReport:
    """What is to be said about a glossary file."""

    path: Path
    entries: int
    findings: tuple[Finding, ...]

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def summary(self) -> str:
        counts = (f"{_number(self.count(grade), grade)}" for grade in ("error", "warning", "note"))
        return f"{self.path}: {_number(self.entries, 'entry')}; {', '.join(counts)}"

    def lines(self, limit: int = 0) -> list[str]:
        """A line a finding; of each code at most `limit`, if that is not 0, and a line that says how many there are."""
        shown: Counter[str] = Counter()
        lines: list[str] = []
        for finding in self.findings:
            shown[finding.code] += 1
            if not limit or shown[finding.code] <= limit:
                lines.append(f"{self.path}, {finding}")
        return lines + [
            f"{self.path}: {count - limit:,} more of [{code}]"
            for code, count in shown.items()
            if limit and count > limit
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "entries": self.entries,
            "errors": self.count("error"),
            "warnings": self.count("warning"),
            "notes": self.count("note"),
            "findings": [asdict(finding) for finding in self.findings],
        }


def lint_file(path: Path, source_language: str = "", target_language: str = "") -> LintReport:
    """Read and check a glossary file. Lines that are no entries are findings too, so that all are told at once."""
    faults: list[Fault] = []
    glossary = read_glossary(path, source_language, target_language, faults)
    unreadable = [Finding("error", "no-entry", line, *_parted(message)) for line, message in faults]
    findings = sorted([*unreadable, *lint_glossary(glossary)], key=lambda finding: finding.line)
    return LintReport(path, len(glossary) + len(faults), tuple(findings))


def _parted(message: str) -> tuple[str, str]:
    problem, _, remedy = message.partition("; ")
    return problem, remedy


def _number(count: int, noun: str) -> str:
    plural = "entries" if noun == "entry" else noun + "s"
    return f"{count:,} {noun if count == 1 else plural}"


def lint_glossary(glossary: Glossary) -> list[Finding]:
    """Everything worth a second look, in the order of the lines. Give the glossary as it was read, not merged."""
    return _Linter(glossary).run()


def _lengths(table: Iterable[Words]) -> list[int]:
    return sorted({len(words) for words in table})


def _first_part(words: Words, table: dict[Words, int], lengths: Iterable[int]) -> tuple[Words, int] | None:
    """The first run of words in `words`, or the whole, that stands in the table, and what it is there."""
    for part in (words, *_parts(words, lengths)):
        if part in table:
            return part, table[part]
    return None


def _parts(words: Words, lengths: Iterable[int]) -> Iterator[Words]:
    """Runs of words inside `words`, shorter than the whole, of the given lengths."""
    for length in lengths:
        if length >= len(words):
            return
        for start in range(len(words) - length + 1):
            yield words[start : start + length]


def _counted(places: list[int], noun: str) -> str:
    return f"a {noun}" if len(places) == 1 else f"{len(places):,} {noun}s"
