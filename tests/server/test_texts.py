"""Sentences of a text, terms in sentences, tables of terms, languages by their codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.decoding.terminology import Terminology, within_limits
from termweave.server.entries import as_table, pack, read_entries, unpack
from termweave.server.languages import Languages
from termweave.server.problems import Problem
from termweave.server.segments import Splitting, segment, separator
from termweave.server.terms import FirstOf, Planner


def sentences(text: str, splitting: Splitting = "lines", language: str = "de") -> list[str]:
    return [own.text for own in segment(text, splitting, language, 1000, len).segments]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ein Satz. Noch einer! Und?", ["Ein Satz.", "Noch einer!", "Und?"]),
        ("Das ist Dr. Müller. Er kam am 3. Oktober.", ["Das ist Dr. Müller.", "Er kam am 3. Oktober."]),
        ("z. B. Äpfel. Éclairs auch.", ["z. B. Äpfel.", "Éclairs auch."]),
        ("eins\nzwei\r\n\n drei", ["eins", "zwei", "drei"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_sentences(text: str, expected: list[str]):
    assert sentences(text) == expected


def test_where_texts_are_split_can_be_chosen():
    text = "Ein Satz. Zwei\nZeilen."
    assert sentences(text, "none") == [text]
    assert sentences(text, "sentences") == ["Ein Satz.", "Zwei\nZeilen."]


def test_long_texts_are_split_alike_wherever_they_are_cut():
    text = "Der Müller schläft. " * 2000
    assert sentences(text) == ["Der Müller schläft."] * 2000
    assert sentences("你好。" * 3000, language="zh") == ["你好。"] * 3000
    assert "".join(sentences("a" * 20_000, "sentences")) == "a" * 20_000


pieces = some.sampled_from([" ", "\n", "\t", ".", "!", "A", "b", "Wort", "3", "“", "。", "字", "é", "\u00a0"])


@given(
    some.lists(pieces, max_size=60).map("".join), some.sampled_from(["none", "sentences", "lines"]), some.integers(2, 9)
)
def test_nothing_is_lost_and_nothing_too_long(text: str, splitting: Splitting, longest: int):
    found = segment(text, splitting, "de", longest, len)
    assert found.before + "".join(own.text + own.after for own in found.segments) == text
    for own in found.segments:
        assert own.text == own.text.strip() != ""
        assert len(own.text) <= longest
        assert own.after.strip() == ""


def test_spaces_between_sentences_follow_the_language():
    assert separator("", "zh", "en") == " "
    assert separator(" ", "en", "zh") == ""
    assert separator("\n", "en", "zh") == "\n"
    assert separator("  ", "de", "en") == "  "


# Terms


def entry(source: str, *targets: str, policy: str = "must") -> GlossaryEntry:
    return GlossaryEntry(source, targets, policy)  # type: ignore[arg-type]


def planner(*entries: GlossaryEntry) -> Terminology:
    return Terminology(Glossary(entries, "de", "en"), "de-en")


def found(planner: Planner, sentence: str) -> list[str]:
    return [term.match.targets[0] for term in planner.plan(sentence).terms]


def test_earlier_glossaries_come_first():
    both = FirstOf([planner(entry("Haus", "house")), planner(entry("altes Haus", "home"), entry("Fluss", "river"))])
    assert found(both, "altes Haus am Fluss") == ["house", "river"]


def test_addresses_are_found_once_and_after_all_terms():
    both = FirstOf([planner(entry("Haus", "house")), planner(entry("5 km", "five kilometres"))])
    expected = ["house", "five kilometres", "https://haus.example/Haus"]
    assert found(both, "Haus, 5 km, https://haus.example/Haus") == expected


@pytest.mark.parametrize("longest", [12, 20, 1000])
def test_no_cut_goes_through_a_term(longest: int):
    both = FirstOf([planner(entry("Quiz! Das Spiel", "quiz")), planner(entry("altes Haus", "home"))])
    text = "Wir spielen Quiz! Das Spiel geht. Dann kommt altes Haus."
    parts = [own.text for own in segment(text, "lines", "de", longest, len, both).segments]
    assert [sum(term in part for part in parts) for term in ("Quiz! Das Spiel", "altes Haus")] == [1, 1]
    if longest == 1000:
        assert parts == ["Wir spielen Quiz! Das Spiel geht.", "Dann kommt altes Haus."]


def test_placeholders_are_counted_with_several_glossaries_too():
    haus, fluss = entry("Haus", "house"), entry("Fluss", "river")
    plan = FirstOf([planner(haus), planner(fluss)]).plan("Haus %s am Fluss")
    assert plan.allowed(()) == planner(haus, fluss).plan("Haus %s am Fluss").allowed(()) == {"%s": 1}
    given = Glossary((haus,), "de", "en"), Glossary((fluss,), "de", "en")
    bare = FirstOf([Terminology(own, "de-en", protect=False) for own in given])
    assert bare.plan("Haus %s am Fluss").allowed(()) is None


def test_what_any_glossary_forbids_is_forbidden():
    never, here = entry("", "shack", policy="forbid"), entry("Haus", "hut", policy="forbid")
    both = FirstOf([planner(never), planner(here, entry("Haus", "house"))])
    assert {"shack", "hut"} <= set(both.plan("ein Haus").forbidden)
    assert "hut" not in both.plan("ein Fluss").forbidden
    assert sorted(found(both, "ein Haus")) == ["house", "hut"]


def test_too_many_numbers_are_left_to_the_model():
    sentence = "Haus " + " ".join(f"{number} km," for number in range(100))
    plan = planner(entry("Haus", "house")).plan(sentence)
    assert len(plan.terms) == 101
    assert [constraint.target for constraint in within_limits(plan).required] == ["house"]
    few = planner(entry("Haus", "house")).plan("Haus 5 km")
    assert within_limits(few) == few


# Tables

cells = some.text(some.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@given(some.dictionaries(cells, cells, min_size=1, max_size=8))
def test_tables_lose_nothing(terms: dict[str, str]):
    entries = tuple(entry(source, target) for source, target in terms.items())
    assert read_entries(as_table(entries), "tsv") == entries
    assert unpack(pack(entries)) == entries


@pytest.mark.parametrize(
    ("table", "kind", "said"),
    [
        ("", "tsv", "No entries"),
        ("a\tb\n\nc", "tsv", "line 3"),
        ("a\tb\tc", "tsv", "line 1"),
        ("a\t", "tsv", "line 1"),
        ("a\tb\x07", "tsv", "control"),
        ('a,"b', "csv", "line 1"),
        ("a,b\na,c", "csv", "twice"),
        ("a,b", "xls", "entries_format"),
    ],
)
def test_wrong_tables_are_refused(table: str, kind: str, said: str):
    with pytest.raises(Problem) as refused:
        read_entries(table, kind)
    assert refused.value.status == 400
    assert said in refused.value.sentence


# Languages


def test_codes():
    known = Languages(["de-en", "en-de", "en-zh"])
    assert known.target("en-us") == known.target("EN_GB") == known.target("EN") == "en"
    assert known.target("zh-Hans") == "zh"
    assert known.source("De") == "de"
    assert [code for code, _ in known.deepl_targets()] == ["DE", "EN-GB", "EN-US", "ZH", "ZH-HANS"]
    for wrong in ("zh-Hant", "en-XX", "fr", ""):
        with pytest.raises(Problem):
            known.target(wrong)
    with pytest.raises(Problem):
        known.direction("de", "zh")
