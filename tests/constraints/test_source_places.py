"""Where constraints' sources stand, and the sentence with the targets there."""

from __future__ import annotations

import pytest

from termweave.constraints.constraint import Constraint
from termweave.constraints.source_places import find_sources, replace_sources

CASES = [
    # text, constraints, language, the sentence with the targets in their places
    ("Das alte Haus brennt.", [("Haus", "building")], "de", "Das alte building brennt."),
    ("Das alte Haus brennt.", [("alte Haus", "old building"), ("brennt", "burns")], "de", "Das old building burns."),
    ("Das Haus (Haus) brennt.", [("Haus", "a"), ("Haus", "b")], "de", "Das a (b) brennt."),
    ("Ein Haus am alten Haus.", [("Haus", "a"), ("alten Haus", "b c")], "de", "Ein a am b c."),
    ("Ein altes Haus.", [("Haus", "a"), ("altes Haus", "b c")], "de", "Ein b c."),  # the longer one takes the word
    ("Das Hausboot sinkt.", [("Haus", "building")], "de", "Das Hausboot sinkt."),  # no whole word
    ("Das Haus.", [("Baum", "tree")], "de", "Das Haus."),
    ("Das Haus.", [], "de", "Das Haus."),
    ("我爱房子了", [("房子", "houses")], "zh", "我爱 houses了"),
    ("房子", [("房子", "houses")], "zh", "houses"),
    ("my house burns", [("house", "房子")], "en", "my 房子 burns"),
]


@pytest.mark.parametrize(("text", "pairs", "language", "expected"), CASES)
def test_targets_take_the_place_of_sources(text, pairs, language, expected):
    assert replace_sources(text, [Constraint(*pair) for pair in pairs], language) == expected


def test_places_are_those_of_the_constraints_in_their_order():
    text = "Ein Haus am alten Haus."
    wanted = [Constraint("Haus", "a"), Constraint("Baum", "b"), Constraint("alten Haus", "c"), Constraint("Haus", "d")]
    places = find_sources(text, wanted, "de")
    assert [place and text[place[0] : place[1]] for place in places] == ["Haus", None, "alten Haus", None]
    assert places[0] == (4, 8)
