"""Markdown (.md), CommonMark with tables, strikethrough, task lists, footnotes, definition lists and math in dollars.

Text is replaced at its place and everything else stays: code, math, addresses, HTML blocks, front matter, reference
definitions, labels of footnotes, boxes of tasks, indentation. A line break inside a translated sentence becomes a
space. What a translation brings along that Markdown would take for markup is escaped, and every translated paragraph is
read again: it must have the marks it had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from termweave.documents.document import BYTE_ORDER_MARK, Options, Through, read_whole
from termweave.documents.markdown_inline import MATH, TASK_BOX, InlineParser
from termweave.documents.placeholders import text_parts
from termweave.documents.segments import Kind, Mark, Part, Segment, Text, fixed, in_pairs
from termweave.errors import DataError

_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n|\Z)")
_NEW_LINE = r"(?:\r\n?|\n)"
_FRONT_MATTER = re.compile(
    rf"(---|\+\+\+)[ \t]*{_NEW_LINE}(?:.*?{_NEW_LINE})??(?:\1|\.\.\.)[ \t]*(?:{_NEW_LINE}|\Z)", re.DOTALL
)
_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=\#|\w+;)")
_UNDERLINE = re.compile(rf"[^\r\n]*{_NEW_LINE}[ \t>]*[-:|][ \t:|-]*(?=[\r\n]|\Z)")
_LINE_START = re.compile(r"[#>+=-]|:(?=\s)|\d{1,9}(?=[.)](?:\s|\Z))")


@dataclass(frozen=True)
class _Block:
    """The text of a paragraph as markdown-it sees it, and where each of its characters, and its end, is in the file."""

    content: str
    places: list[int]
    is_underlined: bool = False


class Markdown:
    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self._text = read_whole(path)
        self.total = len(self._text.encode())
        self._parser = InlineParser()
        self._environment: dict[str, object] = {}
        self._as_parsed: dict[str, str] = {}  # pieces over several lines: as in the file → as markdown-it sees them

    def segments(self) -> Iterator[Segment]:
        """Paragraphs, headings and cells in order; what stands before one belongs to it."""
        position = 0
        for block in self._blocks():
            start, end = block.places[0], block.places[-1]
            if start >= position:
                parts = [fixed(self._text[position:start]), *self._parts(block)]
                yield _segment(parts, block.is_underlined)
                position = end
        yield _segment([fixed(self._text[position:])])

    def _blocks(self) -> Iterator[_Block]:
        begin = len(BYTE_ORDER_MARK) if self._text.startswith(BYTE_ORDER_MARK) else 0
        if match := _FRONT_MATTER.match(self._text, begin):
            begin = match.end()
        lines = [(line.start(), line[0].rstrip("\r\n")) for line in _LINE.finditer(self._text, begin)]
        try:
            tokens = self._parser.blocks(self._text[begin:], self._environment)
        except RecursionError:
            raise DataError(f"{self.path}: the Markdown is nested too deeply") from None
        row = column = -1
        for index, token in enumerate(tokens):
            if token.type != "inline" or token.map is None or not token.content:
                continue
            first, last = token.map
            if first != row:
                row, column = first, 0
            in_table = tokens[index - 1].type in ("th_open", "td_open")
            block = _located(token.content, lines[first:last], column if in_table else None)
            if block is not None and index > 1 and tokens[index - 2].type == "list_item_open":
                block = _without_box(block)
            if block is not None and not in_table and _UNDERLINE.match(self._text, block.places[-1]):
                block = replace(block, is_underlined=True)
            if block is not None:
                column = block.places[-1] - lines[row][0]
                yield block

    def _parts(self, block: _Block) -> list[Part]:
        parts: list[Part] = []
        position = 0
        for place in self._parser.places(block.content, self._environment):
            parts.extend(self._literal(block, position, place.start))
            source = self._source(block, place.start, place.end)
            part = place.part
            if isinstance(part, Text):
                parts.append(Text(part.shown, source))
            else:
                parts.append(Mark(part.kind, source, part.identity, part.shown, part.rewritten, part.is_note))
            position = place.end
        parts.extend(self._literal(block, position, len(block.content)))
        return in_pairs(parts, lonely=Kind.WORD)

    def _literal(self, block: _Block, start: int, end: int) -> Iterator[Part]:
        """Plain text; in a table a stroke inside a cell has a backslash before it that markdown-it does not see."""
        for index, piece in enumerate(re.split(r"(\|)", block.content[start:end])):
            source = self._source(block, start, start + len(piece))
            if index % 2:
                yield Text(piece, source)
            else:
                yield from text_parts(piece)
            start += len(piece)

    def _source(self, block: _Block, start: int, end: int) -> str:
        source = self._text[block.places[start] : block.places[end]]
        if source != block.content[start:end]:
            self._as_parsed[source] = block.content[start:end]
        return source

    def _readable(self, original: Segment, translated: Segment) -> bool:
        """Does the translated paragraph have the marks of the original, and the text that was meant?"""
        if translated.parts == original.parts:
            return True
        marks, _ = self._outline(original)
        found, text = self._outline(translated)
        meant = "".join(part.shown for part in translated.parts)
        if sorted(marks) != sorted(found) or "".join(text.split()) != "".join(meant.split()):
            return False
        return self._parser.is_paragraph(self._content(translated)) or not self._parser.is_paragraph(
            self._content(original)
        )

    def _outline(self, segment: Segment) -> tuple[list[str], str]:
        return self._parser.outline(self._content(segment), self._environment)

    def _content(self, segment: Segment) -> str:
        pieces = _written(segment.parts[1:], segment.is_underlined)
        return "".join(self._as_parsed.get(piece, piece) for piece in pieces)

    def translated(self, through: Through) -> Iterator[bytes]:
        for segment in through(self.segments(), self._readable):
            yield "".join(_written(segment.parts, segment.is_underlined)).encode()


def _segment(parts: Sequence[Part], is_underlined: bool = False) -> Segment:
    weight = sum(len((part.source or "").encode()) for part in parts)
    return Segment(tuple(parts), weight, is_underlined)


def _located(content: str, lines: list[tuple[int, str]], column: int | None) -> _Block | None:
    """Find the lines of a block's content in the file; None if they are written in some way we do not know.

    A line of text ends its line of the file, but for the closing marks of a heading; cells follow each other, so the
    next is looked for where the last ended (`column`).
    """
    rows = content.split("\n")
    rows = [
        rows[0],
        *(row.lstrip() for row in rows[1:]),
    ]  # their indentation means nothing, and tabs may be spaces in it
    if len(rows) > len(lines):
        return None
    places: list[int] = []
    for row, (offset, line) in zip(rows, lines, strict=False):
        start = line.rfind(row) if column is None else line.find(row, column)
        if start >= 0:
            found = list(range(start, start + len(row) + 1))
        elif column is not None and (start := line.find(row.replace("|", "\\|"), column)) >= 0:
            found = _with_strokes(row, start)
        else:
            return None
        # of each line the last place is its end: that is where the line feed stands, or the block ends
        places.extend(offset + place for place in found)
    return _Block("\n".join(rows), places)


def _without_box(block: _Block) -> _Block:
    """The item of a task list: its box belongs to what stands before the text."""
    match = TASK_BOX.match(block.content)
    return _Block(block.content[match.end() :], block.places[match.end() :]) if match else block


def _with_strokes(row: str, start: int) -> list[int]:
    places = []
    for character in row:
        places.append(start)
        start += 2 if character == "|" else 1
    return [*places, start]


def _written(parts: Sequence[Part], is_underlined: bool) -> Iterator[str]:
    """The source of each part. New text is escaped, most of all where a line begins.

    is_underlined: there a stroke, escaped or not, may make a table of it and the line below.
    """
    changed = any(isinstance(part, Text) and part.source is None for part in parts)
    line_start = True
    for part in parts:
        if isinstance(part, Mark):
            source = (changed and part.rewritten) or part.source
        elif part.source is not None:
            source = part.source
        else:
            source = _escaped(part.shown, line_start)
        if changed and is_underlined and isinstance(part, Text):
            source = source.replace("\\|", "&#124;").replace("|", "&#124;")
        yield source
        is_break = isinstance(part, Mark) and part.kind is Kind.BREAK
        line_start = is_break or "\n" in source or "\r" in source or (line_start and not source.strip())


def _escaped(text: str, line_start: bool) -> str:
    escaped = _SPECIAL.sub(r"\\\g<0>", text)
    if MATH.search(text):
        escaped = escaped.replace("$", "\\$")
    if line_start and (match := _LINE_START.match(text)):
        place = match.end() if match[0].isdigit() else 0
        escaped = escaped[:place] + "\\" + escaped[place:]
    return escaped
