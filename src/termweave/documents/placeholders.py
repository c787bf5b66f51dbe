"""Pieces of text that a translation must repeat as they are: `%s`, `{name}`, addresses, tags."""

from __future__ import annotations

import re
from collections.abc import Iterator

from termweave.constraints.protection import find_protected
from termweave.documents.segments import Kind, Mark, Part, Text, fixed, in_pairs

_PLACEHOLDER = re.compile(
    r"""
    https?://[^\s<>"'{}|\\^`]*[\w/\#=&]           # an address, without the full stop after it
  | (?<![\w.+-])[\w.+-]++@\w[\w-]*+(?:\.[\w-]++)+  # a mail address
  | [$%]\{[^{}\s]++\}                            # ${name} %{name}
  | \{\{[^{}\n]++\}\}                             # {{ name }}
  | \{[\w.:!\[\]-]*+\}                            # {} {0} {name} {price:.2f}
  | %\(\w++\)[-+\#0]*+\d*+(?:\.\d++)?[a-zA-Z]     # %(name)s
  | %\d++\$[-+\#0]*+\d*+(?:\.\d++)?[a-zA-Z@]      # %1$d
  | (?<![\d%])%[-+\#0]*+\d*+(?:\.\d++)?(?:hh|ll|[hlzjt])?[sdiuxXfgcp@](?![a-zA-Z]{2})  # %s, but not 5%discount
    """,
    re.VERBOSE,
)
# In a message that is known to be a format, the percent sign is never just a percent sign.
_FORMAT = re.compile(
    r"%%|%(?:\(\w++\)|\d++\$)?[-+\#0 ']*+(?:\d++|\*)?(?:\.(?:\d++|\*))?(?:hh|ll|[hlzjtqL])?[a-zA-Z@]|"
    + _PLACEHOLDER.pattern,
    re.VERBOSE,
)
_IN_ORDER = re.compile(r"(?<!%)%(?:[^(%\d]|\d++[^$\d])|\{\}")
_TAG_NAME = re.compile(r"</?([A-Za-z][\w:.-]*)")
# No sentence goes across these. Those of HTML are in `html.py`; here are the ones that messages hold.
_BLOCKS = re.compile(r"br|hr|p|div|[uod]l|li|d[td]|table|t[rdh]|option|h[1-6]")
_LINE_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def text_parts(text: str, is_format: bool = False) -> Iterator[Part]:
    """Text, and placeholders as marks that keep their looks."""
    start = 0
    for match in (_FORMAT if is_format else _PLACEHOLDER).finditer(text):
        if match.start() > start:
            yield Text.plain(text[start : match.start()])
        yield Mark(Kind.WORD, match[0], shown=match[0])
        start = match.end()
    if start < len(text):
        yield Text.plain(text[start:])


def line_parts(text: str, is_format: bool = False) -> Iterator[Part]:
    """The same for text in which line breaks mean something: no sentence goes across one."""
    start = 0
    for match in _LINE_BREAKS.finditer(text):
        yield from text_parts(text[start : match.start()], is_format)
        yield fixed(match[0])
        start = match.end()
    yield from text_parts(text[start:], is_format)


def tagged_parts(text: str, is_format: bool = False) -> list[Part]:
    """The same for text that may hold tags, as messages of programs do: they move with their words, or end a sentence.

    Left to the model as words that must stand in its output, they tore out what stood between them.
    """
    parts: list[Part] = []
    start = 0
    for span in find_protected(text):
        if span.kind == "tag" and (name := _TAG_NAME.match(text, span.start)):
            parts += line_parts(text[start : span.start], is_format)
            parts.append(_tag(text[span.start : span.end], name[1].lower()))
            start = span.end
    parts += line_parts(text[start:], is_format)
    return in_pairs(parts, lonely=Kind.WORD)


def _tag(source: str, name: str) -> Mark:
    if _BLOCKS.fullmatch(name):
        return fixed(source)
    if source.endswith("/>"):
        return Mark(Kind.WORD, source)
    return Mark(Kind.CLOSE if source.startswith("</") else Kind.OPEN, source, int.from_bytes(name.encode()))


def depends_on_order(placeholder: str) -> bool:
    """`%s` takes whichever value comes next, inside an address too; `%1$s` and `{name}` say which."""
    return _IN_ORDER.search(placeholder) is not None


def in_order(text: str) -> list[str]:
    """The placeholders of a text that take whichever value comes next."""
    return [match[0] for match in _PLACEHOLDER.finditer(text) if depends_on_order(match[0])]
