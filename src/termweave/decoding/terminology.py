"""A glossary at work: what each sentence must, should and must not become, and a receipt for every term.

| policy   | the model is told | the search guarantees it | status in the receipt                            |
|----------|-------------------|--------------------------|--------------------------------------------------|
| `must`   | yes               | yes, or the call fails   | `met`, `met by alternative`                      |
| `prefer` | yes               | no                       | `met`, `met by alternative`, `missed`, `conflict` |
| `keep`   | yes               | yes, or the call fails   | `kept`; `missed` if a placeholder is there too often |
| `forbid` | no                | its absence              | `met`: it does not occur                         |

With `search="beam"` nothing is guaranteed, and the receipts say what was missed.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from termweave.constraints.constraint import Constraint
from termweave.constraints.glossary import Glossary, GlossaryEntry, language_pair, primary
from termweave.constraints.matching import TermMatch, TermMatcher
from termweave.constraints.occurrences import comparable, count_occurrences
from termweave.constraints.protection import Kind, counted
from termweave.errors import ConfigError
from termweave.text.words import Span, normalise

Status = Literal["met", "met by alternative", "missed", "conflict", "kept"]
MOST_GUARANTEED = 40  # terms of one sentence; where there are more, addresses and numbers are left to the model
_KINDS = frozenset(get_args(Kind))
_REMEMBERED = 20_000  # the terms of a glossary come again and again


@dataclass(frozen=True)
class Receipt:
    """What became of one term in one sentence."""

    source: str  # the term as it stands in the sentence
    source_span: Span  # where, in characters
    target: str  # what was preferred; of `forbid`, what was forbidden
    policy: str
    status: Status
    target_span: Span | None = None  # where it stands in the translation
    found: str | None = None  # what stands there
    reason: str = ""  # of a conflict, or why what is there does not count as kept
    probability: float | None = None  # the model's own, of what was found; None where it was not asked for
    entry: GlossaryEntry | None = None  # of the glossary
    told: str = ""  # to the model; not `target` where that is forbidden

    def to_json(self) -> dict[str, Any]:
        """Without what says nothing, and what only we need."""
        inner = ("entry", "told")
        fields = {name: value for name, value in vars(self).items() if value not in (None, "") and name not in inner}
        if self.entry is not None and self.entry.note:
            fields["note"] = self.entry.note
        if self.probability is not None:
            fields["probability"] = round(self.probability, 4)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def told(receipts: Sequence[Receipt]) -> list[Constraint]:
    """The terms as they were told to the model."""
    in_source = (receipt for receipt in receipts if receipt.source_span[0] < receipt.source_span[1])
    wanted = (receipt for receipt in in_source if receipt.policy != "forbid" and receipt.status != "conflict")
    return [Constraint(normalise(own.source), normalise(own.told or own.target)) for own in wanted]


@functools.lru_cache(_REMEMBERED)
def _constraint(written: str, targets: tuple[str, ...]) -> Constraint:
    """The same object for the same term: what is remembered of constraints is found faster."""
    own = tuple(map(normalise, dict.fromkeys(targets)))  # the model is told of the first
    return Constraint(normalise(written), own[0], own[1:])


@functools.lru_cache(_REMEMBERED)
def _normalised(targets: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(normalise, targets))


@functools.lru_cache(_REMEMBERED)
def _most_counted(targets: tuple[str, ...]) -> Counter[str]:
    """Placeholders and the like that they bring along; of alternatives, those with the most. Not to be changed."""
    most: Counter[str] = Counter()
    for target in targets:
        most |= counted(target)
    return most


class PlannedTerm(NamedTuple):  # made for every term of every sentence, as `TermMatch` is
    """A term found in a sentence, and what is to be done about it."""

    match: TermMatch
    written: str  # as it stands in the sentence
    conflict: str = ""  # why it cannot be applied
    allowed: tuple[str, ...] = ()  # those of its targets that are not forbidden here, if some are
    is_relaxed: bool = False  # left to the model, for there is too much in the sentence to guarantee all of it

    @property
    def constraint(self) -> Constraint:
        return _constraint(self.written, self.allowed + self.match.targets)

    @property
    def is_told(self) -> bool:
        return not (self.is_forbidden or self.conflict)

    @property
    def is_forbidden(self) -> bool:
        return self.match.entry.policy == "forbid"

    @property
    def is_required(self) -> bool:
        return self.match.entry.policy in ("must", "keep") and not self.is_relaxed

    def receipt(self, text: str, span: Span | None, is_present: bool) -> Receipt:
        """span: where a target stands in the translation; is_present: does what is forbidden occur?"""
        found = None if span is None else text[span[0] : span[1]]
        entry, start, end, targets = self.match
        return Receipt(
            self.written,
            (start, end),
            targets[0],
            entry.policy,
            self._status(found, is_present),
            span,
            found,
            self.conflict,
            entry=entry,
            told=self.allowed[0] if self.allowed else "",
        )

    def _status(self, found: str | None, is_present: bool) -> Status:
        policy = self.match.entry.policy
        if self.conflict:
            return "conflict"
        if policy == "forbid":
            return "missed" if is_present else "met"
        if found is None:
            return "missed"
        if policy == "keep":
            return "kept"
        preferred = _normalised(self.match.entry.targets[:1] + self.match.targets[:1])
        return "met" if found in preferred else "met by alternative"


@dataclass(frozen=True)
class TermPlan:
    """All terms of a sentence."""

    terms: tuple[PlannedTerm, ...] = ()
    forbidden: tuple[str, ...] = ()
    is_protecting: bool = False  # are placeholders and the like kept as they are?

    def allowed(self, given: Sequence[Constraint]) -> Counter[str] | None:
        """How many placeholders and the like an output may hold: those of the source, and what terms bring along.

        None: as many as it likes. given: constraints beside those of the plan.
        """
        if not self.is_protecting:
            return None
        number: Counter[str] = Counter()
        for constraint in (*given, *self.told):
            if most := _most_counted(constraint.wordings):
                number += most
        return number

    @functools.cached_property
    def _told(self) -> list[int]:
        """Which terms are told. What is guaranteed comes first, so that it has the first claim to a place."""
        told = [index for index, term in enumerate(self.terms) if term.is_told]
        if len(told) == len(self.required):  # as mostly
            return told
        return sorted(told, key=lambda index: not self.terms[index].is_required)

    @functools.cached_property
    def told(self) -> tuple[Constraint, ...]:
        if len(self._told) == len(self.required):
            return self.required
        return tuple([self.terms[index].constraint for index in self._told])

    @functools.cached_property
    def required(self) -> tuple[Constraint, ...]:
        return tuple([term.constraint for term in self.terms if term.is_required])

    @functools.cached_property
    def chosen(self) -> int:
        """How many required terms are to be translated in a certain way, not kept as they are."""
        return sum(term.is_required and term.match.entry.policy == "must" for term in self.terms)

    def receipts(
        self, text: str, spans: Sequence[Span | None], language: str, given: Sequence[Constraint] = ()
    ) -> tuple[Receipt, ...]:
        """spans: of the terms that are told, in their order, in the translation `text`. given: see `allowed`."""
        places = dict(zip(self._told, spans, strict=True))
        receipts = [
            term.receipt(text, places.get(index), term.is_forbidden and _is_present(term, text, language))
            for index, term in enumerate(self.terms)
        ]
        # Most texts hold nothing of that, and then nobody need know how much would be allowed.
        held = counted(text) if self.is_protecting else Counter[str]()
        if held and (surplus := held - (self.allowed(given) or Counter())):
            receipts = _with_surplus(receipts, surplus, text)
        return tuple(receipts)


def _with_surplus(receipts: list[Receipt], surplus: Counter[str], text: str) -> list[Receipt]:
    """What stands there too often is not kept; what is not in the source at all gets a receipt of its own."""
    for own, number in surplus.items():
        reason = f"{number} more in the translation than in the source"
        ours = [index for index, receipt in enumerate(receipts) if receipt.found == own and receipt.policy == "keep"]
        if ours:
            receipts[ours[-1]] = replace(receipts[ours[-1]], status="missed", reason=reason)
        else:
            place = text.index(own)
            span = (place, place + len(own))
            receipts.append(Receipt(own, (0, 0), own, "keep", "missed", span, own, reason))
    return receipts


def _is_present(term: PlannedTerm, text: str, language: str) -> bool:
    words = comparable(text, language)
    return any(count_occurrences(words, comparable(target, language)) for target in term.match.targets)


class Terminology:
    """A glossary made ready for the sentences of one direction. Build it once, use it for every call.

    inflection: also find inflected forms of the source. protect: keep addresses, placeholders, tags, technical
    names and numbers with units as they are.
    """

    def __init__(
        self, glossary: Glossary | None, direction: str, *, inflection: bool = False, protect: bool = True
    ) -> None:
        source, target = language_pair(direction)
        glossary = glossary or Glossary(())
        for side, language, own in (
            ("source", source, glossary.source_language),
            ("target", target, glossary.target_language),
        ):
            if own and primary(own) != primary(language):
                raise ConfigError(
                    f"the glossary's {side} language is {own!r}, but the translation is {direction}; "
                    "choose the other direction, or a glossary for this one"
                )
        self.language = target
        self._matcher = TermMatcher(Glossary(glossary.entries, source, target), inflection=inflection, protect=protect)

    def plan(self, sentence: str) -> TermPlan:
        matches = self._matcher.find(sentence)
        forbidden = dict.fromkeys(self._matcher.forbidden)
        for match in matches:
            if match.entry.policy == "forbid":
                forbidden |= dict.fromkeys(match.targets)
        phrases = {text: comparable(text, self.language) for text in forbidden}
        terms = tuple(self._planned(match, sentence, phrases) for match in matches)
        return within_limits(TermPlan(terms, tuple(forbidden), self._matcher.protect))

    def places(self, text: str) -> list[Span]:
        """Where terms stand, and what else is kept: whoever cuts the text must not cut there."""
        return [(own.start, own.end) for own in self._matcher.find(text) if own.entry.policy != "forbid"]

    def wants(self, text: str) -> bool:
        """Does the glossary have something to say about a text, were it without a letter? Also if it may not stay."""
        if any(own.entry.policy in ("must", "prefer") for own in self._matcher.find(text)):
            return True
        phrases = (comparable(phrase, self.language) for phrase in self.plan(text).forbidden)
        words = comparable(text, self.language)
        return any(count_occurrences(words, phrase) for phrase in phrases)

    def _planned(self, match: TermMatch, sentence: str, forbidden: dict[str, tuple[str, ...]]) -> PlannedTerm:
        """The model is told a target that is allowed. A wish without one is a conflict; what must be is then refused,
        with the reason, when it is translated."""
        written, conflict, allowed = sentence[match.start : match.end], "", match.targets
        if match.entry.policy != "forbid" and forbidden:
            against = {target: self._against(target, forbidden) for target in match.targets}
            allowed = tuple(target for target in match.targets if not against[target])
            if not allowed and match.entry.policy == "prefer":
                conflict = f"{against[match.targets[0]]!r} is forbidden here"
        return PlannedTerm(match, written, conflict, allowed)

    def _against(self, target: str, forbidden: dict[str, tuple[str, ...]]) -> str:
        """What is forbidden of a target."""
        words = comparable(target, self.language)
        return next((text for text, phrase in forbidden.items() if count_occurrences(words, phrase)), "")


def within_limits(plan: TermPlan) -> TermPlan:
    """A line of a hundred numbers is no reason to refuse it: they are left to the model, and the receipts tell."""
    if len(plan.required) <= MOST_GUARANTEED:
        return plan
    return replace(plan, terms=tuple(term._replace(is_relaxed=is_protected(term)) for term in plan.terms))


def is_protected(term: PlannedTerm) -> bool:
    """Is it an address, a placeholder, a tag, a name or a number, which no glossary speaks of?"""
    entry = term.match.entry
    return entry.policy == "keep" and entry.case == "exact" and entry.note in _KINDS and not entry.line
