"""What a glossary entry may be, and how entries of the same source are joined."""

from __future__ import annotations

from typing import Any

import pytest

from termweave.constraints.glossary import Glossary, GlossaryEntry, primary
from termweave.errors import ConfigError, ConstraintError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": ""}, "the source is empty; only `forbid` can go without one"),
        ({"source": " ", "targets": ("a",), "policy": "prefer"}, "the source is empty"),
        ({"source": "Haus"}, "'Haus' has no target; give one, or use the policy `keep`"),
        ({"source": "Haus", "policy": "forbid"}, "'Haus' has no target"),
        ({"source": "Haus", "targets": ("house", " ")}, "a target of 'Haus' is empty"),
        ({"source": "Haus", "targets": "house"}, "a list of texts"),
        ({"source": None, "targets": ("house",)}, "made of texts, got None"),
        ({"source": "Haus", "targets": (5,)}, "made of texts, got 5"),
        ({"source": "Haus", "targets": ("house",), "policy": "keep"}, "to be kept, yet has the target 'house'"),
        ({"source": "Haus", "targets": ("house",), "policy": "should"}, "unknown policy 'should'; it is one of must"),
        ({"source": "Haus", "targets": ("house",), "case": "upper"}, "unknown case rule 'upper'; it is one of carry"),
        ({"source": "Ha\0us", "targets": ("house",)}, "a character that no text file can hold"),
        ({"source": "Haus", "targets": ("ho\ud800",)}, "a character that no text file can hold"),
        ({"source": "Haus", "targets": ("house",), "note": "ä\0"}, "a character that no text file can hold"),
    ],
)
def test_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        GlossaryEntry(**arguments)


def test_a_target_stands_once_and_what_is_kept_has_none() -> None:
    assert GlossaryEntry("a", ("b", "c", "b")).targets == ("b", "c")
    assert GlossaryEntry("cafe\u0301", ("caf\u00e9",), "keep").targets == ()


def test_the_line_is_no_part_of_an_entry() -> None:
    assert GlossaryEntry("a", ("b",), line=3) == GlossaryEntry("a", ("b",), line=4)


def test_merged() -> None:
    entries = [
        GlossaryEntry("Bank", ("bank",), note="money", line=1),
        GlossaryEntry("Ufer", ("bank",), line=2),
        GlossaryEntry(" Bank", ("bench", "bank"), note="park", line=3),
        GlossaryEntry("Bank", ("shore",), "forbid", line=4),
        GlossaryEntry("Bank", ("bar",), case="exact", line=5),
        GlossaryEntry("bank", ("bank",), line=6),
        GlossaryEntry("", ("dude",), "forbid", line=7),
        GlossaryEntry("", ("guy",), "forbid", line=8),
        GlossaryEntry("Linux", policy="keep", line=9),
        GlossaryEntry("Linux", policy="keep", line=10),
    ]
    merged = Glossary.of(entries, "de-en").merged()
    assert merged == Glossary(
        (
            GlossaryEntry("Bank", ("bank", "bench"), note="money; park"),
            GlossaryEntry("Ufer", ("bank",)),
            GlossaryEntry("Bank", ("shore",), "forbid"),
            GlossaryEntry("Bank", ("bar",), case="exact"),
            GlossaryEntry("bank", ("bank",)),
            GlossaryEntry("", ("dude", "guy"), "forbid"),
            GlossaryEntry("Linux", policy="keep"),
        ),
        "de",
        "en",
    )
    assert [entry.line for entry in merged.entries] == [1, 2, 4, 5, 6, 7, 9]
    assert merged.merged() == merged


@pytest.mark.parametrize(
    ("code", "language"), [("de", "de"), ("de-AT", "de"), ("zh_Hans", "zh"), ("EN-gb", "en"), ("", "")]
)
def test_primary(code: str, language: str) -> None:
    assert primary(code) == language


@pytest.mark.parametrize("languages", ["deen", "de-", "-en", "-", "de_en"])
def test_languages_are_a_pair(languages: str) -> None:
    with pytest.raises(ConfigError, match=f"'{languages}' names no two languages; write them as de-en"):
        Glossary.of([], languages)


def test_languages_need_not_be_known() -> None:
    assert Glossary.of([]).source_language == ""
    assert Glossary.of([], "de-zh-Hans").target_language == "zh-Hans"
