"""The terms of several glossaries in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from termweave.decoding.terminology import PlannedTerm, TermPlan, is_protected
from termweave.documents.sentences import Terms
from termweave.text.words import Span


class Planner(Terms, Protocol):
    """What finds the terms of a sentence: a `Terminology`, or several."""

    def plan(self, sentence: str) -> TermPlan: ...


class FirstOf:
    """Several glossaries: what an earlier one finds, later ones find no more."""

    def __init__(self, planners: Sequence[Planner]) -> None:
        self._planners = planners

    def plan(self, sentence: str) -> TermPlan:
        plans = [planner.plan(sentence) for planner in self._planners]
        found: list[PlannedTerm] = []
        # All of them find addresses and numbers, which come after any term.
        for protected in (False, True):
            for plan in plans:
                taken = [term for term in found if term.match.entry.policy != "forbid"]
                found += [term for term in plan.terms if is_protected(term) is protected and _has_room(term, taken)]
        found.sort(key=lambda term: (term.match.start, term.match.end))
        forbidden = dict.fromkeys(text for plan in plans for text in plan.forbidden)
        is_protecting = any(plan.is_protecting for plan in plans)
        return TermPlan(tuple(found), tuple(forbidden), is_protecting)

    def places(self, text: str) -> list[Span]:
        return [(term.match.start, term.match.end) for term in self.plan(text).terms if not term.is_forbidden]

    def wants(self, text: str) -> bool:
        return any(planner.wants(text) for planner in self._planners)


def _has_room(term: PlannedTerm, taken: Sequence[PlannedTerm]) -> bool:
    if term.match.entry.policy == "forbid":
        return True
    return not any(term.match.start < other.match.end and other.match.start < term.match.end for other in taken)
