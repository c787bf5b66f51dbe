"""HTML (.html): text and the attributes readers see are replaced at their places; every other byte stays.

Inline tags move with their words, as tokens. Scripts, styles, code, preformatted text, form contents and everything
under `translate="no"` (or class `notranslate`) stay as they are; inside a sentence they count as a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape, unescape
from html.entities import html5
from pathlib import Path

from termweave.documents.document import Options, Through, read_whole
from termweave.documents.placeholders import text_parts
from termweave.documents.segments import Kind, Mark, Part, Segment, Text, fixed, in_pairs
from termweave.documents.tags import Piece, Type, pieces


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins mark q ruby rp rt s small span strike strong sub sup"
    " time tt u"
)
_KEPT = frozenset({"code", "kbd", "samp", "var", "pre", "math", "svg", "object", "canvas", "template"})
_KEPT_INLINE = frozenset({"code", "kbd", "samp", "var", "math", "svg"})
_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_READ = frozenset({"title", "alt", "placeholder", "aria-label"})
# Elements whose end may be left out: what comes to an end where such an element begins, within which other element.
_CLOSES = {
    "li": ({"li"}, {"ul", "ol", "menu"}),
    "dt": ({"dt", "dd"}, {"dl"}),
    "dd": ({"dt", "dd"}, {"dl"}),
    "option": ({"option"}, {"select", "datalist"}),
    "tr": ({"tr", "td", "th"}, {"table"}),
    "td": ({"td", "th"}, {"table", "tr"}),
    "th": ({"td", "th"}, {"table", "tr"}),
}
_ENDS_PARAGRAPH = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3"
    " h4 h5 h6 header hgroup hr main menu nav ol p pre search section table ul"
)
_DEEPEST = 256  # how far up an element is looked for whose end was left out
_WITHOUT_SEMICOLON = "|".join(name for name in html5 if not name.endswith(";"))
_ENTITY = re.compile(
    rf"(&(?:(?:#\d{{1,7}}|#[xX][0-9a-fA-F]{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});|(?:{_WITHOUT_SEMICOLON})(?![\w;=])))"
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(r"<\?xml\s[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)")


class HtmlText:
    """A page, or a piece of one."""

    def __init__(self, text: str, options: Options) -> None:
        self.options = options
        self._text = text
        self.total = len(text.encode())

    def translated(self, through: Through) -> Iterator[bytes]:
        tags = dict(self._tags(through))
        for segment in through(_segments(self._text, tags, self.options.ignored_tags)):
            yield "".join(self._written(part) for part in segment.parts).encode()

    def _written(self, part: Part, quote: str = "") -> str:
        """A part as this page has it: new text is ASCII where the page says that it is not UTF-8."""
        text = written(part, quote)
        is_new = isinstance(part, Text) and part.source is None
        return text.encode("ascii", "xmlcharrefreplace").decode() if is_new and self._is_foreign else text

    @cached_property
    def _is_foreign(self) -> bool:
        """Does the page declare another encoding? Its bytes are ASCII then, and its readers would misread UTF-8."""
        declared = (name for piece in pieces(self._text) for name in _encodings(piece, self._text))
        return next(declared, "utf-8").lower() not in ("utf-8", "utf8")

    def _tags(self, through: Through) -> Iterator[tuple[int, str]]:
        """Start tags with something to change, by their place. They come first, for they are marks of the text."""
        asked = list(self._attributes())
        results = through(
            Segment((quote, *entity_parts(self._text[start:end]), quote)) for _, start, end, quote in asked
        )
        changes: dict[int, list[tuple[int, int, str]]] = {}
        ends: dict[int, int] = {}
        for (piece, start, end, quote), segment in zip(asked, results, strict=True):
            value = "".join(self._written(part, quote.source or '"') for part in segment.parts[1:-1])
            if not quote.source and value != self._text[start:end]:
                value = f'"{value}"'
            changes.setdefault(piece.start, []).append((start, end, value))
            ends[piece.start] = piece.end
        for piece, start, end in self._language_places():
            changes.setdefault(piece.start, []).append((start, end, escape(self.options.target_language or "")))
            ends[piece.start] = piece.end
        for place, edits in changes.items():
            tag, position = "", place
            for start, end, value in sorted(edits):
                tag += self._text[position:start] + value
                position = end
            yield place, tag + self._text[position : ends[place]]

    def _attributes(self) -> Iterator[tuple[Piece, int, int, Mark]]:
        ignored = self.options.ignored_tags
        for piece, is_kept in _with_state(self._text, ignored):
            if piece.type is not Type.START or is_kept or _is_kept(piece, ignored) is True:
                continue
            for attribute in piece.attributes:
                if attribute.name in _READ and attribute.value.strip():
                    end = attribute.start + len(attribute.value)
                    yield piece, attribute.start, end, fixed(attribute.quote)

    def _language_places(self) -> Iterator[tuple[Piece, int, int]]:
        """The language of the whole page, where it names one."""
        if self.options.target_language is None:
            return
        for piece in pieces(self._text):
            if piece.type is Type.START and piece.name == "html":
                for attribute in piece.attributes:
                    if attribute.name in ("lang", "xml:lang") and attribute.value:
                        yield piece, attribute.start, attribute.start + len(attribute.value)
                return


class Html(HtmlText):
    """A file of it."""

    def __init__(self, path: Path, options: Options) -> None:
        super().__init__(read_whole(path), options)


def _encodings(piece: Piece, text: str) -> Iterator[str]:
    """The encoding that a piece of a page declares, if it does."""
    if piece.type is Type.START and piece.name == "meta":
        if charset := piece.attribute("charset"):
            yield charset.value.strip()
        content = piece.attribute("content")
        if piece.attribute("http-equiv") and content and (match := _CHARSET.search(content.value)):
            yield match[1]
    elif piece.type is Type.OTHER and (match := _XML_ENCODING.match(text, piece.start, piece.end)):
        yield match[1]


def _is_kept(piece: Piece, ignored: frozenset[str]) -> bool | None:
    """Does a start tag say that what it holds is not to be translated? None: it says nothing."""
    if piece.name in ignored:
        return True
    translate = piece.attribute("translate")
    if translate is not None and translate.value.lower() in ("no", "yes", ""):
        return translate.value.lower() == "no"
    css = piece.attribute("class")
    if piece.name in _KEPT or (css is not None and "notranslate" in css.value.split()):
        return True
    return None


@dataclass
class _Open:
    name: str
    is_kept: bool


def _with_state(text: str, ignored: frozenset[str]) -> Iterator[tuple[Piece, bool]]:
    """Each piece, and whether it is inside something that is kept as it is; the tags of that thing itself are not."""
    stack: list[_Open] = []
    counts: dict[str, int] = {}  # open elements by name, so that lonely end tags cost no search

    def pop() -> None:
        counts[stack.pop().name] -= 1

    for piece in pieces(text):
        if piece.type is Type.END and counts.get(piece.name):
            while stack[-1].name != piece.name:
                pop()
            pop()
        elif piece.type is Type.START:
            closed, within = _CLOSES.get(piece.name, (set(), set()))
            if piece.name in _ENDS_PARAGRAPH and counts.get("p"):
                closed = closed | {"p"}
            if any(counts.get(name) for name in closed):
                for _ in range(_implied_ends(stack, closed, within)):
                    pop()
        is_kept = bool(stack) and stack[-1].is_kept
        yield piece, is_kept
        if piece.type is Type.START and piece.name not in _VOID and not piece.is_empty:
            own = _is_kept(piece, ignored)
            stack.append(_Open(piece.name, is_kept if own is None else own))
            counts[piece.name] = counts.get(piece.name, 0) + 1


def _implied_ends(stack: list[_Open], closed: set[str], within: set[str]) -> int:
    """How many elements end where a tag begins that ends one of `closed`, if that is inside the nearest of `within`."""
    for depth, element in enumerate(reversed(stack[-_DEEPEST:]), start=1):
        if element.name in closed:
            return depth
        if element.name in within or element.name in ("table", "body"):
            break
    return 0


def _segments(text: str, tags: dict[int, str], ignored: frozenset[str]) -> Iterator[Segment]:
    """Paragraphs and the like: they end at every tag that is not inline."""
    parts: list[Part] = []
    weight = 0
    kept: list[str] = []  # an inline element that is kept, so far
    kept_name = ""
    words = _INLINE | _KEPT_INLINE | (ignored - _ENDS_PARAGRAPH)  # what is kept of these counts as a word
    for piece, is_kept in _with_state(text, ignored):
        source = tags.get(piece.start, text[piece.start : piece.end])
        weight += len(text[piece.start : piece.end].encode())
        if kept and (is_kept or (piece.type is Type.END and piece.name == kept_name)):
            kept.append(source)
            if not is_kept:
                parts.append(Mark(Kind.WORD, "".join(kept)))
                kept = []
            continue
        if kept:  # it ends without an end tag of its own, or holds something to translate: it is no word
            parts.append(fixed("".join(kept)))
            kept = []
        begins = piece.type is Type.START and not is_kept and _is_kept(piece, ignored) is True and not piece.is_empty
        if begins and piece.name in words:
            kept, kept_name = [source], piece.name
            continue
        parts.extend([fixed(source)] if is_kept else _piece(piece, source))
        if isinstance(parts[-1], Mark) and parts[-1].kind is Kind.BREAK:
            yield Segment(tuple(in_pairs(parts, lonely=Kind.BREAK)), weight)
            parts, weight = [], 0
    if kept:
        parts.append(fixed("".join(kept)))
    yield Segment(tuple(in_pairs(parts, lonely=Kind.BREAK)), weight)


def _piece(piece: Piece, source: str) -> list[Part]:
    if piece.type is Type.TEXT:
        return list(entity_parts(source))
    if piece.type is Type.OTHER:
        return [Mark(Kind.WORD, source) if source.startswith("<!--") and source.endswith("-->") else fixed(source)]
    if piece.name == "wbr":  # a place to break a word of the source, which is one word all the same
        return [Text("", source)]
    if piece.name == "img" or (piece.name in _INLINE and piece.is_empty):
        return [Mark(Kind.WORD, source)]
    if piece.name in _INLINE:
        kind = Kind.OPEN if piece.type is Type.START else Kind.CLOSE
        return [Mark(kind, source, int.from_bytes(piece.name.encode()))]
    return [fixed(source)]


def entity_parts(source: str) -> Iterator[Part]:
    """Text with its entities; one that stands for several characters, or for none, stays as it is."""
    for index, piece in enumerate(_ENTITY.split(source)):
        if index % 2 == 0:
            yield from text_parts(piece)
        elif len(shown := unescape(piece)) == 1:
            yield Text(shown, piece)
        else:
            yield Mark(Kind.WORD, piece)


def written(part: Part, quote: str = "") -> str:
    """A part as markup has it."""
    if isinstance(part, Mark) or part.source is not None:
        return part.source or ""
    text = part.shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\u00a0", "&#160;")
    return text.replace(quote, "&quot;" if quote == '"' else "&#39;") if quote else text
