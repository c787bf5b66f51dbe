"""Texts with tags: what a request says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from termweave.documents import translate_markup
from termweave.server.bodies import Fields
from termweave.server.lines import LineTranslator
from termweave.server.problems import bad_request

KINDS = ("html", "xml")


@dataclass(frozen=True)
class Markup:
    """ignored: elements whose content stays as it is. splitting: tags of XML that no sentence goes across."""

    kind: Literal["html", "xml"]
    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()

    def translate(self, text: str, lines: LineTranslator, direction: str) -> str:
        language = direction.partition("-")[0]
        return translate_markup(
            text, self.kind, lines, language, ignored=self.ignored, splitting=self.splitting, terms=lines.terms
        )


def markup_of(given: Fields) -> Markup | None:
    """What DeepL's clients say in `tag_handling` and beside it; None for plain text."""
    kind = given.text("tag_handling", "").lower()
    splitting = _names(given.texts("splitting_tags")) - _names(given.texts("non_splitting_tags"))
    ignored = _names(given.texts("ignore_tags"))
    if not kind:  # what is wrong with the rest is told all the same
        return None
    if kind not in KINDS:
        raise bad_request("Value for 'tag_handling' not supported", f"use one of: {', '.join(KINDS)}")
    if given.text("split_sentences", "1") == "0":
        raise bad_request(
            "Value for 'split_sentences' not supported", "texts with tags are split into sentences; leave it out"
        )
    return Markup(cast(Literal["html", "xml"], kind), ignored, splitting)


def _names(values: Sequence[str]) -> frozenset[str]:
    """Lists, or one text with commas, as forms have it."""
    return frozenset(name.strip().lower() for value in values for name in value.split(",") if name.strip())
