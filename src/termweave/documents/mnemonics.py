"""Mnemonics of user interfaces: the mark before the letter that, pressed with Alt, chooses a menu or a button.

    _File    &Open file...    Close ~Window    Fi_le    文件(_F)

The mark cuts its word in two for whoever translates it or looks for terms. So it is taken out of a message, and put
into the translation: before the same letter if that begins a word, else before the same letter anywhere, else before
the first letter. Chinese and Japanese have no such letters: there it is appended, `(_F)`.

A mark is `_`, `&` or `~` before a letter, with no other beside it (`&&` and `__` stand for the signs themselves):

- at the beginning of a word: before a capital; before a small letter (but for `~`, which also means "about") only in a
  label, which is a message of at most six words without a full stop;
- inside a word of a label that begins with a capital, before a small letter: `Fi_le`, not `file_name` and not `R&D`;
- never in what is kept as it is: addresses, entities (`&amp;`), paths, identifiers.

A message with more than one such mark, or with an underscore that is none, stays as it is.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from termweave.constraints.glossary import primary
from termweave.constraints.protection import find_protected
from termweave.documents.document import Through
from termweave.documents.segments import Part, Segment, Text
from termweave.documents.translation import Check
from termweave.text.words import UNSPACED_LANGUAGES

_MARKS = re.compile(r"[_&~]+")
_WORD_BEFORE = re.compile(r"[^\W_]*$")
_WORD_BEHIND = re.compile(r"[^\W_]*+(?!_)")
_GENDERED = re.compile(r"_in(?:nen)?(?!\w)")  # German: Lehrer_innen
_ELLIPSIS = re.compile(r"(?:\.\.\.|…|[:：])?\s*$")
_MOST_WORDS = 6  # of a label


@dataclass(frozen=True)
class Mnemonic:
    """What was taken out of a message, and the message without it."""

    mark: str
    letter: str
    plain: Segment

    @classmethod
    def of(cls, segment: Segment) -> Mnemonic | None:
        text = segment.text
        if not _MARKS.search(text):
            return None
        is_label = len(text.split()) <= _MOST_WORDS and not re.search(r"(?<!\.\.)\.\s*$", text)
        found: list[tuple[int, int, int]] = []  # the part, and what of it is taken out
        for index, part in enumerate(segment.parts):
            if isinstance(part, Text):
                places = _places(part.shown, is_label)
                if places is None:
                    return None
                found += [(index, start, end) for start, end in places]
        if len(found) != 1:
            return None
        [(index, start, end)] = found
        shown, parts = segment.parts[index].shown, list(segment.parts)
        is_bracketed = end - start > 1
        place = start + is_bracketed
        before = shown[:start].rstrip() if is_bracketed else shown[:start]
        parts[index] = Text.plain(before + shown[end:])
        return cls(shown[place], shown[place + 1], replace(segment, parts=tuple(parts)))

    def put_back(self, parts: tuple[Part, ...], language: str) -> tuple[Part, ...]:
        """Parts of a translation, with the mark."""
        if primary(language) in UNSPACED_LANGUAGES:
            return self._appended(parts)
        letters = [
            (index, place, starts)
            for index, part in enumerate(parts)
            if isinstance(part, Text)
            for place, starts in _letters(part.shown)
        ]
        same = [own for own in letters if parts[own[0]].shown[own[1]].casefold() == self.letter.casefold()]
        chosen = next((own for own in same if own[2]), None) or next(iter(same or letters), None)
        return parts if chosen is None else _inserted(parts, chosen[0], chosen[1], self.mark)

    def _appended(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Before the dots that say that there is more to come."""
        last = next((own for own in reversed(range(len(parts))) if isinstance(parts[own], Text)), None)
        if last is None:
            return parts
        end = _ELLIPSIS.search(parts[last].shown)
        return _inserted(parts, last, end.start() if end else 0, f"({self.mark}{self.letter.upper()})")


def through_plain(through: Through, language: str) -> Through:
    """The same, but segments go through it without their mnemonics. language: that of the translations."""

    def translated(segments: Iterable[Segment], check: Check | None = None) -> Iterator[Segment]:
        waiting: deque[tuple[Segment, Mnemonic | None]] = deque()

        def plain() -> Iterator[Segment]:
            for segment in segments:
                own = Mnemonic.of(segment)
                waiting.append((segment, own))
                yield segment if own is None else own.plain

        for result in through(plain(), check):
            segment, own = waiting.popleft()
            if own is None:
                yield result
            elif result is own.plain:  # left as it was: whoever asked knows it by its identity
                yield segment
            elif result.parts == own.plain.parts:  # the translation is the same
                yield replace(result, parts=segment.parts)
            else:
                yield replace(result, parts=own.put_back(result.parts, language))

    return translated


def _places(text: str, is_label: bool) -> list[tuple[int, int]] | None:
    """What mnemonics may be taken out of a text; None if there is an underscore that is neither one nor kept."""
    kept = find_protected(text)
    places: list[tuple[int, int]] = []
    for match in _MARKS.finditer(text):
        start, end = match.span()
        inside = [span.kind for span in kept if span.start <= start < span.end]
        if end - start > 1 or (inside and inside != ["identifier"]):
            continue
        if not inside and text[start - 1 : start] == "(" and re.match(r"[^\W_]\)", text[end:]):
            places.append((start - 1, end + 2))
        elif _is_mnemonic(text, start, is_label, bool(inside)):
            places.append((start, end))
        elif match[0] == "_" and not inside:
            return None
    return places


def _is_mnemonic(text: str, place: int, is_label: bool, is_inside: bool) -> bool:
    """is_inside: the mark stands in what looks like an identifier."""
    letter = text[place + 1 : place + 2]
    before, behind = _WORD_BEFORE.search(text, 0, place), _WORD_BEHIND.match(text, place + 1)
    if not letter.isalpha() or before is None or behind is None:
        return False
    if not before[0]:
        return not is_inside and (letter.isupper() or (is_label and text[place] != "~"))
    starts_word = not text[: before.start()].endswith("_")
    is_word = (before[0] + behind[0]).isalpha() and starts_word and before[0][0].isupper() and letter.islower()
    return is_word and is_label and not _GENDERED.match(text, place)


def _letters(text: str) -> Iterator[tuple[int, bool]]:
    """Letters that a mark may stand before, and whether they begin a word."""
    kept = {place for span in find_protected(text) for place in range(span.start, span.end)}
    for place, character in enumerate(text):
        if character.isalpha() and place not in kept:
            yield place, not (place and (text[place - 1].isalnum() or text[place - 1] in "'’"))


def _inserted(parts: tuple[Part, ...], index: int, place: int, text: str) -> tuple[Part, ...]:
    shown = parts[index].shown
    return (*parts[:index], Text(shown[:place] + text + shown[place:]), *parts[index + 1 :])
