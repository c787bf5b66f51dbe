"""What must come through a translation unchanged: addresses, placeholders, tags, technical names, numbers, emoji.

Every pattern runs in time proportional to the text: it begins at a mark that cannot be inside itself, repeats are
possessive or bounded, and nothing is tried twice.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from termweave.constraints.glossary import GlossaryEntry
from termweave.constraints.technical_names import HINT, IDENTIFIER, OPTION, PATH

Kind = Literal["url", "email", "placeholder", "tag", "path", "option", "identifier", "quantity", "symbol"]
# One too many breaks a program, and another emoji says something else; addresses and numbers may be said twice.
COUNTED = frozenset({"placeholder", "tag", "symbol"})


@dataclass(frozen=True)
class ProtectedSpan:
    """`text[start:end]` is to be kept as it is."""

    start: int
    end: int
    kind: Kind

    def entry(self, text: str) -> GlossaryEntry:
        """The glossary entry that says so."""
        return GlossaryEntry(text[self.start : self.end], policy="keep", case="exact", note=self.kind)


# Letters of alphabets that put spaces between words. Chinese follows an address or a number without one.
_LETTER = r"0-9A-Za-z_\u00c0-\u024f\u0370-\u052f"
_WIDE = r"\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"

_SCHEME = r"(?:https?|ftps?|sftp|file|ssh|git)://|www\.(?=\w)|mailto:(?=[^\s@]{1,64}@)"
_URL = rf"(?<![{_LETTER}])(?:{_SCHEME})[^\s<>\"“”„«»{_WIDE}]++"

# It may not begin after one of its own characters, or a long run without @ would be tried from every place in it.
_DOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z]{2,24}"
_EMAIL = rf"(?<![0-9A-Za-z_.+%-])[0-9A-Za-z_+%-][0-9A-Za-z_.+%-]{{0,63}}+@{_DOMAIN}"

_NO_PERCENT = r"(?<![\d%])(?<!\d[ \u00a0\u202f])"  # after a number the sign means what it says: 100%ig, 50 %
_CONVERSION = r"[-+#0]{0,5}+(?:\d{1,5}+|\*)?(?:\.(?:\d{1,5}+|\*))?(?:hh?|ll?|[qjzLt])?[diouxXeEfFgGaAcspn@]"
_PLACEHOLDER = "|".join(
    [
        r"\{\{[^{}\n]{1,200}\}\}",  # {{ name }}
        r"[$%]\{[^{}\s]{1,200}\}",  # ${name}, %{name}
        r"\$\([A-Za-z_][0-9A-Za-z_.]{0,100}\)",  # $(name)
        rf"(?<![{_LETTER}$])\$[A-Za-z_][0-9A-Za-z_]{{0,100}}+",  # $name
        r"\{[\w.\[\]'\"!:<>=^+#,%|-]{0,200}+(?:\{\w{0,50}\}[\w.:%]{0,20}+){0,3}+\}",  # {name}, {0:>8}, {}, {0:>{1}}
        rf"{_NO_PERCENT}%\([\w. -]{{1,100}}\){_CONVERSION}",  # %(name)s
        rf"(?<![{_LETTER}%])%[A-Za-z_][0-9A-Za-z_]{{0,100}}%(?![{_LETTER}])",  # %NAME%
        rf"{_NO_PERCENT}%(?:\d{{1,3}}\$)?{_CONVERSION}",  # %s, %1$d, %-5.2f, %@
        rf"{_NO_PERCENT}%(?:L?\d{{1,2}}|n)(?![{_LETTER}])",  # %1, %L2, %n
        r"(?<!%)%%(?!%)",
    ]
)

_VALUE = r"""(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=`]++)"""
_BARE = (
    "disabled|checked|hidden|required|selected|readonly|multiple|autofocus|open|async|defer|controls|download|muted|loop|"
    "autoplay|novalidate|itemscope|reversed|allowfullscreen|data-[\\w-]++"
)
_TAG = "|".join(
    [
        rf"<[A-Za-z][\w:.-]*+(?:\s++(?:(?:{_BARE})(?=[\s/>])|[\w:.@-]++\s*+=\s*+{_VALUE}))*+\s*+/?>",
        r"</[A-Za-z][\w:.-]*+\s*+>",
        r"<\d{1,6}+/>",  # what stands for code and pictures of a document
        r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});",
    ]
)

_UNITS = (
    "km/h|m/s|mph|km²|cm²|mm²|m²|m³|cm³|km|cm|mm|µm|μm|nm|dm|kg|mg|µg|μg|ml|cl|dl|hl|kWh|MWh|GWh|Wh|kW|MW|GW|mW|kV|mV|mA|"
    "Ah|mAh|kHz|MHz|GHz|THz|Hz|kPa|hPa|MPa|Pa|mbar|bar|kJ|MJ|kcal|cal|dB|kΩ|MΩ|Ω|°C|°F|°|kB|KB|MB|GB|TB|PB|KiB|MiB|GiB|TiB|"
    "kbit/s|Mbit/s|Gbit/s|kbps|Mbps|Gbps|MB/s|GB/s|kbit|Mbit|Gbit|bit|dpi|ppi|px|pt|rpm|fps|ppm|ms|µs|μs|ns|min|sec|"
    "ft|oz|lbs|lb|ha|EUR|USD|GBP|CHF|CNY|JPY|%|‰|€|£|¥|\\$|¢|m|g|l|L|h|s|t|V|W"
)
_ATTACHED_UNITS = "A|B|K|M|G|x|J|N"  # after a space these are words: "Section 5 A new rule"
_NUMBER = r"\d++(?:[.,]\d++)*+"
_QUANTITY = "|".join(
    [
        rf"(?<![{_LETTER}.,])[+\-−±]?{_NUMBER}(?:[–-]{_NUMBER})?+"
        rf"(?:[ \u00a0\u202f]?(?:{_UNITS})|(?:{_ATTACHED_UNITS}))(?![{_LETTER}°²³]|-\w)",
        rf"(?<![{_LETTER}.,$€£¥])[€$£¥][ \u00a0]?{_NUMBER}(?![{_LETTER}])",
    ]
)

# Emoji, pictographs, arrows, dingbats: most vocabularies spell them byte by byte, and models get the bytes wrong. A run
# of them is kept as it stands, with what modifies them: skin tones, variation selectors, joiners, flags.
_PICTURE = r"\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001fbff"
_MODIFIER = r"\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"
_SYMBOL = rf"(?:[0-9#*]\ufe0f?\u20e3|[©®™‼⁉ℹ]\ufe0f|[{_PICTURE}][{_MODIFIER}]*+)++"

_PATTERN = (
    f"(?P<url>{_URL})|(?P<email>{_EMAIL})|(?P<tag>{_TAG})|(?P<placeholder>{_PLACEHOLDER})|(?P<symbol>{_SYMBOL})|"
    f"(?P<quantity>{_QUANTITY})"
)
_NAMES = f"(?P<path>{PATH})|(?P<option>{OPTION})|(?P<identifier>{IDENTIFIER})"
# Within a word only what has one of these marks can begin. To know that spares most places of a text all patterns.
_INSIDE_WORDS = rf"[%{{$<&\d#*©®™‼⁉ℹ{_PICTURE}]"
_START = rf"(?:(?<![0-9A-Za-z_])|(?={_INSIDE_WORDS}))"
_WITHOUT_NAMES, _WITH_NAMES = (re.compile(f"{_START}(?:{own})") for own in (_PATTERN, f"{_PATTERN}|{_NAMES}"))
# Most sentences hold nothing of this.
_COUNTED_MARKS = rf"%{{$<&\u20e3\ufe0f{_PICTURE}"  # what is counted holds one of them
_HINT = re.compile(rf"[{_COUNTED_MARKS}@\d]|://|www\.|mailto:")
_COUNTED_HINT = re.compile(f"[{_COUNTED_MARKS}]")
_NAME_HINT = re.compile(HINT)
_BEFORE_PUNCTUATION = frozenset({"url", "path", "option"})  # kinds that take in what follows them

_SCHEMES = frozenset({"http", "https", "ftp", "ftps", "sftp", "file", "ssh", "git", "www", "mailto"})
_PUNCTUATION = frozenset(".,;:!?'’‘*_~、。，；：！？）】》」』")
_CLOSING = {")": "(", "]": "[", "}": "{"}


def find_protected(text: str) -> list[ProtectedSpan]:
    """The spans to keep, in order, without overlap."""
    may_hold_names = _NAME_HINT.search(text)
    if not may_hold_names and not _HINT.search(text):
        return []
    pattern = _WITH_NAMES if may_hold_names else _WITHOUT_NAMES
    found: list[ProtectedSpan] = []
    position = 0
    while match := pattern.search(text, position):
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups are named after the kinds
        start, position = match.span()
        end = _address_end(text, start, position) if kind in _BEFORE_PUNCTUATION else position
        if end > start:
            found.append(ProtectedSpan(start, end, kind))
            position = end
    return found


def counted(text: str) -> Counter[str]:
    """What a text holds of the kinds that are counted."""
    if not _COUNTED_HINT.search(text):
        return Counter()
    return Counter(text[span.start : span.end] for span in find_protected(text) if span.kind in COUNTED)


def _address_end(text: str, start: int, end: int) -> int:
    """Where an address ends before the punctuation of the sentence around it: (see https://a.example/b).

    `start` if nothing is left of it but its scheme.
    """
    surplus = {
        closing: text.count(closing, start, end) - text.count(opening, start, end)
        for closing, opening in _CLOSING.items()
    }
    while end > start:
        last = text[end - 1]
        if last in _CLOSING and surplus[last] > 0:
            surplus[last] -= 1
        elif last not in _PUNCTUATION:
            break
        end -= 1
    return start if text[start:end].rstrip("/").rstrip(":") in _SCHEMES else end
