"""Pieces of text that a translation must repeat as they are: `%s`, `{name}`, addresses, tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from termweave.constraints.protection import find_protected
from termweave.documents.directives import depends_on_order, directive_pattern
from termweave.documents.segments import Kind, Mark, Part, Text, fixed, in_pairs

_PLACEHOLDER = re.compile(
    r"""
    https?://[^\s<>"'{}|\\^`]*[\w/\#=&]           # an address, without the full stop after it
  | (?<![\w.+-])[\w.+-]++@\w[\w-]*+(?:\.[\w-]++)+  # a mail address
  | [$%]\{[^{}\s]++\}                            # ${name} %{name}
  | \{\{[^{}\n]++\}\}                             # {{ name }}
  | \{[\w.:!<>=^+\[\]-]*+(?:\{\w*+\}[\w.:]*+)*+\}  # {} {0} {name} {price:.2f} {0:>{1}}
  | %\(\w++\)[-+\#0]*+\d*+(?:\.\d++)?[a-zA-Z]     # %(name)s
  | %\d++\$[-+\#0]*+\d*+(?:\.\d++)?[a-zA-Z@]      # %1$d
  | (?<![\d%])%[-+\#0]*+\d*+(?:\.\d++)?(?:hh|ll|[hlzjt])?[sdiuxXfgcp@](?![a-zA-Z]{2})  # %s, but not 5%discount
    """,
    re.VERBOSE,
)
_MACRO = re.compile(r"%[^\s%<>]{0,20}<PRI\w++>")  # %<PRIu64>, which is no tag
_TAG_NAME = re.compile(r"</?([A-Za-z][\w:.-]*)")
# No sentence goes across these. Those of HTML are in `html.py`; here are the ones that messages hold.
_BLOCKS = re.compile(r"br|hr|p|div|[uod]l|li|d[td]|table|t[rdh]|option|h[1-6]")
_LINE_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def text_parts(text: str, formats: Sequence[str] = ()) -> Iterator[Part]:
    """Text, and placeholders as marks that keep their looks. formats: of messages, see `directives.formats_of`."""
    start = 0
    for match in _pattern(tuple(formats)).finditer(text):
        if match.start() > start:
            yield Text.plain(text[start : match.start()])
        yield Mark(Kind.WORD, match[0], shown=match[0])
        start = match.end()
    if start < len(text):
        yield Text.plain(text[start:])


def line_parts(text: str, formats: Sequence[str] = ()) -> Iterator[Part]:
    """The same for text in which line breaks mean something: no sentence goes across one."""
    start = 0
    for match in _LINE_BREAKS.finditer(text):
        yield from text_parts(text[start : match.start()], formats)
        yield fixed(match[0])
        start = match.end()
    yield from text_parts(text[start:], formats)


def tagged_parts(text: str, formats: Sequence[str] = ()) -> list[Part]:
    """The same for text that may hold tags, as messages of programs do: they move with their words, or end a sentence.

    Left to the model as words that must stand in its output, they tore out what stood between them.
    """
    parts: list[Part] = []
    start = 0
    inside = {place for match in _MACRO.finditer(text) if formats for place in range(*match.span())}
    for span in find_protected(text):
        if span.kind == "tag" and span.start not in inside and (name := _TAG_NAME.match(text, span.start)):
            parts += line_parts(text[start : span.start], formats)
            parts.append(_tag(text[span.start : span.end], name[1].lower()))
            start = span.end
    parts += line_parts(text[start:], formats)
    return in_pairs(parts, lonely=Kind.WORD)


def _tag(source: str, name: str) -> Mark:
    if _BLOCKS.fullmatch(name):
        return fixed(source)
    if source.endswith("/>"):
        return Mark(Kind.WORD, source)
    return Mark(Kind.CLOSE if source.startswith("</") else Kind.OPEN, source, int.from_bytes(name.encode()))


@cache
def _pattern(formats: tuple[str, ...]) -> re.Pattern[str]:
    """In a message that is known to be a format, the percent sign, say, is never just a percent sign."""
    known = f"{directive_pattern(formats)}|" if formats else ""
    return re.compile(known + _PLACEHOLDER.pattern, re.VERBOSE)


def in_order(text: str) -> list[str]:
    """The placeholders of a text that take whichever value comes next."""
    return [match[0] for match in _PLACEHOLDER.finditer(text) if depends_on_order(match[0])]
