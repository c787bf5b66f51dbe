"""The content of an XLIFF `source` as parts, and parts as the content of a `target`."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from lxml import etree

from termweave.documents.placeholders import line_parts, text_parts
from termweave.documents.segments import Kind, Mark, Part, Text, in_pairs
from termweave.documents.xml import local_name

_AROUND = frozenset({"g", "pc", "mrk"})  # hold text of the sentence
_HALVES = {"bpt": Kind.OPEN, "bx": Kind.OPEN, "sc": Kind.OPEN, "sm": Kind.OPEN}
_HALVES |= {"ept": Kind.CLOSE, "ex": Kind.CLOSE, "ec": Kind.CLOSE, "em": Kind.CLOSE}
_KEY = "\0"  # begins the source of marks that stand for elements: no text in XML holds it


@dataclass(frozen=True)
class _Entry:
    element: Any
    is_around: bool


class Inline:
    """The parts of one `source`, and the elements its marks stand for."""

    def __init__(self, source: Any, keeps_space: bool) -> None:
        self._entries: list[_Entry] = []
        self._keeps_space = keeps_space
        self.parts = tuple(self._settled(in_pairs(list(self._read(source)), lonely=Kind.BREAK)))

    def _read(self, element: Any) -> Iterator[Part]:
        yield from self._text(element.text)
        for child in element:
            name = local_name(child)
            if name in _AROUND and not _is_protected(child):
                # segments that someone made are not to be moved
                fixed = name == "mrk" and child.get("mtype") == "seg"
                key = self._key(child, is_around=True)
                number = len(self._entries)
                yield Mark(Kind.BREAK if fixed else Kind.OPEN, key, number)
                yield from self._read(child)
                yield Mark(Kind.BREAK if fixed else Kind.CLOSE, "/" + key, number)
            elif name in _HALVES:
                yield Mark(_HALVES[name], self._key(child), _pair_number(child))
            elif name:
                yield Mark(Kind.WORD, self._key(child))
            yield from self._text(child.tail)

    def _settled(self, parts: list[Part]) -> Iterator[Part]:
        """Halves of a pair whose other half is elsewhere stand for themselves, like a word."""
        for part in parts:
            if isinstance(part, Mark) and part.source.startswith(_KEY) and part.kind is Kind.BREAK:
                entry = self._entries[int(part.source[1:])]
                yield part if entry.is_around else replace(part, kind=Kind.WORD)
            else:
                yield part

    def _key(self, element: Any, is_around: bool = False) -> str:
        self._entries.append(_Entry(element, is_around))
        return f"{_KEY}{len(self._entries) - 1}"

    def _text(self, text: str | None) -> Iterator[Part]:
        if text:
            yield from line_parts(text) if self._keeps_space else text_parts(text)

    def write(self, target: Any, parts: tuple[Part, ...]) -> None:
        """Fill an empty `target`."""
        stack = [target]
        for part in parts:
            source = part.source or ""
            if isinstance(part, Text) or _KEY not in source:
                _append_text(stack[-1], part.shown or source)
            elif source.startswith("/"):
                stack.pop()
            else:
                entry = self._entries[int(source[1:])]
                if entry.is_around:
                    stack.append(etree.SubElement(stack[-1], entry.element.tag, dict(entry.element.attrib)))
                else:
                    copy = deepcopy(entry.element)
                    copy.tail = None
                    stack[-1].append(copy)


def _append_text(element: Any, text: str) -> None:
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text


def _is_protected(element: Any) -> bool:
    return bool(element.get("translate") == "no" or element.get("mtype") == "protected")


def _pair_number(element: Any) -> int:
    """The same for both halves, and apart from the numbers of other elements. Versions differ in naming it."""
    name = element.get("rid") or element.get("startRef") or element.get("id") or ""
    return -1 - int.from_bytes(name.encode())
