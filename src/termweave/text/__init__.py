"""Strings: words with character spans, subwords, stop words."""

from termweave.text.marian_vocabulary import MarianVocabulary, load_vocabulary
from termweave.text.stopwords import is_content, is_punctuation
from termweave.text.subwords import Subwords
from termweave.text.vocabulary import TextEncoder, Vocabulary
from termweave.text.words import Span, join_tokens, normalise, split_words

__all__ = [
    "MarianVocabulary",
    "Span",
    "Subwords",
    "TextEncoder",
    "Vocabulary",
    "is_content",
    "is_punctuation",
    "join_tokens",
    "load_vocabulary",
    "normalise",
    "split_words",
]
