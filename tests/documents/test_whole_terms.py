"""Sentences in pieces: no piece holds half a term."""

from __future__ import annotations

import re

from fake_translators import Recorder
from hypothesis import given
from hypothesis import strategies as st

from termweave.documents.segments import Kind, Mark, Part, Segment, Text
from termweave.documents.translation import SegmentTranslator
from termweave.documents.whole_terms import beside_terms


class OldYard:
    def places(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\bold yard\b", text)]

    def wants(self, text: str) -> bool:
        return bool(self.places(text))


def parts(text: str) -> list[Part]:
    """`<b>` and `</b>` are a pair, `#` is a mark that is a word."""
    found: list[Part] = []
    for piece in re.split(r"(</?\w>|#)", text):
        if piece == "#":
            found.append(Mark(Kind.WORD, "#"))
        elif piece.startswith("<"):
            kind = Kind.CLOSE if piece.startswith("</") else Kind.OPEN
            found.append(Mark(kind, piece, ord(piece.strip("</>"))))
        elif piece:
            found.append(Text.plain(piece))
    return found


def moved(text: str) -> str:
    return "".join(part.source or "" for part in beside_terms(parts(text), OldYard()))


def test_marks_go_to_the_side_they_belong_to() -> None:
    assert moved("the old <b>yard is</b> wide") == "the <b>old yard is</b> wide"
    assert moved("<b>the old</b> yard is wide") == "<b>the old yard</b> is wide"
    assert moved("<b>old</b> <i>yard</i>") == "<b>old yard</b><i></i>"
    assert moved("an <b>old yard</b>, <b>old</b> #yard") == "an <b>old yard</b>, <b>old</b> #yard"


@given(st.lists(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "old", " ", "yard", "#"]), max_size=12).map("".join))
def test_text_and_order_of_marks_stay(text: str) -> None:
    result = moved(text)
    assert re.sub("<.*?>", "", result) == re.sub("<.*?>", "", text)
    assert re.findall("<.*?>", result) == re.findall("<.*?>", text)
    assert result.count("old yard") >= len(OldYard().places(re.sub("<.*?>", "", text)))


def test_pieces_keep_terms_and_punctuation() -> None:
    recorder = Recorder(lambda lines: [re.sub("<.*?>", "", line).upper() for line in lines])
    again: list[str] = []
    translator = SegmentTranslator(
        recorder, "en", terms=OldYard(), settled=lambda unused, left: again.extend([*unused, *left])
    )
    [result] = translator([Segment(tuple(parts("see the old <b>yard</b>, then go")))])
    assert "".join(part.source or part.shown for part in result.parts) == "SEE THE <b>OLD YARD</b>, THEN GO"
    assert recorder.lines == ["see the old <1>yard</1>, then go", "see the", "old yard", "then go"]
    assert again == ["see the old <1>yard</1>, then go"]


def test_lines_of_segments_that_stay_are_told() -> None:
    told: list[tuple[list[str], list[str]]] = []
    translator = SegmentTranslator(Recorder(), "en", settled=lambda unused, left: told.append((unused, left)))
    segments = [Segment((Text.plain("One here. Two here."),)), Segment((Text.plain("Three."),))]
    results = list(translator(segments, check=lambda _, segment: "TWO" not in segment.text))
    assert results[0] == segments[0]
    assert told == [([], ["One here.", "Two here."])]
