"""Marks as tokens, and which translations are taken."""

from __future__ import annotations

import pytest

from termweave.documents.placeholders import tagged_parts, text_parts
from termweave.documents.segments import Kind, Mark, Part, Text, in_pairs
from termweave.documents.tokens import cleaned, request

BOLD, BOLD_END = Mark(Kind.OPEN, "<b>", 1), Mark(Kind.CLOSE, "</b>", 1)
LINK, LINK_END = Mark(Kind.OPEN, "<a>", 2), Mark(Kind.CLOSE, "</a>", 2)
CODE = Mark(Kind.WORD, "`x`")


def plain(text: str) -> Text:
    return Text.plain(text)


SENTENCE: list[Part] = [plain("A "), BOLD, plain("b "), LINK, plain("c"), LINK_END, BOLD_END, plain(" d "), CODE]


def test_the_line() -> None:
    assert request(SENTENCE).line == "A <1>b <2>c</2></1> d <3/>"


def test_numbers_stay_clear_of_what_the_text_holds() -> None:
    assert request([plain("see <7> "), BOLD, plain("b"), BOLD_END]).line == "see <7> <8>b</8>"


def test_space_is_one_space_but_for_the_unbreakable() -> None:
    assert request([plain("a \n\t b\u00a0c")]).line == "a b\u00a0c"


@pytest.mark.parametrize(
    ("translation", "taken"),
    [
        ("A <1>b <2>c</2></1> d <3/>", True),
        ("<3/> <1><2>C</2> B</1>", True),
        ("<2>c</2> <1>b</1> <3/>", True),  # no longer nested, but each is whole
        ("A <1>b <2>c</1></2> <3/>", False),
        ("A </1>b<1> <2>c</2> <3/>", False),
        ("A <1>b <2>c</2></1> d", False),
        ("A <1>b <2>c</2></1> <3/> <3/>", False),
        ("A <1>b <2>c</2></1> <3/> <4/>", False),
        ("", False),
    ],
)
def test_which_translations_are_taken(translation: str, taken: bool) -> None:
    assert (request(SENTENCE).parse(translation) is not None) == taken


def test_marks_come_back_in_place() -> None:
    assert request(SENTENCE).parse("<3/> D <1><2>C</2> B</1>") == [
        CODE,
        Text(" D "),
        BOLD,
        LINK,
        Text("C"),
        LINK_END,
        Text(" B"),
        BOLD_END,
    ]


def test_half_a_pair() -> None:
    """The other half is in the next sentence: it must stay open, and nothing may be left open before it closes."""
    opens = request([plain("go "), BOLD, plain("home "), LINK, plain("now"), LINK_END])
    assert opens.parse("<2>X</2> <1>Y") is not None
    assert opens.parse("<1>X <2>Y</2>") is not None
    assert opens.parse("<2>X <1>Y</2>") is None
    closes = request([plain("go "), BOLD_END, plain("home "), LINK, plain("now"), LINK_END])
    assert closes.parse("<2>X</2></1> Y") is not None
    assert closes.parse("<2>X</1></2> Y") is None


@pytest.mark.parametrize(
    ("text", "translation", "taken"),
    [
        ("%s has %d", "%s – %d", True),
        ("%s has %d", "%d – %s", False),  # they take their values in order
        ("%1$s has %2$d", "%2$d – %1$s", True),
        ("{} of {}", "{} von {}", True),
        ("{a} of {b}", "{b} – {a}", True),
        ("{a} of {b}", "{b}", False),
        ("{a} of {a}", "{a}", False),
    ],
)
def test_placeholders(text: str, translation: str, taken: bool) -> None:
    asked = request(list(text_parts(text)))
    assert asked.line == text
    assert (asked.parse(translation) is not None) == taken


def test_halves_without_another_keep_their_order() -> None:
    """</b>word<b>: no pair, but in the other order they would be one."""
    asked = request(tagged_parts("the </b>old<b> file"))
    assert asked.line == "the <1/>old<2/> file"
    assert asked.parse("<1/>die<2/> Datei") is not None
    assert asked.parse("<2/>die<1/> Datei") is None


def test_placeholders_are_counted_without_the_marks() -> None:
    """A mark inside of a second %s does not hide it."""
    asked = request([BOLD, plain("old"), BOLD_END, plain(" file "), *text_parts("%s")])
    assert asked.parse("<1>alte %</1>s Datei %s") is None
    assert asked.parse("<1>alte</1> Datei %s") is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hi %s, %-5.2f and %(name)s", ["%s", "%-5.2f", "%(name)s"]),
        ("${HOME} {{ x }} {0} {price:.2f}", ["${HOME}", "{{ x }}", "{0}", "{price:.2f}"]),
        ("See https://a.org/b?c=d. Write to me@b.co.uk!", ["https://a.org/b?c=d", "me@b.co.uk"]),
        ("100 % der Fälle, 5%discount", []),
        ("{not a placeholder}", []),
    ],
)
def test_what_is_a_placeholder(text: str, found: list[str]) -> None:
    parts = list(text_parts(text))
    assert [part.shown for part in parts if isinstance(part, Mark)] == found
    assert "".join(part.source or "" for part in parts) == text


def test_an_address_may_hold_a_value_that_comes_in_order() -> None:
    asked = request(list(text_parts("see https://a.example/%s or %d", formats=("c",))))
    assert asked.parse("siehe https://a.example/%s oder %d") is not None
    assert asked.parse("%d oder siehe https://a.example/%s") is None
    named = request(list(text_parts("see https://a.example/%%20b or %d", formats=("c",))))
    assert named.parse("%d oder siehe https://a.example/%%20b") is not None


def test_formats_know_more_placeholders() -> None:
    parts = list(text_parts("100 %% of % d", formats=("c",)))
    assert [part.shown for part in parts if isinstance(part, Mark)] == ["%%", "% d"]


def test_translations_are_cleaned() -> None:
    assert cleaned(" a\x00\nb\ud800\x1b ") == "a b"


def test_pairs() -> None:
    """<b> <i> </b> </i>: one pair nests, the halves of the other do not; as breaks, they end the pair around them."""
    marks = [
        Mark(Kind.OPEN, "<b>", 7),
        Mark(Kind.OPEN, "<i>", 8),
        Mark(Kind.CLOSE, "</b>", 7),
        Mark(Kind.CLOSE, "</i>", 8),
    ]
    kinds = [mark.kind for mark in in_pairs(marks, lonely=Kind.WORD) if isinstance(mark, Mark)]
    assert kinds == [Kind.OPEN, Kind.WORD, Kind.CLOSE, Kind.WORD]
    assert all(mark.kind is Kind.BREAK for mark in in_pairs(marks, lonely=Kind.BREAK) if isinstance(mark, Mark))
    around = [Mark(Kind.OPEN, "<b>", 7), Mark(Kind.BREAK, "<p>"), Mark(Kind.CLOSE, "</b>", 7)]
    assert all(mark.kind is Kind.BREAK for mark in in_pairs(around, lonely=Kind.BREAK) if isinstance(mark, Mark))
