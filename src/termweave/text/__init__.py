"""Strings: words with character spans, subwords, stop words."""

from termweave.text.stopwords import is_content, is_punctuation
from termweave.text.subwords import Subwords
from termweave.text.words import Span, join_tokens, normalise, split_words

__all__ = ["Span", "Subwords", "is_content", "is_punctuation", "join_tokens", "normalise", "split_words"]
