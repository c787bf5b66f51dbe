"""Where a phrase stands in a text as whole words: the one answer the `hard` sets and the success rate share.

Text is compared as a sequence of words, case and accents included, so "art" is not in "party" and "C++" is no
regular expression. Chinese and Japanese are compared character by character: word boundaries there are a guess of
the segmenter, and a guess about one text need not fit the guess about another.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from termweave.text.words import UNSPACED_LANGUAGES, Span, normalise, split_words

_RUNS = re.compile(r"[^\W_]+|[^\w\s]|_")


def comparable_spans(text: str, language: str) -> list[Span]:
    """The spans that are compared: words, or in unspaced writing characters and runs of an alphabet."""
    if language not in UNSPACED_LANGUAGES:
        return split_words(text, language)
    spans: list[Span] = []
    for match in _RUNS.finditer(text):
        start, end = match.span()
        for position in range(start, end):
            wide = unicodedata.east_asian_width(text[position]) in {"W", "F"}
            if wide and start < position:
                spans.append((start, position))
            if wide:
                spans.append((position, position + 1))
                start = position + 1
        if start < end:
            spans.append((start, end))
    return spans


def comparable(text: str, language: str) -> tuple[str, ...]:
    """The words of `text` as they are compared, white space and invisible characters aside."""
    text = normalise(text)
    return tuple(text[start:end] for start, end in comparable_spans(text, language))


def count_occurrences(words: Sequence[str], phrase: Sequence[str]) -> int:
    """How often `phrase` stands in `words`, overlapping occurrences counted once."""
    count, position = 0, 0
    phrase = tuple(phrase)
    while phrase and position + len(phrase) <= len(words):
        if tuple(words[position : position + len(phrase)]) == phrase:
            count += 1
            position += len(phrase)
        else:
            position += 1
    return count
