"""Text of any length as sentences, and back: white space between sentences stays as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from termweave.documents.sentences import Terms, boundaries
from termweave.text.words import UNSPACED_LANGUAGES

Splitting = Literal["none", "sentences", "lines"]  # not at all, at sentence ends, and at line ends too

_LINE_END = re.compile(r"\n\s*+")


@dataclass(frozen=True)
class Segment:
    """A sentence and what stands between it and the next one."""

    text: str
    after: str = ""


@dataclass(frozen=True)
class Segmented:
    before: str
    segments: tuple[Segment, ...]


def segment(
    text: str,
    splitting: Splitting,
    language: str,
    longest: int,
    count_tokens: Callable[[str], int],
    terms: Terms | None = None,
) -> Segmented:
    """The sentences of a text. One of more than `longest` tokens is cut in parts, between words where it can be.

    No cut goes through a term.
    """
    body = text.strip()
    if not body:
        return Segmented(text, ())
    start = text.index(body[0])
    found = _cut(body, _ends(body, splitting, language, terms))
    parts = [part for sentence in found for part in _shortened(sentence, longest, count_tokens, terms)]
    last = Segment(parts[-1].text, text[start + len(body) :])
    return Segmented(text[:start], (*parts[:-1], last))


def separator(after: str, source_language: str, target_language: str) -> str:
    """What stands between two translated sentences: Chinese has no space there, German has one."""
    if source_language in UNSPACED_LANGUAGES and target_language not in UNSPACED_LANGUAGES:
        return after or " "
    if target_language in UNSPACED_LANGUAGES and after == " ":
        return ""
    return after


def _ends(text: str, splitting: Splitting, language: str, terms: Terms | None) -> Iterator[int]:
    """Where sentences end, the space after them included; the last one ends where the text does."""
    if splitting == "none":
        yield len(text)
        return
    start = 0
    lines = [match.end() for match in _LINE_END.finditer(text)] if splitting == "lines" else []
    for end in (*lines, len(text)):
        yield from (start + own for own in _sentence_ends(text[start:end], language, terms))
        start = end


def _sentence_ends(text: str, language: str, terms: Terms | None) -> Iterator[int]:
    # A line end inside of a sentence is a space to it: the library would end the sentence there.
    return iter(boundaries(text.replace("\n", " "), language, terms))


def _cut(text: str, ends: Iterator[int]) -> list[Segment]:
    pieces: list[Segment] = []
    start = 0
    for end in ends:
        piece = text[start:end].strip()
        if piece:
            begin = text.index(piece[0], start)
            if pieces:
                pieces[-1] = Segment(pieces[-1].text, pieces[-1].after + text[start:begin])
            pieces.append(Segment(piece, text[begin + len(piece) : end]))
        elif pieces:
            pieces[-1] = Segment(pieces[-1].text, pieces[-1].after + text[start:end])
        start = end
    return pieces


def _shortened(
    sentence: Segment, longest: int, count_tokens: Callable[[str], int], terms: Terms | None
) -> list[Segment]:
    text = sentence.text
    if len(text) < 2 or count_tokens(text) <= longest:
        return [sentence]
    middle = len(text) // 2
    space = text.rfind(" ", 1, middle + 1)
    end = space if space > middle // 2 else middle
    for start, last in terms.places(text) if terms is not None else ():
        if start < end < last:
            end = start or last
    left, right = text[:end].rstrip(), text[end:].lstrip()
    if not left or not right:
        return [sentence]
    between = text[len(left) : len(text) - len(right)]
    halves = (Segment(left, between), Segment(right, sentence.after))
    return [part for half in halves for part in _shortened(half, longest, count_tokens, terms)]
