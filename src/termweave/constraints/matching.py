"""Finding the terms of a glossary in sentences.

A sentence is a sequence of words (in unspaced writing, of characters), and the sources of the glossary are a trie over
words, so the time depends on the length of the sentence and not on the size of the glossary.

Which terms are found, where several could be:

1. The longest wins: the one of more words. Of two equally long ones that overlap, the one that begins first.
2. For the same words, the entry spelt as in the sentence wins, then one that differs in letter case only, then an
   inflected one; then the one that comes first in the glossary.
3. `forbid` entries take no part in that. They are found wherever their source occurs, except inside a longer term,
   which is a term of its own.
4. Addresses, placeholders, tags and technical names are kept, and terms inside them or across their edges not found;
   a term that covers one wholly wins over it. Numbers with units and emoji give way to any term.

In Chinese and Japanese, a term of a single character counts only where the segmenter sees a word.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from termweave.constraints.constraint import Constraint
from termweave.constraints.glossary import Glossary, GlossaryEntry, primary
from termweave.constraints.letter_case import all_forms, carried_forms
from termweave.constraints.protection import ProtectedSpan, find_protected
from termweave.constraints.term_words import TermWords, WordSplitter, folded
from termweave.text.words import UNSPACED_LANGUAGES, Span, normalise

_REMEMBERED = 100_000


class TermMatch(NamedTuple):  # made for every term of every sentence: a frozen dataclass takes three times as long
    """`sentence[start:end]` is the source of `entry`.

    `targets` will do for it, the first preferred, in the letter case of the sentence; what is kept has itself as
    target; of a `forbid` entry they are what must not be used.
    """

    entry: GlossaryEntry
    start: int
    end: int
    targets: tuple[str, ...]

    def constraint(self, sentence: str) -> Constraint:
        """The match as a constraint on the translation of its sentence."""
        targets = [normalise(target) for target in self.targets]
        return Constraint(normalise(sentence[self.start : self.end]), targets[0], tuple(targets[1:]))


@dataclass(eq=False, slots=True)
class _Node:
    """A place in the trie: the words so far are the source of `entries`."""

    following: dict[str, _Node] = field(default_factory=dict)
    entries: tuple[_Source, ...] = ()


@dataclass(eq=False, slots=True)  # compared by what it is, not by what it says: it is looked up for every term
class _Source:
    """An entry prepared for comparison: its texts as they would stand in a sentence."""

    entry: GlossaryEntry
    written: str
    plain: str  # case folded
    targets: tuple[str, ...]
    place: int  # in the glossary


class _Candidate(NamedTuple):
    first: int  # word
    last: int  # one past the last word
    sources: tuple[_Source, ...]  # those that fit, the best first


class TermMatcher:
    """Finds the terms of one glossary. Build it once and use it for every sentence.

    `inflection`: also find inflected forms of the source (`Häuser` for `Haus`), through the stems of the words.
    `protect`: also find what must be kept whatever the glossary says, see `protection`.
    """

    def __init__(self, glossary: Glossary, *, inflection: bool = False, protect: bool = True) -> None:
        self.glossary = glossary.merged()
        self.source_language = primary(glossary.source_language)
        self.target_language = primary(glossary.target_language)
        self.protect = protect
        self._splitter = WordSplitter(self.source_language, inflection)
        self._unspaced = self.source_language in UNSPACED_LANGUAGES
        self._root = _Node()
        # The same terms come again and again.
        self._carried = functools.lru_cache(_REMEMBERED)(self._carried_anew)
        self._ranked = functools.lru_cache(_REMEMBERED)(_ranked_anew)
        always: list[str] = []
        for place, entry in enumerate(self.glossary.entries):
            if entry.source:
                self._add(entry, place)
            else:
                always.extend(_forbidden(entry))
        self._forbids = any(entry.source and entry.policy == "forbid" for entry in self.glossary.entries)
        self.forbidden: tuple[str, ...] = tuple(dict.fromkeys(always))
        """What may stand in no translation at all: the targets of `forbid` entries without a source."""

    def _add(self, entry: GlossaryEntry, place: int) -> None:
        written = normalise(entry.source)
        node = self._root
        for word in self._splitter.split(written).keys:
            following = node.following.get(word)
            if following is None:
                following = node.following[word] = _Node()
            node = following
        if node is not self._root:
            targets = tuple(dict.fromkeys(normalise(target) for target in entry.targets))
            node.entries += (_Source(entry, written, folded(written), targets, place),)

    def find(self, sentence: str) -> list[TermMatch]:
        """The terms of a sentence in the order they stand there. A `forbid` entry may have the same span as another."""
        words = self._splitter.split(sentence)
        candidates = self._candidates(words)
        guarded = find_protected(sentence) if self.protect else []
        if not candidates and not guarded:
            return []
        return self._resolved(words, candidates, guarded)

    def _resolved(
        self, words: TermWords, candidates: Sequence[_Candidate], guarded: Sequence[ProtectedSpan]
    ) -> list[TermMatch]:
        if guarded:
            candidates = [own for own in candidates if not any(_cuts(span, _place(own, words)) for span in guarded)]
        fitting = [self._fitting(candidate, words) for candidate in candidates]
        taken = _longest(self._wanted(fitting))
        plain = next((place for place, key in enumerate(words.keys) if key[:1].isalnum()), len(words.keys))
        matches = [self._match(candidate.sources[0], candidate, words, plain) for candidate in taken]
        places = [(match.start, match.end) for match in matches]
        matches += [
            TermMatch(span.entry(words.text), span.start, span.end, (words.text[span.start : span.end],))
            for span in guarded
            if not any(start < span.end and span.start < end for start, end in places)
        ]
        matches += [
            self._match(source, candidate, words, plain)
            for candidate in (fitting if self._forbids else ())
            for source in candidate.sources
            if source.entry.policy == "forbid" and not any(_inside(candidate, longer) for longer in taken)
        ]
        return sorted(matches, key=attrgetter("start", "end"))

    def _wanted(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """Without what forbids, and those of which nothing is left."""
        if not self._forbids:
            return [candidate for candidate in candidates if candidate.sources]
        return [
            _Candidate(candidate.first, candidate.last, own)
            for candidate in candidates
            if (own := tuple(source for source in candidate.sources if source.entry.policy != "forbid"))
        ]

    def _candidates(self, words: TermWords) -> list[_Candidate]:
        """Every run of words that is the source of an entry."""
        found: list[_Candidate] = []
        keys = words.keys
        count = len(keys)
        root = self._root.following
        for first, key in enumerate(keys):
            node = root.get(key)
            last = first + 1
            while node is not None:
                if node.entries:
                    found.append(_Candidate(first, last, node.entries))
                if last == count or not node.following:
                    break
                node = node.following.get(keys[last])
                last += 1
        return self._whole(found, words) if self._unspaced and found else found

    def _whole(self, candidates: list[_Candidate], words: TermWords) -> list[_Candidate]:
        """Without single characters of unspaced writing that are part of a longer word."""
        singles = [candidate for candidate in candidates if _is_character(_place(candidate, words), words.text)]
        if not singles:
            return candidates
        boundaries = self._splitter.boundaries(words.text)
        dropped = {id(candidate) for candidate in singles if _place(candidate, words) not in boundaries}
        return [candidate for candidate in candidates if id(candidate) not in dropped]

    def _fitting(self, candidate: _Candidate, words: TermWords) -> _Candidate:
        """With the entries whose letter case rule allows this place, by rule 2."""
        first, last, sources = candidate
        if len(sources) == 1 and sources[0].entry.case != "exact":
            return candidate
        return _Candidate(first, last, self._ranked(sources, words.written(first, last)))

    def _match(self, source: _Source, candidate: _Candidate, words: TermWords, plain: int) -> TermMatch:
        """plain: the first word that is no mark."""
        start, end = _place(candidate, words)
        entry = source.entry
        if entry.policy == "keep":
            targets: tuple[str, ...] = (words.text[start:end],)
        elif entry.policy == "forbid":
            targets = _forbidden(entry)
        elif entry.case == "carry":
            targets = self._carried(source, words.text[start:end], candidate.first <= plain)
        else:
            targets = source.targets
        return TermMatch(entry, start, end, targets)

    def _carried_anew(self, source: _Source, written: str, begins: bool) -> tuple[str, ...]:
        """All targets in the preferred form first, then other forms of them."""
        written = normalise(written)
        forms = [
            carried_forms(
                target,
                source.written,
                written,
                begins=begins,
                source_language=self.source_language,
                target_language=self.target_language,
            )
            for target in source.targets
        ]
        preferred = [own[0] for own in forms]
        return tuple(dict.fromkeys([*preferred, *(form for own in forms for form in own[1:])]))


def _ranked_anew(sources: tuple[_Source, ...], written: str) -> tuple[_Source, ...]:
    """Those whose letter case rule allows what is written, by rule 2."""
    written = normalise(written)
    plain = folded(written)
    fitting = [source for source in sources if source.entry.case != "exact" or source.written == written]
    return tuple(sorted(fitting, key=lambda source: (source.written != written, source.plain != plain, source.place)))


def _forbidden(entry: GlossaryEntry) -> tuple[str, ...]:
    targets = [normalise(target) for target in entry.targets]
    if entry.case != "carry":
        return tuple(targets)
    return tuple(dict.fromkeys(form for target in targets for form in all_forms(target)))


def _longest(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Rule 1."""
    taken: list[_Candidate] = []
    covered: set[int] = set()
    for candidate in sorted(candidates, key=lambda own: (own.first - own.last, own.first)):
        if covered.isdisjoint(range(candidate.first, candidate.last)):
            taken.append(candidate)
            covered.update(range(candidate.first, candidate.last))
    return taken


def _inside(inner: _Candidate, outer: _Candidate) -> bool:
    longer = outer.last - outer.first > inner.last - inner.first
    return longer and outer.first <= inner.first and inner.last <= outer.last


def _place(candidate: _Candidate, words: TermWords) -> Span:
    return words.spans[candidate.first][0], words.spans[candidate.last - 1][1]


def _cuts(guarded: ProtectedSpan, place: Span) -> bool:
    """Rule 4: does a term at `place` overlap what is guarded without covering it?"""
    start, end = place
    if guarded.kind in ("quantity", "symbol") or end <= guarded.start or guarded.end <= start:
        return False
    return not (start <= guarded.start and guarded.end <= end)


def _is_character(place: Span, text: str) -> bool:
    start, end = place
    return end - start == 1 and not text[start].isascii() and text[start].isalnum()
