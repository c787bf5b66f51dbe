"""The words of a sentence as term matching compares them, with their places in the sentence as it was written.

Compared are: Unicode in composed form (NFC), without invisible characters, case folded (`Straße` = `STRASSE`), one kind
of apostrophe and hyphen; stemmed, if inflected forms are to be found.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from termweave.constraints.glossary import primary
from termweave.constraints.occurrences import comparable_spans
from termweave.errors import ConfigError
from termweave.text.words import UNSPACED_LANGUAGES, Span, normalise, split_words

_SAME_MARKS = str.maketrans({"’": "'", "‐": "-", "‑": "-"})
_STEMMERS = {  # the algorithms of Snowball, by language
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "nb": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}


@dataclass(frozen=True)
class TermWords:
    """`text[start:end]` of span i is word i as written; `keys[i]` is what is compared."""

    text: str
    spans: list[Span]
    keys: list[str]

    def written(self, first: int, last: int) -> str:
        """The words from `first` to before `last`, as they stand in the text."""
        return self.text[self.spans[first][0] : self.spans[last - 1][1]]


class WordSplitter:
    """Splits texts of one language into comparable words. Remembers words it has seen: most come again."""

    def __init__(self, language: str, inflection: bool = False) -> None:
        self.language = primary(language)
        self._key = _stem_key(self.language) if inflection else functools.cache(folded)

    def split(self, text: str) -> TermWords:
        if text.isascii() or normalise(text) == " ".join(text.split()):
            spans = comparable_spans(text, self.language)
            return TermWords(text, spans, [self._key(text[start:end]) for start, end in spans])
        plain, origins = composed(text)
        inner = comparable_spans(plain, self.language)
        keys = [self._key(plain[start:end]) for start, end in inner]
        return TermWords(text, [(origins[start][0], origins[end - 1][1]) for start, end in inner], keys)

    def boundaries(self, text: str) -> frozenset[Span]:
        """Words of unspaced writing as the segmenter sees them, to tell whether a single character is one."""
        return frozenset(split_words(text, self.language)) if self.language in UNSPACED_LANGUAGES else frozenset()


def folded(text: str) -> str:
    """Letter case, Unicode form, and kinds of apostrophe and hyphen taken away."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text.translate(_SAME_MARKS).casefold())


def composed(text: str) -> tuple[str, list[Span]]:
    """`text` in NFC without invisible characters, and where each character of that comes from.

    Runs that compose with each other (a letter and its marks) are taken as one, so a span never cuts a letter in two.
    """
    characters: list[str] = []
    origins: list[Span] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and _joins(text, start, end):
            end += 1
        cluster = unicodedata.normalize("NFC", _visible(text[start:end]))
        characters.append(cluster)
        origins.extend([(start, end)] * len(cluster))
        start = end
    return "".join(characters), origins


def _visible(text: str) -> str:
    """Without what `normalise` drops; white space stays, whatever its kind."""
    return "".join(character for character in text if character.isspace() or normalise(character))


def _joins(text: str, start: int, end: int) -> bool:
    """Does the character at `end` belong to the letter at `start`? Invisible ones in between do not part them."""
    character = text[end]
    if unicodedata.combining(character):
        return True
    if character.isascii() or character.isspace():
        return False
    if not normalise(character):  # invisible: part of the word around it
        return True
    before = unicodedata.normalize("NFC", text[start:end])
    return unicodedata.normalize("NFC", before + character) != before + unicodedata.normalize("NFC", character)


def _stem_key(language: str) -> Callable[[str], str]:
    if language not in _STEMMERS:
        raise ConfigError(
            f"there is no stemmer for the language {language!r}, so inflected forms cannot be found; "
            f"turn inflection off. There are stemmers for {', '.join(sorted(_STEMMERS))}"
        )
    import snowballstemmer

    stem = snowballstemmer.stemmer(_STEMMERS[language]).stemWord

    @functools.cache
    def key(word: str) -> str:
        plain = folded(word)
        return str(stem(plain)) if plain.isalpha() else plain

    return key
