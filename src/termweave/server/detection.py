"""Which language a text is in, by py3langid: naive Bayes over byte sequences, 140 languages in 5 MB."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

_MOST = 2000  # characters that are looked at: more change nothing


@functools.cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def detect(text: str) -> list[tuple[str, float]]:
    """(language, probability) of all languages it knows, the most likely first."""
    return [(str(language), float(probability)) for language, probability in _identifier().rank(text[:_MOST])]


def most_likely(text: str, candidates: Sequence[str]) -> str:
    """The likeliest of some languages. With one candidate there is nothing to find out."""
    if len(candidates) == 1:
        return candidates[0]
    known = set(candidates)
    return next((language for language, _ in detect(text) if language in known), candidates[0])
