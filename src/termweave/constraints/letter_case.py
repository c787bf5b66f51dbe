"""Letter case carried over from a source term to its target.

The glossary has `file → Datei`; the sentence says `FILE`; so the target is `DATEI`. Four patterns are told apart: lower
(`save as`), UPPER (`SAVE AS`, two letters at least), Title (the first letter alone counts: `Save as`, `Save As`), and
anything else (`iPhone`), which is never touched.

| entry  | sentence | the target becomes                                                              |
|--------|----------|----------------------------------------------------------------------------------|
| any    | the same | as written                                                                      |
| any    | UPPER    | upper case                                                                      |
| lower  | Title    | its first letter upper case                                                     |
| UPPER  | Title    | capitalised, if it is upper case itself                                          |
| Title  | lower    | its first letter lower case, unless German: `File → Datei` has a noun            |
| UPPER  | lower    | lower case, if it is upper case itself; German: capitalised, as most terms are nouns |

At the beginning of a sentence a capital says nothing about the term, so there both forms will do. In German a capital
within the sentence says that the term is a noun, which is no reason for a capital elsewhere.
"""

from __future__ import annotations

from typing import Literal

Pattern = Literal["lower", "upper", "title", "other"]

CAPITALISED_NOUNS = frozenset({"de", "lb"})  # languages that write every noun with a capital


def pattern(text: str) -> Pattern:
    letters = [character for character in text if character.isalpha()]
    if not letters or text == text.lower():
        return "lower"
    if len(letters) > 1 and text == text.upper():
        return "upper"
    titled = all(word[1:] == word[1:].lower() for word in text.split())
    return "title" if titled and letters[0] != letters[0].lower() else "other"


def carried(target: str, entry: str, written: str, target_language: str) -> str:
    """The target of the entry's source `entry`, in the letter case that `written` has in the sentence."""
    if entry == written:
        return target
    old, new = pattern(entry), pattern(written)
    if new == "upper":
        return target.upper() if old != "upper" else target
    if old == "upper" and pattern(target) == "upper" and new in ("lower", "title"):
        low = target.lower()
        return capitalised(low) if new == "title" or target_language in CAPITALISED_NOUNS else low
    if old == "lower" and new == "title":
        return capitalised(target)
    if old == "title" and new == "lower" and target_language not in CAPITALISED_NOUNS:
        return target[:1].lower() + target[1:] if pattern(target) == "title" else target
    return target


def carried_forms(
    target: str, entry: str, written: str, *, begins: bool, source_language: str, target_language: str
) -> tuple[str, ...]:
    """The forms of a target that will do, the preferred one first. `begins`: the term begins the sentence."""
    form = carried(target, entry, written, target_language)
    if pattern(written) != "title":
        return (form,)
    if begins:
        return tuple(dict.fromkeys((form, target, capitalised(form))))
    if source_language in CAPITALISED_NOUNS and pattern(entry) == "lower":
        return (target,)
    return (form,)


def all_forms(text: str) -> tuple[str, ...]:
    """A text in every letter case that is carried over: what is forbidden is forbidden in all of them."""
    return tuple(dict.fromkeys((text, text[:1].lower() + text[1:], capitalised(text), text.lower(), text.upper())))


def capitalised(text: str) -> str:
    """The first letter upper case, the rest as it is. Marks before it (quotes, brackets) are passed over."""
    for place, character in enumerate(text):
        if character.isalnum():
            return text[:place] + character.title() + text[place + 1 :]
    return text
