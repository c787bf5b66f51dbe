"""Words as character spans of raw text.

`text[start:end]` is the word: nothing is rewritten, so nothing needs detokenising later. Words serve the
aligner, the phrase extraction and the term matching; the translation model itself sees subwords.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

Span = tuple[int, int]  # first character, one past the last character

# Invisible characters that only spoil comparisons. Joiners (U+200C, U+200D) stay: Persian and emoji use them.
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff]"
)
BROKEN = "\ufffd"  # stands for bytes that are no character; it is also a character of its own
_SPACE_MARK = "\u2581"  # SentencePiece writes a space so; in raw text it could not be told from one

UNSPACED_LANGUAGES = frozenset({"zh", "ja"})  # written without spaces between words
_ELIDING_LANGUAGES = frozenset({"fr", "it", "ca"})  # the apostrophe ends the first of two words: l’Europe
_CLITICS = {"en": "s|re|ve|ll|d|m", "de": "s"}  # the apostrophe begins the second of two words: Europe’s

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_APOSTROPHES = "'’"

# How tokenised text is joined again.
_ATTACH_LEFT = frozenset(".,;:!?)]}…»”’›。，、；：！？）】》」』〉％")
_ATTACH_RIGHT = frozenset("([{«“„‚‹¿¡#（【《「『〈")
_GERMAN_OPENING = frozenset("„‚»›")  # German quotes point the other way
_GERMAN_CLOSING = frozenset("“‘«‹")
_CURRENCIES = frozenset("$£¥")
_STRAIGHT_QUOTES = frozenset({'"', "'", "''", "``"})
_DETACHED_CLITICS = frozenset({"s", "re", "ve", "ll", "d", "m", "t", "em"})
_FUSED_ENDINGS = frozenset({"n't", "n’t"})
_SPACED_PERCENT = frozenset({"de", "fr", "cs", "sv", "es"})  # languages that write 5 %, not 5%


def normalise(text: str) -> str:
    """NFC, every run of white space one space, invisible control characters gone. Idempotent.

    Compatibility forms stay as they are (no NFKC): Chinese full-width punctuation must be reproducible.
    """
    text = _DROPPED.sub("", text)
    if _SPACE_MARK in text:
        text = text.replace(_SPACE_MARK, "_")
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


def split_words(text: str, language: str) -> list[Span]:
    """The spans of the words of `text`, in order.

    A word is a run of letters, digits and marks, apostrophes and decimal points inside it included; every
    other visible character is a word of its own. Chinese runs are cut by a segmenter.
    """
    pattern = _word_pattern(language)
    if language not in UNSPACED_LANGUAGES:
        if text.isalpha():  # a single plain word, the most frequent case when words are looked at one by one
            return [(0, len(text))]
        return [match.span() for match in pattern.finditer(text)]
    return list(_split_unspaced(text, pattern))


def _split_unspaced(text: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    cut = _chinese_segmenter()
    for match in pattern.finditer(text):
        start, end = match.span()
        if match.lastgroup != "han" or end - start == 1:
            yield start, end
            continue
        for word in cut(text[start:end]):
            yield start, start + len(word)
            start += len(word)


@functools.cache
def _chinese_segmenter() -> Callable[[str], list[str]]:
    import rjieba  # imported late: loading its dictionary takes time that other languages need not spend

    cut: Callable[[str], list[str]] = rjieba.cut
    return cut


@functools.cache
def _word_pattern(language: str) -> re.Pattern[str]:
    """One alternative per kind of word, the most frequent first: this runs over every word of a corpus."""
    joined = f"[{_marks()}\u200c\u200d]"
    unspaced = f"{_HAN}{_HIRAGANA}{_KATAKANA}" if language in UNSPACED_LANGUAGES else ""
    letter, letter_or_digit = rf"[^\W\d_{unspaced}]", rf"[^\W_{unspaced}]"
    inner = rf"{joined}+|[{_APOSTROPHES}](?=[^\W\d_])"
    special = []
    if language in _ELIDING_LANGUAGES:
        inner = f"{joined}+"
        special = [rf"{letter_or_digit}+[{_APOSTROPHES}](?=[^\W\d_])"]
    elif language in _CLITICS:
        clitic = rf"(?i:{_CLITICS[language]})(?![^\W_]|[{_APOSTROPHES}][^\W_])"
        inner = rf"{joined}+|[{_APOSTROPHES}](?!{clitic})(?=[^\W\d_])"
        special = [rf"(?<=[^\W_])[{_APOSTROPHES}]{clitic}"]
    # The look-ahead spares the large class of marks a look at the usual ends of words.
    tail = rf"(?:(?![\s.,])(?:{inner}){letter_or_digit}*)*"
    word = f"{letter}{letter_or_digit}*{tail}"
    number = [r"\d+(?:[.,]\d+)+", rf"\d{letter_or_digit}*{tail}"]
    other = [rf"{letter_or_digit}+{tail}", rf"(?:[^\w\s]|_){joined}*"]
    if unspaced:
        other[:0] = [f"(?P<han>[{_HAN}]+)", f"[{_HIRAGANA}]+", f"[{_KATAKANA}]+"]
    ordered = [*special, word] if language in _ELIDING_LANGUAGES else [word, *special]
    return re.compile("|".join([*ordered, *number, *other]))


@functools.cache
def _marks() -> str:
    """All combining marks as ranges of a character class; the standard library's `\\w` leaves them out."""
    ranges: list[list[int]] = []
    for block in (range(0x300, 0x1F000), range(0xE0100, 0xE01F0)):
        for code in block:
            if unicodedata.category(chr(code)).startswith("M"):
                if ranges and ranges[-1][1] == code - 1:
                    ranges[-1][1] = code
                else:
                    ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def join_tokens(tokens: Sequence[str], language: str) -> tuple[str, list[Span]]:
    """The natural text of `tokens` and the span of each: `text[start:end]` of span i is token i."""
    spaced = _spaces_unspaced if language in UNSPACED_LANGUAGES else _spaces_spaced
    parts: list[str] = []
    spans: list[Span] = []
    position = 0
    for token, space in zip(tokens, spaced(tokens, language), strict=True):
        if space:
            parts.append(" ")
            position += 1
        parts.append(token)
        spans.append((position, position + len(token)))
        position += len(token)
    return "".join(parts), spans


