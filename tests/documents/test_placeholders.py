"""Text with placeholders and tags as parts: nothing is lost, pairs are found, all else is a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.documents.placeholders import tagged_parts
from termweave.documents.segments import Kind, Mark, Text

PIECES = (
    "<b>",
    "</b>",
    "<i>",
    "</i>",
    "<br>",
    "<br/>",
    '<a href="%s">',
    "</a>",
    "%s",
    "{name}",
    "a < b",
    " word ",
    "\n",
    "&amp;",
)


def shape(text: str) -> list[str]:
    """Each part as `kind:source`, with the number of its pair."""
    numbers: dict[int, int] = {}
    found = []
    for part in tagged_parts(text):
        if isinstance(part, Text):
            found.append(part.shown)
        elif part.kind in (Kind.OPEN, Kind.CLOSE):
            found.append(f"{part.kind.value}{numbers.setdefault(part.identity, len(numbers) + 1)}:{part.source}")
        else:
            found.append(f"{part.kind.value}:{part.source}")
    return found


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Press the <b>button</b>.", ["Press the ", "open1:<b>", "button", "close1:</b>", "."]),
        ("<b>a <i>b</i></b>", ["open1:<b>", "a ", "open2:<i>", "b", "close2:</i>", "close1:</b>"]),
        ("<b>a</b> <b>b</b>", ["open1:<b>", "a", "close1:</b>", " ", "open2:<b>", "b", "close2:</b>"]),
        ("one<br>two<br/>three</p>", ["one", "break:<br>", "two", "break:<br/>", "three", "break:</p>"]),
        ("<x/>one <i>two", ["word:<x/>", "one ", "word:<i>", "two"]),
        ("%{count} files", ["word:%{count}", " files"]),
        ("<b>one\ntwo</b>", ["word:<b>", "one", "break:\n", "two", "word:</b>"]),
        ('<a href="%s">%d</a>', ['open1:<a href="%s">', "word:%d", "close1:</a>"]),
        ("<B>a</b>", ["open1:<B>", "a", "close1:</b>"]),
        ("a < b and c > d", ["a < b and c > d"]),
    ],
)
def test_tags_move_with_their_words(text: str, expected: list[str]):
    assert shape(text) == expected


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5)).map("".join))
def test_the_parts_are_the_text_again_and_pairs_are_whole(text: str):
    parts = tagged_parts(text)
    assert "".join(part.source or "" for part in parts) == text
    halves = [part.identity for part in parts if isinstance(part, Mark) and part.kind in (Kind.OPEN, Kind.CLOSE)]
    assert all(halves.count(identity) == 2 for identity in halves)
