"""From what a person asks for to what the search must produce, and back: demands in tokens, and a check on the text.

The search works on tokens, the promise is about text. Where a word may end inside a run of pieces is a matter of the
language ("Europe's" is two words, "don't" one), so the usual rule is a good guess: letters and digits go on with a
word, all else ends it. After the search the text itself is looked at; where the guess was wrong, the sentence is
searched again by a rule that leaves nothing to guess: a phrase stands between spaces.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from termweave.constraints.constraint import Constraint
from termweave.constraints.occurrences import comparable, comparable_spans, count_occurrences
from termweave.decoding.automaton import MOST_BITS, Demands, Phrase, Requirement, WordJoins
from termweave.errors import ConstraintError
from termweave.text.vocabulary import Vocabulary
from termweave.text.words import Span, normalise

_REMEMBERED = 20_000  # the terms of a glossary come again and again
_READ_LAST = 16  # an output is looked at several times in a row: is it kept, and where does what stand

MOST_APART = 3  # constraints that share targets, every part of which is counted

Pair = tuple[tuple[int, ...], tuple[int, ...]]  # both sides of a constraint as ids
Place = tuple[int, int]  # the first word, and the one behind the last
Located = tuple[Span | None, ...]  # characters


@dataclass(frozen=True)
class Wishes:
    """What the translation of one sentence must and must not contain, as text."""

    required: tuple[Constraint, ...] = ()
    forbidden: tuple[str, ...] = ()
    ordered: bool = False
    never: tuple[int, ...] = ()  # tokens that spelled something forbidden, in an unusual way, in earlier attempts
    counted: tuple[str, ...] | None = None  # placeholders and the like it may hold, each so often; None: as it likes
    surplus: tuple[str, ...] = ()  # those that earlier attempts held too often: as often as required, and no more

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden or self.surplus or self.never)


@functools.lru_cache(maxsize=8)
def word_joins(subwords: Vocabulary, strict: bool = False) -> WordJoins:
    """The usual rule, or the strict one: only a space, or an end of the text, ends a word."""
    if strict:
        everything = np.arange(subwords.size)
        spaced = subwords.starts_word(everything)
        return WordJoins(everything != subwords.lone_space, ~spaced)
    return WordJoins(subwords.ends_inside_word, subwords.begins_inside_word)


def make_demands(wishes: Wishes, subwords: Vocabulary, strict: bool = False) -> Demands:
    """The same in tokens. A phrase may be spelled with or without a space before it."""
    wanted = [constraint.wordings for constraint in wishes.required]
    required = _requirements(wanted, wishes.ordered, subwords, strict)
    if not wishes.ordered and sum(item.occurrences for item in required) > MOST_BITS:
        required = _requirements(_narrowed(wanted), wishes.ordered, subwords, strict)
    forbidden = [spelling for text in wishes.forbidden for spelling in subwords.target.spellings(normalise(text))]
    if wishes.surplus:
        within = _parts({phrase for item in required for phrase in item.alternatives})
        spellings = [spelling for text in wishes.surplus for spelling in subwords.target.spellings(text)]
        forbidden += [spelling for spelling in spellings if spelling not in within]
    return Demands(required, tuple(dict.fromkeys(forbidden)), wishes.ordered, wishes.never)


def can_be_counted(wishes: Wishes, subwords: Vocabulary) -> bool:
    """Are there bits enough for all that is required?"""
    if len(wishes.required) <= MOST_BITS and _are_apart([own.wordings for own in wishes.required]):
        return True  # each is needed once, as mostly
    return sum(item.occurrences for item in make_demands(wishes, subwords).required) <= MOST_BITS


def _requirements(
    wanted: Sequence[tuple[str, ...]], ordered: bool, subwords: Vocabulary, strict: bool
) -> tuple[Requirement, ...]:
    counted = [(targets, 1) for targets in wanted] if ordered else list(_counted(wanted).items())
    return tuple(_requirement(targets, times, subwords, strict) for targets, times in counted)


def _narrowed(wanted: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Where there is not room for all: what accepts more than another does accepts the same, and is counted with it.

    The first term of a sentence may have a capital, and the same term further on may not: each would be counted by
    itself and both together.
    """
    fewest = sorted(set(wanted), key=lambda targets: (len(targets), targets))
    return [next(other for other in fewest if set(other) <= set(targets)) for targets in wanted]


def _parts(phrases: set[Phrase]) -> set[Phrase]:
    """What phrases consist of, themselves excepted: "%1" is a part of "%1$s", and must be allowed where that is."""
    runs = (
        phrase[start:end]
        for phrase in phrases
        for start in range(len(phrase))
        for end in range(start + 1, len(phrase) + 1)
    )
    return set(runs) - phrases


