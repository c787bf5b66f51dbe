"""Segments through a translator: sentences, batches, and what happens when tokens do not survive."""

from __future__ import annotations

import pytest
from fake_translators import Recorder, backwards, lose_tokens, same, shout, shout_all
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.documents.segments import Kind, Mark, Part, Segment, Text, fixed, in_pairs
from termweave.documents.translation import SegmentTranslator, translate_text
from termweave.errors import DataError

BOLD, BOLD_END = Mark(Kind.OPEN, "<b>", 1), Mark(Kind.CLOSE, "</b>", 1)


def written(segment: Segment) -> str:
    return "".join(part.shown if isinstance(part, Text) else part.source for part in segment.parts)


def one(*parts: Part, translate=shout, language: str = "en") -> tuple[str, SegmentTranslator]:  # type: ignore[no-untyped-def]
    translator = SegmentTranslator(translate, language)
    [result] = translator([Segment(parts)])
    return written(result), translator


def test_sentences_are_translated_one_by_one_and_space_stays() -> None:
    recorder = Recorder()
    text, _ = one(Text.plain("  One here.   Two here.\t"), translate=recorder)
    assert recorder.lines == ["One here.", "Two here."]
    assert text == "  ONE HERE.   TWO HERE.\t"


def test_no_sentence_goes_across_a_break() -> None:
    recorder = Recorder()
    one(Text.plain("one"), fixed("\n"), Text.plain("two"), translate=recorder)
    assert recorder.lines == ["one", "two"]


def test_figures_and_punctuation_are_not_sent() -> None:
    recorder = Recorder()
    text, _ = one(Text.plain("12.50 – 13 !"), translate=recorder)
    assert (text, recorder.lines) == ("12.50 – 13 !", [])


class Phrases:
    """Terms that are looked for as they are written."""

    def __init__(self, *phrases: str) -> None:
        self.phrases = phrases

    def places(self, text: str) -> list[tuple[int, int]]:
        return [(text.index(phrase), text.index(phrase) + len(phrase)) for phrase in self.phrases if phrase in text]

    def wants(self, text: str) -> bool:
        return bool(self.places(text))


def test_no_sentence_ends_inside_a_term() -> None:
    recorder, terms = Recorder(), Phrases("Quiz! The Game")
    parts = (Text.plain("We play Quiz! "), BOLD, Text.plain("The Game"), BOLD_END, Text.plain(" now. Then we go."))
    list(SegmentTranslator(recorder, "en", terms=terms)([Segment(parts)]))
    assert recorder.lines == ["We play Quiz! <1>The Game</1> now.", "Then we go."]
    assert (
        translate_text("Quiz! The Game ends. So what? 你好！", shout, "en", terms)
        == "QUIZ! THE GAME ENDS. SO WHAT? 你好！"
    )


def test_figures_that_are_a_term_are_sent() -> None:
    recorder = Recorder(lambda lines: ["always" for _ in lines])
    text = translate_text("24/7\n\n12.50\n", recorder, "en", Phrases("24/7"))
    assert (text, recorder.lines) == ("always\n\n12.50\n", ["24/7"])


def test_a_pair_around_the_whole_sentence_is_no_token() -> None:
    recorder = Recorder()
    text, _ = one(BOLD, Text.plain("All of it. "), Text.plain("Go on."), BOLD_END, translate=recorder)
    assert recorder.lines == ["All of it.", "Go on."]
    assert text == "<b>ALL OF IT. GO ON.</b>"


def test_lost_tokens_lead_to_pieces() -> None:
    recorder = Recorder(lose_tokens)
    text, translator = one(
        Text.plain("press "), BOLD, Text.plain("this one"), BOLD_END, Text.plain(" now"), translate=recorder
    )
    assert text == "PRESS <b>THIS ONE</b> NOW"
    assert recorder.lines == ["press <1>this one</1> now", "press", "this one", "now"]
    assert translator.counts.in_pieces == 1


def test_reordered_tokens_lead_to_pieces() -> None:
    text, translator = one(Text.plain("press "), BOLD, Text.plain("this one"), BOLD_END, translate=backwards)
    assert text == "press <b>one this</b>"
    assert translator.counts.in_pieces == 1


