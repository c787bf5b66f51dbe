"""From what a person asks for to what the search must produce, and back: demands in tokens, and a check on the text.

The search works on tokens, the promise is about text. Where a word may end inside a run of pieces is a matter of the
language ("Europe's" is two words, "don't" one), so the usual rule is a good guess: letters and digits go on with a
word, all else ends it. After the search the text itself is looked at; where the guess was wrong, the sentence is
searched again by a rule that leaves nothing to guess: a phrase stands between spaces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from termweave.constraints.constraint import Constraint
from termweave.constraints.occurrences import comparable, comparable_spans, count_occurrences
from termweave.decoding.automaton import Demands, Phrase, Requirement, WordJoins
from termweave.errors import ConstraintError
from termweave.text.subwords import Subwords
from termweave.text.words import Span, normalise


@dataclass(frozen=True)
class Wishes:
    """What the translation of one sentence must and must not contain, as text."""

    required: tuple[Constraint, ...] = ()
    forbidden: tuple[str, ...] = ()
    ordered: bool = False
    never: tuple[int, ...] = ()  # tokens that spelled something forbidden, in an unusual way, in earlier attempts

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden)


def word_joins(subwords: Subwords, strict: bool = False) -> WordJoins:
    """The usual rule, or the strict one: only a space, or an end of the text, ends a word."""
    if strict:
        everything = np.arange(subwords.size)
        spaced = subwords.starts_word(everything)
        return WordJoins(everything != subwords.lone_space, ~spaced)
    return WordJoins(subwords.ends_inside_word, subwords.begins_inside_word)


def make_demands(wishes: Wishes, subwords: Subwords, strict: bool = False) -> Demands:
    """The same in tokens. A phrase may be spelled with or without a space before it."""
    wanted = [_targets(constraint) for constraint in wishes.required]
    counted = [(targets, 1) for targets in wanted] if wishes.ordered else list(Counter(wanted).items())
    required = tuple(Requirement(_all_spellings(targets, subwords, strict), times) for targets, times in counted)
    forbidden = [spelling for text in wishes.forbidden for spelling in _spellings(normalise(text), subwords, False)]
    return Demands(required, tuple(dict.fromkeys(forbidden)), wishes.ordered, wishes.never)


def _targets(constraint: Constraint) -> tuple[str, ...]:
    return tuple(dict.fromkeys(normalise(text) for text in constraint.targets))


def _all_spellings(targets: tuple[str, ...], subwords: Subwords, strict: bool) -> tuple[Phrase, ...]:
    return tuple(dict.fromkeys(spelling for text in targets for spelling in _spellings(text, subwords, strict)))


def _spellings(text: str, subwords: Subwords, strict: bool) -> list[Phrase]:
    spaced = tuple(subwords.encode(text))
    attached = None if strict else subwords.encode_attached(text)
    return [spaced, tuple(attached)] if attached else [spaced]


def require_possible(wishes: Wishes, language: str, room: int, subwords: Subwords, where: str) -> None:
    """Refuse, before anything is searched, what no output could fulfil. room: longest output, in subwords."""
    for text in wishes.forbidden:
        if not comparable(text, language):
            raise ConstraintError(f"{where}: a forbidden phrase needs a visible character, got {text!r}")
    forbidden = {text: comparable(text, language) for text in wishes.forbidden}
    for constraint in wishes.required:
        words = [comparable(text, language) for text in constraint.targets]
        if not all(words):
            raise ConstraintError(f"{where}: the target of {constraint} has no visible character")
        for text, phrase in forbidden.items():
            if all(count_occurrences(target, phrase) for target in words):
                raise ConstraintError(
                    f"{where}: {text!r} is forbidden, but {constraint.target!r} is required and contains it; "
                    "drop one of the two"
                )
    needed = sum(min(len(subwords.encode(text)) for text in _targets(constraint)) for constraint in wishes.required)
    if needed > room:
        raise ConstraintError(
            f"{where}: the constraints have {needed} subwords together, but an output has {room} at most; "
            "give fewer or shorter ones"
        )


def is_kept(text: str, wishes: Wishes, language: str) -> bool:
    """Does the text hold all that is required, as whole words, often enough and in order, and nothing forbidden?"""
    words = comparable(text, language)
    if any(count_occurrences(words, comparable(phrase, language)) for phrase in wishes.forbidden):
        return False
    if wishes.ordered:
        return None not in locate(text, wishes.required, language, ordered=True)
    for targets, times in Counter(_targets(constraint) for constraint in wishes.required).items():
        found = sum(count_occurrences(words, phrase) for phrase in {comparable(target, language) for target in targets})
        if found < times:
            return False
    return True


def locate(
    text: str, constraints: Sequence[Constraint], language: str, ordered: bool = False
) -> tuple[Span | None, ...]:
    """Where each constraint stands in the text, as characters: the leftmost place that is left.

    Equal constraints share no word. With `ordered`, each must end behind the end of the one before it.
    """
    spans = comparable_spans(text, language)
    words = tuple(text[start:end] for start, end in spans)
    free_from: Counter[tuple[str, ...]] = Counter()  # the first word behind the last place of equal constraints
    earliest = 0  # with `ordered`: the end of this one must lie behind the end of the one before
    found: list[Span | None] = []
    for constraint in constraints:
        targets = _targets(constraint)
        phrases = {comparable(target, language) for target in targets}
        places = (
            (start, start + len(phrase))
            for start in range(free_from[targets], len(words))
            for phrase in phrases
            if phrase and words[start : start + len(phrase)] == phrase and start + len(phrase) > earliest
        )
        place = next(places, None)
        if place is None:
            found.append(None)
            continue
        free_from[targets] = place[1]
        earliest = place[1] if ordered else 0
        found.append((spans[place[0]][0], spans[place[1] - 1][1]))
    return tuple(found)


def spelled_otherwise(tokens: Sequence[int], wishes: Wishes, language: str, subwords: Subwords) -> tuple[int, ...]:
    """Tokens by which an output spells something forbidden, one for each phrase: without them it cannot any more."""
    required = make_demands(wishes, subwords).required
    needed = {token for item in required for phrase in item.alternatives for token in phrase}
    found = []
    for text in wishes.forbidden:
        phrase = comparable(text, language)
        if count_occurrences(comparable(subwords.decode(tokens), language), phrase):
            run = _shortest_run(tokens, phrase, language, subwords)
            found += [token for token in reversed(run) if token not in needed][:1]
    return tuple(found)


def _shortest_run(tokens: Sequence[int], phrase: Sequence[str], language: str, subwords: Subwords) -> Sequence[int]:
    """The fewest neighbouring tokens that spell a phrase."""
    runs = (
        tokens[start : start + length]
        for length in range(1, len(tokens) + 1)
        for start in range(len(tokens) - length + 1)
    )
    return next(run for run in runs if count_occurrences(comparable(subwords.decode(run), language), phrase))
