"""A glossary: which source terms become which target terms, how strictly, and in which letter case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from termweave.errors import ConfigError, ConstraintError
from termweave.text.words import normalise

Policy = Literal["must", "prefer", "keep", "forbid"]
CaseRule = Literal["carry", "fixed", "exact"]
POLICIES: tuple[str, ...] = get_args(Policy)
Fault = tuple[int, str]  # a line of a glossary file that is no entry, and why
CASE_RULES: tuple[str, ...] = get_args(CaseRule)


@dataclass(frozen=True)
class GlossaryEntry:
    """One term.

    `policy`:
      must      `source` becomes one of `targets`; the first is preferred
      prefer    the same, as a wish: the model is told, nothing is guaranteed
      keep      `source` is not translated; such an entry has no targets
      forbid    none of `targets` may be used where `source` occurs; without a source, nowhere

    `case`:
      carry     found in any letter case, which is carried over to the target
      fixed     found in any letter case; the target stays as written
      exact     found only as written; the target stays as written

    `line` is where the entry stands in its file, for messages; it is no part of what the entry says.
    """

    source: str
    targets: tuple[str, ...] = ()
    policy: Policy = "must"
    case: CaseRule = "carry"
    note: str = ""
    line: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.targets, str):
            raise ConstraintError(f"the targets of a glossary entry are a list of texts, got {self.targets!r}")
        for text in (self.source, *self.targets, self.note):
            if not isinstance(text, str):
                raise ConstraintError(f"a glossary entry is made of texts, got {text!r}")
        source = self.source if self.source.strip() else ""
        targets = tuple(dict.fromkeys(self.targets))
        if self.policy == "keep":
            targets = tuple(target for target in targets if normalise(target) != normalise(source))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "targets", targets)
        self._check_choices()
        for text in (source, *targets, self.note):
            _check_text(text)
        self._check_sides()

    def _check_choices(self) -> None:
        for name, value, known in (("policy", self.policy, POLICIES), ("case rule", self.case, CASE_RULES)):
            if value not in known:
                raise ConstraintError(f"unknown {name} {value!r}; it is one of {', '.join(known)}")

    def _check_sides(self) -> None:
        if not self.source and self.policy != "forbid":
            raise ConstraintError(f"the source is empty; only `forbid` can go without one, this is `{self.policy}`")
        if any(not target.strip() for target in self.targets):
            raise ConstraintError(f"a target of {self.source!r} is empty; write its text or leave it out")
        if self.policy == "keep" and self.targets:
            raise ConstraintError(
                f"{self.source!r} is to be kept, yet has the target {self.targets[0]!r}; "
                "remove the target, or use the policy `must`"
            )
        if self.policy != "keep" and not self.targets:
            raise ConstraintError(
                f"{self.source!r} has no target; give one, or use the policy `keep` if it is not to be translated"
            )


def _check_text(text: str) -> None:
    if text.isascii() and "\0" not in text:
        return
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ConstraintError(f"{text!r} holds a character that no text file can hold (NUL or half a character)")


@dataclass(frozen=True)
class Glossary:
    """Entries in the order of their file, one for each row or concept there. Languages are codes such as `de`, or ""
    where they are not known.

    `passed_over` counts what a file held in other languages only.
    """

    entries: tuple[GlossaryEntry, ...]
    source_language: str = ""
    target_language: str = ""
    passed_over: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(self.entries))

    def __len__(self) -> int:
        return len(self.entries)

    def merged(self) -> Glossary:
        """Entries of the same source, policy and case rule become one.

        It stands where the first of them stood. Its targets are all of theirs, each once, in the order of the file: the
        first is preferred, the others are alternatives (all of them are forbidden, if the policy is that). Notes that
        differ are joined. Sources are the same if they differ in Unicode form or white space only; `Polish` and
        `polish` stay apart.
        """
        merged: dict[tuple[str, str, str], GlossaryEntry] = {}
        for entry in self.entries:
            key = (normalise(entry.source), entry.policy, entry.case)
            first = merged.get(key)
            merged[key] = entry if first is None else _joined(first, entry)
        return replace(self, entries=tuple(merged.values()))

    @classmethod
    def of(cls, entries: Iterable[GlossaryEntry], languages: str = "") -> Glossary:
        """`Glossary.of(entries, "de-en")`."""
        return cls(tuple(entries), *(language_pair(languages) if languages else ("", "")))


def _joined(first: GlossaryEntry, second: GlossaryEntry) -> GlossaryEntry:
    seen = {normalise(target) for target in first.targets}
    added = tuple(target for target in second.targets if normalise(target) not in seen)
    notes = dict.fromkeys(note for note in (first.note, second.note) if note)
    return replace(first, targets=first.targets + added, note="; ".join(notes))


def language_pair(languages: str) -> tuple[str, str]:
    """ "de-en" → ("de", "en")."""
    source, _, target = languages.partition("-")
    if not source or not target:
        raise ConfigError(f"{languages!r} names no two languages; write them as de-en")
    return source, target


def primary(language: str) -> str:
    """The language of a code without its region: `de-AT` → `de`."""
    return language.replace("_", "-").partition("-")[0].lower()