def test_words_may_move_with_their_marks() -> None:
    def swap(lines: list[str]) -> list[str]:
        return [line.replace("press <1>this</1>", "<1>dies</1> drücken") for line in lines]

    text, _ = one(Text.plain("press "), BOLD, Text.plain("this"), BOLD_END, translate=swap)
    assert text == "<b>dies</b> drücken"


def test_unchanged_sentences_keep_their_source() -> None:
    segment = Segment((Text.plain("a "), Text("&", "&amp;"), Text.plain("\n bee. Cat dog.")))
    [result] = SegmentTranslator(lambda lines: [line.replace("Cat", "Xat") for line in lines], "en")([segment])
    assert result.parts[1] == Text("&", "&amp;")
    assert result.parts[-1] == Text("Xat dog.")
    assert written(result) == "a &\n bee. Xat dog."


def test_a_segment_that_cannot_be_written_is_tried_in_pieces_and_then_kept() -> None:
    segments = [Segment((Text.plain("go "), BOLD, Text.plain("on"), BOLD_END)), Segment((Text.plain("stop"),))]
    translator = SegmentTranslator(shout, "en")
    results = list(translator(segments, check=lambda before, after: written(after) != "GO <b>ON</b>"))
    assert [written(result) for result in results] == ["go <b>on</b>", "STOP"]
    assert (translator.counts.in_pieces, translator.counts.unchanged) == (1, 1)


def test_batches_are_bounded() -> None:
    sizes: list[int] = []

    def translate(lines: list[str]) -> list[str]:
        sizes.append(len(lines))
        return lines

    read = 0

    def segments():  # type: ignore[no-untyped-def]
        nonlocal read
        for number in range(1000):
            read += 1
            yield Segment((Text.plain(f"line {number}"),))

    results = SegmentTranslator(translate, "en", batch=10)(segments())
    next(results)
    assert read == 10
    assert len(list(results)) == 999
    assert max(sizes) == 10


def test_a_translator_that_loses_sentences_is_an_error() -> None:
    with pytest.raises(DataError, match="2 sentences were to be translated, but 1 translations came"):
        one(Text.plain("One here. Two here."), translate=lambda lines: lines[:1])


def test_long_text() -> None:
    text = "Eins ist da. Zwei auch.\n\n  Drei: %s.\r\n"
    assert translate_text(text, shout_all, "de") == "EINS IST DA. ZWEI AUCH.\n\n  DREI: %s.\r\n"


PARTS = st.lists(
    st.one_of(
        st.text(alphabet="ab .!?\nÄ<1>/&", max_size=8).filter(bool).map(Text.plain),
        st.just(Text("&", "&amp;")),
        st.builds(Mark, st.sampled_from(list(Kind)), st.sampled_from(["<i>", "</i>"]), st.integers(1, 3)),
        st.just(Mark(Kind.WORD, "%s", shown="%s")),
    ),
    max_size=12,
)


@settings(max_examples=300)
@given(PARTS, st.sampled_from([same, shout, shout_all, lose_tokens, backwards]))
def test_marks_survive_whatever_the_translator_does(parts: list[Part], translate) -> None:  # type: ignore[no-untyped-def]
    segment = Segment(tuple(in_pairs(parts, lonely=Kind.BREAK)))
    [result] = SegmentTranslator(translate, "en")([segment])
    before = [part for part in segment.parts if isinstance(part, Mark)]
    after = [part for part in result.parts if isinstance(part, Mark)]
    assert sorted(map(str, before)) == sorted(map(str, after))
    assert [mark for mark in before if mark.kind is Kind.BREAK] == [mark for mark in after if mark.kind is Kind.BREAK]
    assert [
        part for part in in_pairs(result.parts, lonely=Kind.WORD) if isinstance(part, Mark) and part.kind is Kind.WORD
    ] == [mark for mark in after if mark.kind is Kind.WORD]
    if translate is same:
        assert "".join(part.source or "" for part in result.parts) == "".join(
            part.source or "" for part in segment.parts
        )


def test_a_half_that_becomes_a_break_ends_the_pair_around_it() -> None:
    opened, lonely, closed = (
        Mark(kind, "", number) for kind, number in ((Kind.OPEN, 1), (Kind.OPEN, 2), (Kind.CLOSE, 1))
    )
    parts = in_pairs([opened, Text.plain("a"), lonely, Text.plain("b"), closed], Kind.BREAK)
    assert [part.kind for part in parts if isinstance(part, Mark)] == [Kind.BREAK] * 3
