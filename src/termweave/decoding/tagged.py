"""Sentences that stand alone and hold tags: `Das <b>Haus</b> brennt.`

Documents and texts with markup are read by their formats. Here is what is done for a line or a text of which only the
words are known: tags that are pairs are taken out and put back as in `marked.py`, and spans of receipts and constraints
are those of the sentences with their tags. Tags that stand alone (`<br>`, `<name>`) are words, and kept by the search.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from termweave.constraints.protection import find_protected
from termweave.decoding.marked import MarkedSentence, place_marks
from termweave.decoding.terminology import Receipt
from termweave.decoding.translator import Translation, Translator
from termweave.text.words import Span, normalise

_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)")
_NUMBER = re.compile(r"</?(\d{1,6})/?>")
_MARK = re.compile(r"(</?\d{1,6}>)")
# Half of a pair of these belongs to another sentence. Half of any other, such as <file>, is a word of its own.
_INLINE = re.compile(
    "a|abbr|b|bd[io]|big|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strong|su[bp]|tt|u|var"
)


@dataclass(frozen=True)
class TaggedSentence:
    line: str  # as it was given
    marked: MarkedSentence
    tags: tuple[tuple[Span, str], ...]  # where each stands in the line, and the mark that stands for it

    @property
    def text(self) -> str:
        """What is to be translated."""
        return self.marked.text

    @staticmethod
    def of(line: str) -> TaggedSentence | None:
        """None if there is no pair, nor half of one: such lines are translated as they are."""
        tags = _marks(line)
        marked = MarkedSentence.of(_replaced(line, tags)) if tags else None
        return None if marked is None else TaggedSentence(line, marked, tuple(tags))

    def finished(self, translator: Translator, result: Translation, direction: str) -> Translation:
        """The translation of the text, and the others with it, with tags; they are around all of it if need be."""
        placed = place_marks(translator, self.marked, result, direction) if result.text else None
        text, places = self._with_tags(result.text, placed or self.marked.around(result.text))
        source = _places(self.line, [span for span, _ in self.tags], self.text)

        def there(span: Span | None) -> Span | None:
            return None if span is None else (places[span[0]], places[span[1] - 1] + 1)

        def moved(receipt: Receipt) -> Receipt:
            start, end = receipt.source_span
            here = source[start][0], source[end - 1][1]
            return replace(receipt, source_span=here, target_span=there(receipt.target_span))

        return replace(
            result,
            text=text,
            spans=tuple(map(there, result.spans)),
            receipts=tuple(map(moved, result.receipts)),
            others=tuple(self.finished(translator, other, direction) for other in result.others),
        )

    def _with_tags(self, text: str, placed: str) -> tuple[str, list[int]]:
        """From an output with its marks to one with its tags, and where the characters of the bare output are in it."""
        tags = {mark: self.line[start:end] for (start, end), mark in self.tags}
        taken_out = {pair.name for pair in self.marked.pairs}
        pieces, places, length = [], list[int](), 0
        for index, piece in enumerate(_MARK.split(placed)):
            is_mark = index % 2 == 1 and piece.strip("</>") in taken_out
            pieces.append(tags.get(piece, piece) if is_mark else piece)
            for place, character in enumerate("" if is_mark else piece, start=length):
                if len(places) < len(text) and character == text[len(places)]:  # else a space that was added
                    places.append(place)
            length += len(pieces[-1])
        return "".join(pieces), places


def taken_out(sentences: Sequence[str]) -> list[TaggedSentence | None]:
    return [TaggedSentence.of(sentence) for sentence in sentences]


def bare(sentences: Sequence[str], tagged: Sequence[TaggedSentence | None]) -> list[str]:
    """The sentences as they are to be translated."""
    return [sentence if own is None else own.text for sentence, own in zip(sentences, tagged, strict=True)]


def put_back(
    translator: Translator,
    tagged: Sequence[TaggedSentence | None],
    results: Sequence[Translation],
    direction: str,
) -> list[Translation]:
    """The translations of bare sentences, with the tags these had."""
    return [
        result if own is None else own.finished(translator, result, direction)
        for own, result in zip(tagged, results, strict=True)
    ]


def _marks(line: str) -> list[tuple[Span, str]]:
    """The tags to take out, each with its mark: both of a pair have the same number, none of the line's own."""
    found = [
        ((span.start, span.end), match[2].lower(), bool(match[1]))
        for span in find_protected(line)
        if span.kind == "tag" and (match := _TAG.match(line, span.start)) and line[span.end - 2] != "/"
    ]
    partner = _partners([(name, closes) for _, name, closes in found])
    first = max((int(number) for number in _NUMBER.findall(line)), default=0) + 1
    return [
        (span, f"<{'/' * closes}{first + min(index, partner[index])}>")
        for index, (span, _, closes) in enumerate(found)
        if index in partner
    ]


def _partners(tags: Sequence[tuple[str, bool]]) -> dict[int, int]:
    """The other half of each tag, itself if that is in another sentence, by their numbers; words have none."""
    open_tags: list[int] = []
    crossed: Counter[str] = Counter()  # begun within a pair and not ended there
    partner: dict[int, int] = {}
    for index, (name, closes) in enumerate(tags):
        if not closes:
            open_tags.append(index)
        elif any(tags[other][0] == name for other in open_tags):
            while tags[other := open_tags.pop()][0] != name:
                crossed[tags[other][0]] += 1
            partner[index], partner[other] = other, index
        elif crossed[name]:
            crossed[name] -= 1
        elif _INLINE.fullmatch(name):
            partner[index] = index
    return partner | {index: index for index in open_tags if _INLINE.fullmatch(tags[index][0])}


def _replaced(line: str, tags: Sequence[tuple[Span, str]]) -> str:
    pieces, position = [], 0
    for (start, end), mark in tags:
        pieces += [line[position:start], mark]
        position = end
    return "".join([*pieces, line[position:]])


def _places(line: str, tags: Sequence[Span], text: str) -> list[Span]:
    """Where each character of the text stands in the line, which had tags and was not normalised."""
    ends = dict([*tags, *(match.span() for match in _MARK.finditer(line))])
    places: list[Span] = []
    position = 0
    for character in text:
        length = 0
        while position < len(line):
            if position in ends:
                position = ends[position]
                continue
            if character == " " or (length := _length(line, position, character)):
                break
            position += 1  # invisible, or more space than one
        if character == " ":  # it may have been put where a tag was
            length = int(line[position : position + 1].isspace())
        places.append((position, position + length))
        position += length
    return places


def _length(line: str, position: int, character: str) -> int:
    """Of the piece of a line that became a character; letters and their accents may have been apart."""
    if not normalise(line[position]):
        return 0
    lengths = (length for length in (1, 2, 3, 4) if normalise(line[position : position + length]) == character)
    return next(lengths, 0)
