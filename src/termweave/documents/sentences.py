"""Long text as sentences, and back: nothing is lost, so the pieces put together are the text again."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import sentencex

_WINDOW = 5000  # characters; some texts take the library time by the square of their length, so it never sees more
# The library miscounts characters of several bytes where it expects a plain space, and dies. It only sees plain ones.
_ODD_SPACE = re.compile(r"[^\S\n ]")


class Terms(Protocol):
    """What a glossary says about a text that is yet to be cut into sentences."""

    def places(self, text: str) -> Sequence[tuple[int, int]]:
        """Where its terms stand, first character and one past the last. No sentence ends inside one."""
        ...

    def wants(self, text: str) -> bool:
        """Is there a term to translate? Asked for text without a letter, which is otherwise left as it is."""
        ...


@dataclass(frozen=True)
class Sentence:
    """A sentence with the space around it. The text may be empty where there is only space."""

    before: str
    text: str
    after: str

    def __str__(self) -> str:
        return self.before + self.text + self.after


def split_sentences(text: str, language: str = "en") -> list[Sentence]:
    """The sentences of a text in order; `"".join(map(str, sentences))` is the text, character for character.

    `language` is a code such as `de`, `zh` or `en-GB`. For languages without rules of their own, those of a related
    language are used, in the end the English ones, which know the full stops of other scripts too.
    """
    sentences = []
    start = 0
    for end in boundaries(text, language):
        piece = text[start:end]
        behind = piece.lstrip()
        body = behind.rstrip()
        sentences.append(Sentence(piece[: len(piece) - len(behind)], body, behind[len(body) :]))
        start = end
    return sentences


def join_sentences(sentences: list[Sentence]) -> str:
    return "".join(map(str, sentences))


def boundaries(text: str, language: str = "en", terms: Terms | None = None) -> list[int]:
    """Where sentences end, the space after them included; the last one ends where the text does.

    None ends inside a term, such as "Jeopardy! Das Spiel". Long text is looked at in windows, each from the end of a
    sentence on. No sentence is longer than a window, but for its terms: one that would be is cut, at a space if it has
    one.
    """
    ends = _all_ends(text, language)
    if terms is None or len(ends) < 2:
        return ends
    places = sorted(terms.places(text))  # they do not overlap
    starts = [start for start, _ in places]
    before = (bisect_left(starts, end) - 1 for end in ends)
    return [end for end, index in zip(ends, before, strict=True) if index < 0 or places[index][1] <= end]


def _all_ends(text: str, language: str) -> list[int]:
    plain, primary = _ODD_SPACE.sub(" ", text), _primary(language)
    ends: list[int] = []
    start = 0
    while start < len(plain):
        window = plain[start : start + _WINDOW]
        found = _window_ends(window, primary)
        if start + len(window) < len(plain):
            if len(found) > 1:
                found.pop()  # it may go on behind the window
            else:
                found = [max(window.rfind(" "), window.rfind("\n")) + 1 or len(window)]
        if ends and not window[: found[0]].strip():
            ends.pop()  # space alone is no sentence, also where a window begins with it
        ends.extend(start + end for end in found)
        start = ends[-1]
    return ends


def _window_ends(text: str, language: str) -> list[int]:
    ends: list[int] = []
    position = 0
    for piece in _pieces(text, language):
        position += len(piece)
        if piece.strip() or not ends:
            ends.append(position)
        else:  # an empty line is no sentence: it goes to the one before it
            ends[-1] = position
    if position != len(text):  # the library promises otherwise; the text matters more than its sentences
        return [len(text)]
    return ends


def _pieces(text: str, language: str) -> list[str]:
    try:
        return list(sentencex.segment(language, text))
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a fault inside the library is no Exception
            raise
        return [text]


def _primary(language: str) -> str:
    """`de_AT` and `DE-at` are German."""
    return re.split(r"[-_]", language, maxsplit=1)[0].lower() or "en"
