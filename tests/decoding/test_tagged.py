"""Tags of sentences that stand alone: taken out, put back, and all spans are those of the sentences with them."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termweave import Translation, Translator
from termweave.decoding.tagged import TaggedSentence, bare, put_back, taken_out
from termweave.decoding.terminology import Receipt

TAG = re.compile(r"</?(?:b|i|em|code)(?: x=1)?>")


@pytest.mark.parametrize(
    ("line", "text", "pairs"),
    [
        ("Das <b>Haus</b>.", "Das Haus.", [(4, 8)]),
        ("<b>a <i x='y'>b</i></b> c", "a b c", [(0, 3), (2, 3)]),
        ("ein <B>Haus</b> <br> und <name> <x/>", "ein Haus <br> und <name> <x/>", [(4, 8)]),
        ("</b>Haus<b>", "Haus", [(0, 0), (4, 4)]),
        ("der Anfang. <b>Ein Satz", "der Anfang. Ein Satz", [(12, 20)]),
        ("<b>a <i>b</b> c</i> d", "a <i>b c</i> d", [(0, 6)]),  # they cross: the second is no pair
        ("cp <file> <file>: <kbd>x</kbd>", "cp <file> <file>: x", [(18, 19)]),
        ("<2> und <b>Haus</b>", "und Haus", [(0, 8), (4, 8)]),  # marks of the text's own are taken out too
    ],
)
def test_pairs_are_taken_out(line: str, text: str, pairs: list[tuple[int, int]]) -> None:
    tagged = TaggedSentence.of(line)
    assert tagged is not None
    assert tagged.text == text
    assert [pair.inside for pair in tagged.marked.pairs] == pairs


@pytest.mark.parametrize("line", ["Das Haus.", "a < b > c", "Enter <name> or <br>", "x <i/> y", "&amp;", "</file>"])
def test_other_lines_are_left_alone(line: str) -> None:
    assert TaggedSentence.of(line) is None
    assert bare([line], taken_out([line])) == [line]


@pytest.fixture(scope="module")
def translator(make_folder):  # type: ignore[no-untyped-def]
    return Translator.load(make_folder("de-en", "en-de"), "cpu")


def receipt(text: str, word: str, output: str, target: str) -> Receipt:
    here, there = text.index(word), output.index(target)
    return Receipt(word, (here, here + len(word)), target, "must", "met", (there, there + len(target)), target)


@pytest.mark.parametrize(
    "line",
    [
        "das <b>Haus</b> am Fluss",
        "das <b>Hau</b>s am Fluss",
        "  das\u200b  <b> Haus</b> \t am   Fluss",
        "d\u0061\u0308s <b>Haus</b><i>am</i> Fluss",
        "<em>das</em><b></b> Haus am <code>Fluss</code>",
        "das </b>Haus am<b> Fluss",
    ],
)
def test_spans_are_those_of_the_sentences_with_their_tags(translator: Translator, line: str) -> None:
    (tagged,) = taken_out([line])
    output = "by river a house"
    told = tuple(receipt(tagged.text, *pair) for pair in (("Haus", output, "house"), ("Fluss", output, "river")))
    other = Translation("a house", -2.0, spans=((2, 7),), receipts=(receipt(tagged.text, "Haus", "a house", "house"),))
    result = Translation(output, -1.0, spans=((11, 16), None), receipts=told, others=(other,))
    (finished,) = put_back(translator, [tagged], [result], "de-en")
    assert sorted(TAG.findall(finished.text)) == sorted(TAG.findall(line))
    for own, plain in ((finished, output), (finished.others[0], "a house")):
        assert " ".join(TAG.sub("", own.text).split()) == plain
        for each in own.receipts:
            assert TAG.sub("", own.text[slice(*each.target_span)]) == each.found
            assert TAG.sub("", line[slice(*each.source_span)]) == each.source
            assert not line[slice(*each.source_span)].startswith("<")
        assert own.text[slice(*own.spans[0])] == "house"
    assert finished.spans[1] is None


def test_an_output_without_a_place_has_its_tags_around_it(translator: Translator) -> None:
    (tagged,) = taken_out(["das <b>alte <i>Haus</i></b> <em>hier</em>"])
    assert tagged.finished(translator, Translation("", 0.0), "de-en").text == "<b><i></i></b><em></em>"
    assert tagged.finished(translator, Translation("a\x00b", 0.0), "de-en").text == "<b><i>a\x00b</i></b><em></em>"


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "Haus", "am", " ", "  ", "<br>", "5", "."]), max_size=12)
)
def test_no_tag_is_lost_or_made(translator: Translator, pieces: list[str]) -> None:
    line = "".join(pieces)
    tagged = TaggedSentence.of(line)
    if tagged is not None:
        result = tagged.finished(translator, Translation(tagged.text, 0.0), "de-en")
        assert sorted(re.findall(r"<[^>]*>", result.text)) == sorted(re.findall(r"<[^>]*>", line))
        assert "".join(re.sub("<[^>]*>", "", result.text).split()) == "".join(re.sub("<[^>]*>", "", line).split())
