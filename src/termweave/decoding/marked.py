"""Sentences with paired marks, `Press <1>this</1> now`: translated without them, the marks put where they belong.

A model that must produce tags among its words pays for them in quality, and one that never saw any goes astray. So the
sentence is translated as if they were not there. Which output words belong to the words inside a pair is read off the
decoder's attention, and off the receipts where terms are, which are certain. Of all runs of output words, a pair gets
the one with the most attention to its inside and the least to the rest of the sentence:

| output word           | Drücken | Sie  | jetzt | den | roten | Knopf |
|-----------------------|---------|------|-------|-----|-------|-------|
| attention to inside   | .1      | .1   | .0    | .8  | .9    | .9    |
| gain: twice that − 1  | −.8     | −.8  | −1    | .6  | .8    | .8    |

Marks that stand alone, `<2/>`, are words to the sentence: they stay in it, and are kept by the search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from termweave.constraints.protection import find_protected
from termweave.decoding.terminology import Receipt, told
from termweave.decoding.translator import Translation, Translator
from termweave.text.words import Span, normalise, split_words

_MARK = re.compile(r"<(/?)(\d{1,6})>")
WHOLE = ""  # stands for the sentence where a pair's name is expected
LAYER = -2  # of the decoder: the last but one shows best which word is being translated


@dataclass(frozen=True)
class Pair:
    """The text between two marks of a sentence from which all pairs were taken out.

    A pair may begin in an earlier sentence or end in a later one: here it then reaches to the end of this one.
    """

    name: str
    inside: Span
    opens: bool = True
    closes: bool = True
    space_after: bool = False  # a pair around nothing that leads the sentence, such as an icon, keeps its distance

    def around(self, text: str) -> str:
        return f"<{self.name}>" * self.opens + text + f"</{self.name}>" * self.closes + " " * self.space_after


@dataclass(frozen=True)
class MarkedSentence:
    text: str  # without the marks, normalised
    pairs: tuple[Pair, ...]  # in the order they open

    @staticmethod
    def of(line: str) -> MarkedSentence | None:
        """None where there is nothing to do, or marks make no sense: such lines are translated as they are."""
        matches = list(_MARK.finditer(line))
        if not matches:
            return None
        pieces: list[str] = []
        position = 0
        opened: dict[str, int] = {}
        pairs: dict[str, Pair] = {}
        between = ""  # the marks since the last piece of text, as their slashes or dots
        for match in matches:
            piece = line[position : match.start()]
            pieces.append(_apart(pieces, between, piece))
            position = match.end()
            place, (closing, name) = _length("".join(pieces)), match.groups()
            between = ("" if piece else between) + (closing or ".")
            if not closing and name not in opened:
                opened[name] = place
            elif closing and name not in pairs:
                leads = place == 0 and line[position : position + 1] == " "
                pairs[name] = Pair(name, (opened.get(name, 0), place), name in opened, space_after=leads)
            else:
                return None
        text = normalise("".join(pieces) + _apart(pieces, between, line[position:]))
        for name in opened.keys() - pairs.keys():
            pairs[name] = Pair(name, (opened[name], len(text)), closes=False)
        in_order = [*(pairs[name] for name in opened), *(pair for pair in pairs.values() if not pair.opens)]
        return MarkedSentence(text, tuple(sorted(in_order, key=lambda pair: (pair.inside[0], -pair.inside[1]))))

    def with_marks(self, output: str, words: Sequence[Span], attention: Tensor, source: Sequence[Span]) -> str | None:
        """The output with its marks; None if it has no word to put them at.

        words, source: spans of the output's and the sentence's units; attention: between them, (output, source).
        """
        spans: dict[str, Span] = {}
        for pair in self.pairs:
            if pair.inside[0] == pair.inside[1] and len(words):
                spans[pair.name] = (_where(pair.inside[0], words, attention, source),) * 2
                continue
            place = _best_run(_gains(pair, source, attention))
            if place is None:
                return None
            start = words[place[0]][0] if pair.opens else 0
            spans[pair.name] = (start, words[place[1] - 1][1] if pair.closes else len(output))
        return self._marked(output, (0, len(output)), WHOLE, spans, self._inner())

    def around(self, output: str) -> str:
        """The output with its marks at its ends, where no better place is known."""
        return self._marked(
            output, (0, len(output)), WHOLE, {pair.name: (0, len(output)) for pair in self.pairs}, self._inner()
        )

    def _marked(
        self, output: str, around: Span, outer: str, spans: dict[str, Span], inner: dict[str, list[Pair]]
    ) -> str:
        """A part of the output with the pairs that stand directly inside `outer`.

        Where two would cross, the later one gets what the earlier one leaves, be it nothing: a mark around nothing
        costs less than a sentence that is torn into pieces.
        """
        pieces, position = [], around[0]
        for pair in sorted(inner.get(outer, ()), key=lambda pair: spans[pair.name]):
            start = min(max(spans[pair.name][0], position), around[1])
            end = max(min(spans[pair.name][1], around[1]), start)
            pieces += [output[position:start], pair.around(self._marked(output, (start, end), pair.name, spans, inner))]
            position = end
        return "".join([*pieces, output[position : around[1]]])

    def _inner(self) -> dict[str, list[Pair]]:
        """Which pairs stand directly inside each one, and inside the whole sentence."""
        inner: dict[str, list[Pair]] = {}
        for index, pair in enumerate(self.pairs):
            start, end = pair.inside
            around = (
                other for other in reversed(self.pairs[:index]) if other.inside[0] <= start and end <= other.inside[1]
            )
            inner.setdefault(next((other.name for other in around), WHOLE), []).append(pair)
        return inner


def certain(attention: Tensor, words: Sequence[Span], source: Sequence[Span], receipts: Sequence[Receipt]) -> Tensor:
    """The attention, corrected where a receipt tells what an output word is the translation of."""
    attention = attention.clone()
    for receipt in receipts:
        if receipt.target_span is None:
            continue
        inside = torch.tensor([_overlaps(span, receipt.source_span) for span in source], dtype=attention.dtype)
        for index, word in enumerate(words):
            if _overlaps(word, receipt.target_span) and inside.any():
                attention[index] = inside / inside.sum()
    return attention


def word_attention(attention: Tensor, pieces: Sequence[Span], text: str, language: str) -> tuple[list[Span], Tensor]:
    """From pieces of the output to its words: their spans, and the sum of what their pieces look at."""
    words = _whole(split_words(text, language), text)
    rows = [
        sum((attention[index] for index, piece in enumerate(pieces) if _overlaps(piece, word)), torch.zeros(()))
        for word in words
    ]
    summed = torch.stack([row.expand(attention.shape[1]) for row in rows]) if rows else attention[:0]
    return words, summed / summed.sum(dim=1, keepdim=True).clamp(min=1e-9)


def _whole(words: Sequence[Span], text: str) -> list[Span]:
    """The words, with what is kept as it is, such as `%s` or an address, as one: no mark may go into it."""
    whole: list[Span] = []
    for start, end in sorted([*words, *((span.start, span.end) for span in find_protected(text))]):
        if whole and start < whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((start, end))
    return whole


def _gains(pair: Pair, source: Sequence[Span], attention: Tensor) -> list[float]:
    inside = torch.tensor([_overlaps(span, pair.inside) for span in source])
    gains: list[float] = (2 * attention[:, inside].sum(dim=1) - 1).tolist()
    return gains


def _where(place: int, words: Sequence[Span], attention: Tensor, source: Sequence[Span]) -> int:
    """Where nothing but marks stands in the output: behind the translation of the word it stands behind."""
    before = [index for index, span in enumerate(source) if span[1] <= place]
    return words[int(attention[:, before[-1]].argmax())][1] if before else words[0][0]


def _apart(pieces: Sequence[str], between: str, piece: str) -> str:
    """A piece of text, with a space before it where marks alone keep it from becoming one word with what is before it.

    They do if one element ends and another begins, as cells and items do, and between a word and a number, as that of
    a footnote. Else they stand inside of a word.
    """
    before = next((text[-1] for text in reversed(pieces) if text), "")
    if not (between and before.isalnum() and piece[:1].isalnum()):
        return piece
    return f" {piece}" if "/." in between or before.isdigit() != piece[0].isdigit() else piece


def _best_run(gains: Sequence[float]) -> Span | None:
    """The neighbouring words with the largest sum; at least one."""
    best: tuple[float, int, int] | None = None
    for start in range(len(gains)):
        total = 0.0
        for end in range(start, len(gains)):
            total += gains[end]
            if best is None or total > best[0]:
                best = (total, start, end + 1)
    return None if best is None else best[1:]


def _overlaps(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _length(text: str) -> int:
    """Of the text when it is normalised and goes on."""
    return len(normalise(text + "x")) - 1 if text.strip() else 0


def with_marks(
    translator: Translator,
    marked: Sequence[MarkedSentence | None],
    results: Sequence[Translation],
    direction: str,
) -> list[str]:
    """Translated texts, with their marks where sentences had some; without, where these find no place."""
    return [
        result.text if own is None else place_marks(translator, own, result, direction) or result.text
        for own, result in zip(marked, results, strict=True)
    ]


def place_marks(translator: Translator, marked: MarkedSentence, result: Translation, direction: str) -> str | None:
    """The translation of a marked sentence with its marks, or None if they find no place."""
    language = direction.partition("-")[2]
    # An output that is no proper text has no places that could be told; nor has one whose source was replaced.
    if normalise(result.text) != result.text or translator.model.config.replaces_source:
        return None
    seen = translator.inspect(
        marked.text, result.text, told(result.receipts), direction=direction if len(translator.directions) > 1 else None
    )
    layer = max(LAYER, -len(seen.source))
    attention = seen.source[layer].mean(dim=0)[:-1]  # without the end mark of the output
    source = translator.pieces_of(marked.text, "source")
    output = translator.pieces_of(result.text, "target")
    attention = attention[:, attention.shape[1] - 1 - len(source) : -1]  # nor the tag and the end mark of the source
    words, by_word = word_attention(attention, output, result.text, language)
    by_word = certain(by_word, words, source, result.receipts)
    return marked.with_marks(result.text, words, by_word, source)