def _counted(wanted: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """How often which targets must occur. Constraints that share a target must not share an occurrence of it: besides
    what each of them needs, any of them together need as many as they are (Hall's theorem)."""
    if _are_apart(wanted):  # as mostly
        return dict.fromkeys(wanted, 1)
    times = Counter(wanted)
    counted = dict(times)
    for group in _related(list(times)):
        # Of a large group only the whole: there are too many parts. What that leaves open, `is_kept` finds.
        for size in range(2, len(group) + 1) if len(group) <= MOST_APART else (len(group),):
            for some in combinations(group, size):
                union = tuple(dict.fromkeys(target for targets in some for target in targets))
                counted[union] = max(counted.get(union, 0), sum(times[targets] for targets in some))
    return counted


def side_by_side(wishes: Wishes, subwords: Vocabulary) -> Wishes:
    """With constraints that share targets joined to one phrase, in which each certainly has a place of its own.

    Targets may overlap in ways that counting them does not rule out. What comes of this reads badly, but it is there.
    """
    if wishes.ordered:
        return wishes
    by_targets: dict[tuple[str, ...], list[Constraint]] = {}
    for constraint in wishes.required:
        by_targets.setdefault(constraint.wordings, []).append(constraint)
    required: list[Constraint] = []
    for group in _related(list(by_targets)):
        own = [constraint for targets in group for constraint in by_targets[targets]]
        shortest = [min(spellable(one.wordings, subwords), key=lambda text: len(text.split())) for one in own]
        required += own if len(own) == 1 else [Constraint(own[0].source, " ".join(shortest))]
    return replace(wishes, required=tuple(required))


def _related(different: Sequence[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
    """In groups: those that share a target, be it through others."""
    if _are_apart(different):
        return [[targets] for targets in different]
    groups: list[list[tuple[str, ...]]] = []
    for targets in different:
        near = [group for group in groups if any(not set(targets).isdisjoint(other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(other for group in near for other in group), targets])
    return groups


def _are_apart(wanted: Sequence[tuple[str, ...]]) -> bool:
    """Do no two of them share a target?"""
    return len({text for targets in wanted for text in targets}) == sum(map(len, wanted))


@functools.lru_cache(_REMEMBERED)
def _requirement(targets: tuple[str, ...], times: int, subwords: Vocabulary, strict: bool) -> Requirement:
    """No spellings of what the vocabulary cannot spell: no output can hold it. strict: only those behind a space."""
    each = (subwords.target.spellings(text)[: 1 if strict else None] for text in _shortest(targets))
    return Requirement(tuple(dict.fromkeys(spelling for own in each for spelling in own)), times)


def _shortest(targets: tuple[str, ...]) -> list[str]:
    """Without those that contain another one, which stands wherever they do: its place would be counted twice."""
    if not any(" " in text for text in targets):
        return [*targets]
    spaced = [f" {text} " for text in targets]
    return [own.strip() for own in spaced if not any(other != own and other in own for other in spaced)]


@functools.lru_cache(_REMEMBERED)
def _phrase(text: str, language: str) -> tuple[str, ...]:
    """The words of a phrase; those of whole sentences would only push phrases out of the memory."""
    return comparable(text, language)


def spellable(targets: Sequence[str], subwords: Vocabulary) -> list[str]:
    """Those that the vocabulary can spell, in order."""
    return [text for text in targets if subwords.target.spellings(text)]


@functools.lru_cache(_REMEMBERED)
def told_as(source: str, targets: tuple[str, ...], subwords: Vocabulary) -> Pair:
    """What a model is told of a constraint. targets: its wordings."""
    target = next(iter(spellable(targets, subwords)), targets[0])
    spellings = subwords.target.spellings(target) if target else ()
    ids = spellings[0] if spellings else subwords.target.encode(target)
    return tuple(subwords.source.encode(normalise(source))), tuple(ids)


def permitted(wishes: Wishes, language: str, where: str) -> Wishes:
    """Without targets that contain something forbidden, which no output may hold; refused if none is left."""
    if not wishes.forbidden:
        return wishes
    forbidden = {text: comparable(text, language) for text in wishes.forbidden}
    for text, phrase in forbidden.items():
        if not phrase:
            raise ConstraintError(f"{where}: a forbidden phrase needs a visible character, got {text!r}")
    required = []  # of a phrase that is forbidden in several forms, the first is the one that was written
    for constraint in wishes.required:
        hindrances = [
            next(
                (text for text, phrase in forbidden.items() if count_occurrences(_phrase(target, language), phrase)), ""
            )
            for target in constraint.targets
        ]
        kept = [target for target, text in zip(constraint.targets, hindrances, strict=True) if not text]
        if not kept:
            written = next(text for text in forbidden if text.casefold() == hindrances[0].casefold())
            case = "" if written == hindrances[0] else " in any letter case"
            raise ConstraintError(
                f"{where}: {written!r} is forbidden{case}, but {constraint.target!r} is required and contains it; "
                "drop one of the two"
            )
        required.append(Constraint(constraint.source, kept[0], tuple(kept[1:])))
    return replace(wishes, required=tuple(required))


def require_possible(wishes: Wishes, language: str, room: int, subwords: Vocabulary, where: str) -> None:
    """Refuse, before anything is searched, what no output could fulfil. room: longest output, in subwords."""
    needed = 0
    for constraint in wishes.required:
        if (fewest := _fewest_tokens(constraint.wordings, language, subwords)) < 0:
            raise ConstraintError(f"{where}: the target of {constraint} has no visible character")
        if not fewest:
            wanted = " or ".join(repr(text) for text in constraint.wordings)
            closest = " or ".join(repr(subwords.target.closest(text)) for text in constraint.wordings)
            raise ConstraintError(
                f"{where}: the vocabulary of this model cannot spell {wanted}, only {closest}; "
                "give another target or an alternative, or leave it to the model (--search beam)"
            )
        needed += fewest
    if needed > room:
        raise ConstraintError(
            f"{where}: the constraints have {needed} subwords together, but an output has {room} at most; "
            "give fewer or shorter ones"
        )


@functools.lru_cache(_REMEMBERED)
def _fewest_tokens(targets: tuple[str, ...], language: str, subwords: Vocabulary) -> int:
    """Of any of the targets; 0 if the vocabulary can spell none of them, −1 if one has no visible character."""
    if not all(_phrase(text, language) for text in targets):
        return -1
    return min((len(subwords.target.spellings(text)[0]) for text in spellable(targets, subwords)), default=0)


@functools.lru_cache(_READ_LAST)
def said(tokens: tuple[int, ...], subwords: Vocabulary) -> str:
    """The text of an output."""
    return subwords.decode(tokens)


def is_kept(text: str, wishes: Wishes, language: str) -> bool:
    """Does the text hold all that is required, as whole words, often enough and in order, and nothing forbidden?"""
    text = normalise(text)
    reading = _Reading.of(text, language)
    if any(count_occurrences(reading.words, _phrase(phrase, language)) for phrase in wishes.forbidden):
        return False
    return None not in locate(text, wishes.required, language, len(wishes.required) if wishes.ordered else 0)


@dataclass(frozen=True)
class _Reading:
    """A text as its words and where they stand. A phrase stands where its words do, if it is spelled as it was given:
    "%s" is not met by "% s", nor "e-mail" by "e - mail"."""

    text: str
    language: str
    spans: list[Span]
    words: tuple[str, ...]
    _word_at: dict[int, int]  # first character of a word → its number
    _found: dict[str, list[Place]]  # by target: what is looked at once is looked at again
    _last: list[tuple[tuple[Constraint, ...], int, Located]]  # what `locate` was asked last, and its answer

    @staticmethod
    @functools.lru_cache(_READ_LAST)
    def of(text: str, language: str) -> _Reading:
        spans = comparable_spans(text, language)
        words = tuple([text[start:end] for start, end in spans])
        return _Reading(text, language, spans, words, {span[0]: word for word, span in enumerate(spans)}, {}, [])

    def places(self, target: str) -> list[Place]:
        if target in self._found:
            return self._found[target]
        found: list[Place] = []
        start = self.text.find(target)  # mostly nowhere: of a glossary's targets one does
        while start >= 0 and (phrase := _phrase(target, self.language)):
            first = self._word_at.get(start, len(self.words))
            last = first + len(phrase)
            if self.words[first:last] == phrase and self.spans[last - 1][1] == start + len(target):
                found.append((first, last))
            start = self.text.find(target, start + 1)
        self._found[target] = found
        return found

    def characters(self, first: int, last: int) -> Span:
        return self.spans[first][0], self.spans[last - 1][1]

    def located(self, constraints: Sequence[Constraint], in_order: int) -> Located:
        """See `locate`."""
        for asked, number, answer in self._last:
            if asked == constraints and number == in_order:  # quick to see, for mostly they are the same objects
                return answer
        chosen = self._chosen(constraints, in_order)
        answer = tuple([None if place is None else self.characters(*place) for place in chosen])
        self._last[:] = [(tuple(constraints), in_order, answer)]
        return answer

    def _chosen(self, constraints: Sequence[Constraint], in_order: int) -> list[Place | None]:
        wanted = [constraint.wordings for constraint in constraints]
        places = [self._places_of(targets) for targets in wanted]
        if not in_order and _are_apart(wanted):  # as mostly: then nobody can be in another's way
            return [own[0] if own else None for own in places]
        return _one_after_another(places[:in_order]) + _shared_out(wanted, places)[in_order:]

    def _places_of(self, targets: tuple[str, ...]) -> list[Place]:
        if len(targets) == 1:
            return self.places(targets[0])
        return sorted({place for target in targets for place in self.places(target)})


def locate(text: str, constraints: Sequence[Constraint], language: str, in_order: int = 0) -> Located:
    """Where each constraint stands in the text, as characters: the leftmost place that is left.

    Constraints that share a target share no place; where there are too few, the earlier ones get them.
    in_order: of so many, the first ones, each must end behind the end of the one before it.
    """
    return _Reading.of(text, language).located(constraints, in_order) if constraints else ()


def _one_after_another(places: Sequence[Sequence[Place]]) -> list[Place | None]:
    chosen: list[Place | None] = []
    end = 0
    for own in places:
        place = next((place for place in own if place[1] > end), None)
        chosen.append(place)
        end = end if place is None else place[1]
    return chosen


def _shared_out(wanted: Sequence[tuple[str, ...]], places: Sequence[Sequence[Place]]) -> list[Place | None]:
    """Each gets a place of its own, if need be by moving earlier ones to another of theirs (a matching in a graph)."""
    group_of = {
        targets: number for number, group in enumerate(_related(list(dict.fromkeys(wanted)))) for targets in group
    }
    members = Counter(group_of[targets] for targets in wanted)
    owner: dict[Place, int] = {}  # group and first word → which constraint has it
    chosen: list[Place | None] = [None] * len(wanted)

    def settle(index: int, tried: set[Place]) -> bool:
        group = group_of[wanted[index]]
        keys = {(group, place[0]): place for place in reversed(places[index]) if not crosses(place, group, index)}
        for key in sorted(keys, key=lambda key: (key in owner, key)):  # what is free comes first
            if key in tried:
                continue
            tried.add(key)
            if key in owner:
                if not settle(owner[key], tried):
                    continue
                del owner[key]
            if not crosses(keys[key], group, index):  # whoever was moved may be in the way now
                owner[key], chosen[index] = index, keys[key]
                return True
        return False

    def crosses(place: Place, group: int, index: int) -> bool:
        """Does a place of the same group, begun at another word, cover some of the same words?"""
        others = [chosen[other] for (number, _), other in owner.items() if number == group and other != index]
        return any(other and other[0] != place[0] and other[0] < place[1] and place[0] < other[1] for other in others)

    for index, targets in enumerate(wanted):
        if members[group_of[targets]] > 1:
            settle(index, set())
        elif places[index]:  # nobody can be in its way
            chosen[index] = places[index][0]
    return chosen


def spelled_otherwise(tokens: Sequence[int], wishes: Wishes, language: str, subwords: Vocabulary) -> tuple[int, ...]:
    """Tokens by which an output spells something forbidden, one for each phrase: without them it cannot any more."""
    needed, found = needed_tokens(wishes, subwords), []
    for text in wishes.forbidden:
        phrase = comparable(text, language)
        if count_occurrences(comparable(subwords.decode(tokens), language), phrase):
            run = _shortest_run(tokens, phrase, language, subwords)
            found += [token for token in reversed(run) if token not in needed][:1]
    return tuple(found)


def needed_tokens(wishes: Wishes, subwords: Vocabulary) -> set[int]:
    """All that required phrases are spelled with."""
    required = make_demands(wishes, subwords).required
    return {token for item in required for phrase in item.alternatives for token in phrase}


def _shortest_run(tokens: Sequence[int], phrase: Sequence[str], language: str, subwords: Vocabulary) -> Sequence[int]:
    """The fewest neighbouring tokens that spell a phrase."""
    runs = (
        tokens[start : start + length]
        for length in range(1, len(tokens) + 1)
        for start in range(len(tokens) - length + 1)
    )
    return next(run for run in runs if count_occurrences(comparable(subwords.decode(run), language), phrase))