def _spaces_spaced(tokens: Sequence[str], language: str) -> list[bool]:
    """Whether a space stands before each token, in a language that puts spaces between words."""
    spaces: list[bool] = []
    open_quotes: set[str] = set()
    glued = True  # nothing precedes the first token
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        previous = tokens[index - 1] if index else ""
        attach_left, attach_right = _attachment(token, previous, following, language, open_quotes)
        spaces.append(not (glued or attach_left))
        glued = attach_right
    return spaces


def _attachment(token: str, previous: str, following: str, language: str, open_quotes: set[str]) -> tuple[bool, bool]:
    """Whether a token clings to the one before it, and to the one after it; keeps `open_quotes` up to date."""
    possessive = language == "en" and token == "'" and previous.endswith("s") and "'" not in open_quotes
    if token in _STRAIGHT_QUOTES and not (possessive and following):
        return _quote_attachment(token, open_quotes)
    if token == "/":
        return bool(previous), bool(following)
    if language == "de" and token in _GERMAN_OPENING | _GERMAN_CLOSING:
        return token in _GERMAN_CLOSING, token in _GERMAN_OPENING
    right = token in _ATTACH_RIGHT or (token in _CURRENCIES and following[:1].isdigit())
    left = (
        possessive
        or token in _FUSED_ENDINGS
        or (token == "%" and language not in _SPACED_PERCENT and previous[-1:].isdigit())
        or (token[0] in _APOSTROPHES and token[1:].lower() in _DETACHED_CLITICS and previous[-1:].isalnum())
        or all(character in _ATTACH_LEFT for character in token)
    )
    return left, right


def _quote_attachment(token: str, open_quotes: set[str]) -> tuple[bool, bool]:
    """Straight quotes open and close in turn."""
    kind = '"' if token in {"``", "''"} else token
    if token == "``" or (kind not in open_quotes and token != "''"):
        open_quotes.add(kind)
        return False, True
    open_quotes.discard(kind)
    return True, False


def _spaces_unspaced(tokens: Sequence[str], language: str) -> list[bool]:
    """In Chinese and Japanese a space stands only between two words of an alphabet, or numbers."""
    spaces = [False] * len(tokens)
    for index in range(1, len(tokens)):
        spaces[index] = _is_alphabetic(tokens[index - 1][-1]) and _is_alphabetic(tokens[index][0])
    return spaces


def _is_alphabetic(character: str) -> bool:
    if not character.isalnum():
        return False
    return unicodedata.east_asian_width(character) not in {"W", "F"}
