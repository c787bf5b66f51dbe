"""Characters in a term that are probably a mistake: invisible, misplaced, of another alphabet, without a partner."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
_JOINER = re.compile("[\u200c\u200d]")  # at home in many scripts and in emoji, not between these letters
_UNJOINED_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "CJK", "DIGIT"})
_LOST = re.compile("[\ufffd\ue000-\uf8ff]")
_MISREAD = re.compile("[ÃÂ][\u0080-\u00bf]|â€")  # UTF-8 that was read as Latin-1 or Windows-1252 and saved
_ALIKE_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK"})  # their letters look alike
_LETTERS = re.compile(r"[^\W\d_]+")
_BRACKETS = {")": "(", "]": "[", "}": "{", "）": "（", "】": "【", "》": "《", "」": "「", "』": "『", "〉": "〈"}
_OPENING = frozenset(_BRACKETS.values())


def oddities(text: str) -> Iterator[tuple[str, str, str]]:
    """(code, what is odd, what to do) of everything odd about a text."""
    if found := _CONTROL.search(text):
        yield "control-character", f"holds the control character {_named(found[0])}", "remove it"
    if text != text.strip():
        yield "outer-space", "begins or ends with white space", "remove it"
    if "  " in text.strip():
        yield "double-space", "holds two spaces in a row", "leave one"
    if not text.isascii():
        yield from _beyond_ascii(text)
    if partner := _without_partner(text):
        yield "unbalanced", f"has {partner} without its partner", "add the other one, or remove it"


def _beyond_ascii(text: str) -> Iterator[tuple[str, str, str]]:
    invisible = _INVISIBLE.search(text) or _misplaced_joiner(text)
    if invisible:
        yield "invisible-character", f"holds the invisible character {_named(invisible[0])}", "remove it"
    if found := _LOST.search(text):
        yield "lost-character", f"holds {_named(found[0])}, which stands for no known character", "write what was meant"
    if found := _MISREAD.search(text):
        yield (
            "misread-encoding",
            f"holds {found[0]!r}, which looks like text read in a wrong encoding",
            "export it anew",
        )
    if not unicodedata.is_normalized("NFC", text):
        yield "decomposed", "holds letters and accents as separate characters", "save it in composed form (NFC)"
    for word in _LETTERS.findall(text):
        scripts = {script for character in word if (script := _script(character)) in _ALIKE_SCRIPTS}
        if len(scripts) > 1:
            mixed = " and ".join(sorted(script.title() for script in scripts))
            yield "mixed-scripts", f"mixes {mixed} letters in {word!r}", "type the word anew in one alphabet"
            return


def _misplaced_joiner(text: str) -> re.Match[str] | None:
    for found in _JOINER.finditer(text):
        before = text[found.start() - 1 : found.start()]
        if not before or _script(before) in _UNJOINED_SCRIPTS:
            return found
    return None


def _script(character: str) -> str:
    """The first word of a character's name, which for letters is their script."""
    return unicodedata.name(character, "").partition(" ")[0]


def _named(character: str) -> str:
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" ({name.lower()})" if name else "")


def _without_partner(text: str) -> str:
    """The first bracket or quotation mark that stands alone, or nothing."""
    opened: list[str] = []
    for character in text:
        if character in _OPENING:
            opened.append(character)
        elif character in _BRACKETS:
            if not opened or opened[-1] != _BRACKETS[character]:
                return f"a {character!r}"
            opened.pop()
    if opened:
        return f"a {opened[-1]!r}"
    if text.count('"') % 2:
        return "a '\"'"
    if text.count("«") != text.count("»"):
        return "a '«' or '»'"
    # “ opens in English and closes in German, so the marks of both are counted together.
    low, high, right = text.count("„"), text.count("“"), text.count("”")
    return "" if (low + high + right) % 2 == 0 else "a quotation mark"
