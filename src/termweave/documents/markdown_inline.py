"""Where the text of a paragraph stands in Markdown, to the character.

markdown-it-py knows what a piece of a paragraph is, but not where it stood. Its rules do while they are at work, so
each of them is wrapped in one that notes the place. Between those places there is plain text.

Footnotes, math and definition lists are text to CommonMark, and would be translated and escaped. Rules of our own, at
the end of this file, find them; nothing is rendered by them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from termweave.documents.segments import Kind, Mark, Part, Text

_Rule = Callable[[StateInline, bool], bool]
_TAG_NAME = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)")
_IN_LABEL = re.compile(r"\\([!-/:-@\[-`{-~])|&\#?\w{1,32};")
_REFERENCE = re.compile(r"\]\s?(?:\[\s*\])?")
# Money is no formula: the first dollar has no space behind it, the last has none before it and no word behind it.
MATH = re.compile(
    r"""
    \$\$(?:[^$\\]|\\.)++\$\$
  | (?<![\w$])\$`[^`$]++`\$(?!\w)
  | (?<![\w$])\$(?![\s$])(?:[^$\\`]|\\.)++(?<!\s)\$(?![\w${])
    """,
    re.VERBOSE | re.DOTALL,
)
TASK_BOX = re.compile(r"\[[ xX]\][ \t]+(?=\S)")
_FOOTNOTE = re.compile(r"\[\^[^\s\[\]^]++\]")
_FOOTNOTE_LABEL = re.compile(r"\[\^[^\s\[\]^]++\]:[ \t]*")
_DEFINITION = re.compile(r":[ \t]+(?=\S)")
_NEXT_DEFINITION = re.compile(r"\n[ \t]*:[ \t]+(?=\S)")
_TERM_END = re.compile(r"\n[ \t]*")
_EMPTY_TAGS = frozenset({"br", "hr", "img", "input", "wbr"})


@dataclass(frozen=True)
class Place:
    """A piece of a paragraph that is not plain text: characters `start` to `end` of its content."""

    start: int
    end: int
    part: Part


class InlineParser:
    """Finds the places of marks and escaped characters in the content of a paragraph."""

    def __init__(self) -> None:
        self.markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        _extend(self.markdown)
        self.markdown.core.ruler.disable(["inline", "text_join"])
        self._state: StateInline | None = None
        self._notes: list[tuple[str, int, int, list[Token]]] = []
        self._labels: dict[int, int] = {}
        for rule in self.markdown.inline.ruler.__rules__:
            if rule.enabled:
                self.markdown.inline.ruler.at(rule.name, self._noting(rule.name, rule.fn))
        self.markdown.inline.ruler2.disable("fragments_join")  # it would merge pieces whose places are known

    def blocks(self, text: str, environment: dict[str, object]) -> list[Token]:
        """The blocks of a document. Those of type `inline` hold the text."""
        return self.markdown.parse(text, environment)

    def is_paragraph(self, content: str) -> bool:
        """Would the content be a paragraph, were it to stand alone? A comment at its beginning makes a block of it."""
        return [token.type for token in self.blocks(content, {})] == ["paragraph_open", "inline", "paragraph_close"]

    def places(self, content: str, environment: dict[str, object]) -> list[Place]:
        """In order, without overlaps."""
        self._parsed(content, environment)
        found: list[Place] = []
        for name, start, end, pushed in self._notes:
            found.extend(self._described(name, start, end, pushed, content))
        return _outermost(sorted(found, key=lambda place: (place.start, -place.end)))

    def outline(self, content: str, environment: dict[str, object]) -> tuple[list[str], str]:
        """What a reader gets: the marks in order, and the text without them."""
        marks: list[str] = []
        text: list[str] = []
        in_address = False  # <http://…> is a link whose text is no text of the paragraph
        for token in self._parsed(content, environment):
            if token.type in ("text", "text_special") and not in_address:
                text.append(token.content)
            elif token.type == "softbreak":
                text.append(" ")
            elif token.type == "image" and _in_label(token) is not None:
                text += [child.content for child in token.children or ()]
                marks.append(f"image {token.attrs}")
            else:
                in_address = token.type == "link_open" and token.markup == "autolink"
                marks.append(f"{token.type} {token.markup} {token.attrs} {token.content}")
        return marks, "".join(text)

    def _parsed(self, content: str, environment: dict[str, object]) -> list[Token]:
        state = StateInline(content, self.markdown, environment, [])
        self._state, self._notes, self._labels = state, [], {}
        self.markdown.inline.tokenize(state)
        for rule in self.markdown.inline.ruler2.getRules(""):
            rule(state)
        self._state = None
        return state.tokens

    def _noting(self, name: str, rule: _Rule) -> _Rule:
        def noted(state: StateInline, silent: bool) -> bool:
            start, before = state.pos, len(state.tokens)
            text_waits = bool(state.pending)
            matched = rule(state, silent)
            if matched and not silent and state is self._state:
                pushed = state.tokens[before + text_waits :]  # pushing flushes the text before, as a token of its own
                self._notes.append((name, start, state.pos, pushed))
                if name in ("link", "image"):
                    self._labels[start] = self._label_end(state, start + (name == "image"))
            return matched

        return noted

    def _label_end(self, state: StateInline, bracket: int) -> int:
        position = state.pos
        end: int = self.markdown.helpers.parseLinkLabel(state, bracket, state.src[bracket - 1 : bracket] != "!")
        state.pos = position
        return end

    def _described(self, name: str, start: int, end: int, pushed: list[Token], content: str) -> list[Place]:
        source = content[start:end]
        last = pushed[-1].type if pushed else ""
        part: Part | None = None
        if name in ("emphasis", "strikethrough"):
            return _delimiters(start, pushed)
        if name in ("link", "image"):
            return self._linked(pushed[-1], start, end, content)
        if name == "newline" or (name == "escape" and last == "hardbreak"):
            part = Mark(Kind.BREAK, source) if last == "hardbreak" else Text(" ", source)
        elif name == "escape" and pushed and len(pushed[-1].content) == 1:
            part = Text(pushed[-1].content, source)
        elif name == "entity" and len(shown := unescape(source)) == 1:
            part = Text(shown, source)
        elif name == "html_inline":
            part = _tag(source)
        elif name == "definition":
            part = Mark(Kind.BREAK, source)
        elif name == "footnote":
            part = Mark(Kind.WORD, source, is_note=True)
        elif name in ("entity", "autolink", "math") or (name == "backticks" and last == "code_inline"):
            part = Mark(Kind.WORD, source)
        return [Place(start, end, part)] if part is not None else []

    def _linked(self, token: Token, start: int, end: int, content: str) -> list[Place]:
        is_image = token.type == "image"
        first = start + (2 if is_image else 1)
        label_end = self._labels[start]
        label = content[first:label_end]
        inner = _in_label(token) if is_image else []
        if label_end < first or inner is None:
            return [Place(start, end, Mark(Kind.WORD, content[start:end]))]
        closing = content[label_end:end]
        # A link that is found by its own text must keep that text as its label when the text changes.
        rewritten = f"][{label}]" if _REFERENCE.fullmatch(closing) else ""
        identity = -start - 1  # apart from those of tags
        return [
            Place(start, first, Mark(Kind.OPEN, content[start:first], identity)),
            *(Place(first + own.start, first + own.end, own.part) for own in inner),
            Place(label_end, end, Mark(Kind.CLOSE, closing, identity, rewritten=rewritten)),
        ]


def _in_label(image: Token) -> list[Place] | None:
    """The escaped characters in the label of an image; None if it holds more than text, and is not to be touched."""
    label, children = image.content, image.children or []
    found = [(*match.span(), match[1] or unescape(match[0])) for match in _IN_LABEL.finditer(label)]
    places = [Place(start, end, Text(shown, label[start:end])) for start, end, shown in found if len(shown) == 1]
    text, position = "", 0
    for place in places:
        text += label[position : place.start] + place.part.shown
        position = place.end
    is_text = "\n" not in label and all(child.type in ("text", "text_special") for child in children)
    return places if is_text and text + label[position:] == "".join(child.content for child in children) else None


def _delimiters(start: int, pushed: list[Token]) -> list[Place]:
    """Stars, underscores and tildes that became marks. Of a doubled one, one token is the mark, its twin is empty."""
    places: list[Place] = []
    position = start
    for token in pushed:
        length = 2 if token.type.startswith("s_") or token.content == "~~" else 1
        if token.nesting:
            size = len(token.markup)
            opens = token.nesting == 1
            left = position + length - size if opens else position
            kind = Kind.OPEN if opens else Kind.CLOSE
            places.append(Place(left, left + size, Mark(kind, token.markup, _kind_number(token.markup))))
        position += length
    return places


def _kind_number(markup: str) -> int:
    return -(1 << 40) - ord(markup[0]) * 4 - len(markup)  # apart from those of links and tags


def _tag(source: str) -> Mark:
    match = _TAG_NAME.match(source)
    if match is None or source.endswith("/>") or match[1].lower() in _EMPTY_TAGS:
        return Mark(Kind.WORD, source)
    kind = Kind.CLOSE if source.startswith("</") else Kind.OPEN
    return Mark(kind, source, int.from_bytes(match[1].lower().encode()))


def _outermost(places: list[Place]) -> list[Place]:
    result: list[Place] = []
    for place in places:
        if not result or place.start >= result[-1].end:
            result.append(place)
    return result


def _extend(markdown: MarkdownIt) -> None:
    """Teach a parser of CommonMark these rules. Tokens are named after what they are: `math` and so on."""
    markdown.inline.ruler.before("newline", "definition", _definition)
    markdown.inline.ruler.before("escape", "math", _math)
    markdown.inline.ruler.before("link", "footnote", _footnote)
    markdown.block.ruler.before("fence", "math_block", _math_block, {"alt": ["paragraph", "reference", "blockquote"]})
    markdown.block.ruler.before("reference", "footnote_block", _footnote_block, {"alt": ["paragraph", "reference"]})


def _math(state: StateInline, silent: bool) -> bool:
    return state.src[state.pos] == "$" and _kept(state, silent, "math", MATH.match(state.src, state.pos, state.posMax))


def _footnote(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "[":
        return False
    match = _FOOTNOTE.match(state.src, state.pos, state.posMax)
    if match and silent:  # the text of a link may hold brackets, but no token that begins with one: that is a link too
        state.pos += 1
        return True
    return _kept(state, silent, "footnote", match)


def _definition(state: StateInline, silent: bool) -> bool:
    """The colon at the start of a line, with the line feed before it; and the ends of the lines with terms above it."""
    character = state.src[state.pos]
    if character == ":" and state.pos == 0:
        return _kept(state, silent, "definition", _DEFINITION.match(state.src))
    if character != "\n":
        return False
    match = _NEXT_DEFINITION.match(state.src, state.pos)
    if match is None and state.pos < _first_definition(state):
        match = _TERM_END.match(state.src, state.pos)
    return _kept(state, silent, "definition", match)


def _first_definition(state: StateInline) -> int:
    """Where the first line with a definition begins; looked up once a paragraph, which may have many lines."""
    known: object = state.env.get("first definition")
    if isinstance(known, tuple) and known[0] == state.src:
        return int(known[1])
    match = None if _DEFINITION.match(state.src) else _NEXT_DEFINITION.search(state.src)
    place = match.start() if match else -1
    state.env["first definition"] = (state.src, place)
    return place


def _kept(state: StateInline, silent: bool, name: str, match: re.Match[str] | None) -> bool:
    if match is None:
        return False
    if not silent:
        state.push(name, "", 0).content = match[0]
    state.pos = match.end()
    return True


def _math_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """From a line that begins with two dollars to one that ends with them; blank lines do not end it."""
    text = _line(state, first)
    if state.is_code_block(first) or not text.startswith("$$"):
        return False
    since, until = state.env.get("math without end", (last, 0))
    if since <= first and last <= until:  # looked for in vain already; once is enough for any number of such lines
        return False
    end = first
    closed = len(text) > 4 and text.endswith("$$")
    if not closed and "$$" in text[2:]:  # a formula in a sentence
        return False
    while not closed:
        end += 1
        if end >= last:
            state.env["math without end"] = (first, last)
            return False
        if state.sCount[end] < min(state.blkIndent, state.sCount[first]) and not state.isEmpty(end):
            return False
        closed = _line(state, end).endswith("$$")
    if not silent:
        state.push("math_block", "", 0).map = [first, end + 1]
        state.line = end + 1
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()


def _footnote_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A footnote holds blocks, like the item of a list: those behind its label and all that is indented by four."""
    start = state.bMarks[first] + state.tShift[first]
    match = _FOOTNOTE_LABEL.match(state.src, start, state.eMarks[first])
    if match is None or state.is_code_block(first):
        return False
    if silent:
        return True
    token = state.push("footnote_open", "", 1)
    token.map = lines = [first, first]
    before = state.bMarks[first], state.tShift[first], state.sCount[first], state.blkIndent, state.parentType
    state.bMarks[first], state.tShift[first] = match.end(), 0
    state.blkIndent += 4
    state.sCount[first] = state.blkIndent
    state.parentType = "footnote"
    state.md.block.tokenize(state, first, last)
    state.bMarks[first], state.tShift[first], state.sCount[first], state.blkIndent, state.parentType = before
    lines[1] = state.line
    state.push("footnote_close", "", -1)
    return True
