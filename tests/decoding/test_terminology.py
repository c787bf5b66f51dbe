"""Glossaries at work: what the policies do to a sentence, and what the receipts say about it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave import Constraint, Glossary, GlossaryEntry, Terminology, Translator
from termweave.decoding.terminology import told
from termweave.errors import ConfigError, ConstraintError

HOUSE = GlossaryEntry("Haus", ("house", "building"))
RIVER = GlossaryEntry("Fluss", ("river",), policy="prefer")
MILLER = GlossaryEntry("Müller", policy="keep")


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en"), "cpu")


def plan(sentence: str, *entries: GlossaryEntry, protect: bool = True):
    return Terminology(Glossary.of(entries, "de-en"), "de-en", protect=protect).plan(sentence)


def test_each_policy_does_its_own():
    forbid = GlossaryEntry("Fluss", ("stream",), policy="forbid")
    found = plan("Müller hat ein Haus am Fluss", HOUSE, RIVER, MILLER, forbid)
    assert [constraint.target for constraint in found.required] == ["Müller", "house"]
    assert [constraint.target for constraint in found.told] == ["Müller", "house", "river"]
    assert "stream" in found.forbidden
    assert found.required[1].alternatives[:1] == ("building",)


def test_places_are_all_that_must_not_be_cut():
    terms = Terminology(
        Glossary.of([HOUSE, MILLER, GlossaryEntry("Tor", ("goal",), policy="forbid")], "de-en"), "de-en"
    )
    assert terms.places("Müller im Haus am Tor, 5 km") == [(0, 6), (10, 14), (23, 27)]
    assert terms.wants("im Haus")
    assert not terms.wants("Müller am Tor, 5 km")  # what is kept needs no translation


def test_what_is_forbidden_is_looked_at_where_nothing_is_translated():
    entries = [GlossaryEntry("", ("12",), "forbid"), GlossaryEntry("7", ("7",), "forbid")]
    terms = Terminology(Glossary.of(entries, "de-en"), "de-en")
    assert terms.wants("12") and terms.wants("10 - 12") and terms.wants("7.")
    assert not terms.wants("120") and not terms.wants("...")


def test_a_direction_has_two_languages():
    with pytest.raises(ConfigError, match="'xx' names no two languages"):
        Terminology(None, "xx")


def test_control_characters_of_a_sentence_are_no_part_of_its_constraints():
    found = plan("für ein Ha\x01us, https://a.example/\x01b", HOUSE)
    assert [(own.source, own.target) for own in found.told] == [
        ("Haus", "house"),
        ("https://a.example/b", "https://a.example/b"),
    ]
    receipts = found.receipts("a house, https://a.example/b", [(2, 7), (9, 28)], "en")
    assert [own.source for own in told(receipts)] == ["Haus", "https://a.example/b"]


def test_every_occurrence_is_a_term_of_its_own():
    assert [constraint.target for constraint in plan("Haus an Haus", HOUSE).required] == ["house", "house"]


def test_a_wish_that_is_forbidden_is_a_conflict_and_not_told():
    found = plan("am Fluss", RIVER, GlossaryEntry("", ("river",), policy="forbid"))
    assert found.told == ()
    (receipt,) = found.receipts("by the stream", [], "en")
    assert (receipt.status, receipt.reason) == ("conflict", "'river' is forbidden here")


@pytest.mark.parametrize(
    ("text", "span", "status"),
    [("a house", (2, 7), "met"), ("a building", (2, 10), "met by alternative"), ("a home", None, "missed")],
)
def test_the_receipt_says_what_stands_where(text, span, status):
    (receipt,) = plan("ein Haus", HOUSE).receipts(text, [span], "en")
    assert (receipt.status, receipt.target_span, receipt.source_span) == (status, span, (4, 8))
    assert receipt.found == (None if span is None else text[slice(*span)])
    assert receipt.to_json()["status"] == status
    assert None not in receipt.to_json().values()


def test_what_stands_for_a_forbidden_target_is_an_alternative():
    found = plan("ein Haus", HOUSE, GlossaryEntry("", ("house",), policy="forbid"))
    assert found.told[0].target == "building"
    (receipt,) = found.receipts("a building", [(2, 10)], "en")
    assert (receipt.target, receipt.found, receipt.status) == ("house", "building", "met by alternative")
    assert told([receipt]) == [Constraint("Haus", "building")]
    assert "told" not in receipt.to_json()


def test_a_forbidden_phrase_has_a_receipt_too():
    found = plan("ein Haus", GlossaryEntry("Haus", ("hut",), policy="forbid"))
    assert found.receipts("a house", [], "en")[0].status == "met"
    assert found.receipts("a hut", [], "en")[0].status == "missed"


def test_what_must_be_is_met(translator):
    glossary = Glossary.of([HOUSE, RIVER, MILLER], "de-en")
    sentences = ["ein Haus am Fluss", "der alte Müller verkauft Mehl", "Haus, Haus und HAUS", "nichts davon"]
    results = translator.translate(sentences, terminology=glossary)
    for sentence, result in zip(sentences, results, strict=True):
        for receipt in result.receipts:
            assert sentence[slice(*receipt.source_span)] == receipt.source
            if receipt.policy != "prefer":
                assert receipt.status in ("met", "met by alternative", "kept")
                assert result.text[slice(*receipt.target_span)] == receipt.found
    assert [len(result.receipts) for result in results] == [2, 1, 3, 0]


def test_a_term_at_the_start_and_again_later_is_met_twice(translator):
    """The first may be written with a capital, so the two do not accept the same; they must still be two."""
    (result,) = translator.translate(["Haus und ein Haus"], terminology=Glossary.of([HOUSE], "de-en"))
    spans = [receipt.target_span for receipt in result.receipts]
    assert len(set(spans)) == 2 and None not in spans


def test_addresses_and_placeholders_come_through(translator):
    sentence = "das Haus {name} kostet %1$d, siehe https://example.org/a?b=1."
    terminology = Terminology(None, "de-en")
    (result,) = translator.translate([sentence], terminology=terminology)
    assert [receipt.status for receipt in result.receipts] == ["kept"] * 3
    assert all(kept in result.text for kept in ("{name}", "%1$d", "https://example.org/a?b=1"))
    assert Terminology(None, "de-en", protect=False).plan(sentence).terms == ()


def test_constraints_of_the_caller_stand_beside_the_glossary(translator):
    given = [[Constraint("Fluss", "flood")]]
    (result,) = translator.translate(["ein Haus am Fluss"], given, terminology=Glossary.of([HOUSE], "de-en"))
    assert len(result.spans) == 1 and result.text[slice(*result.spans[0])] == "flood"
    assert [receipt.source for receipt in result.receipts] == ["Haus"]


def test_plain_search_promises_nothing_and_says_so(translator):
    (result,) = translator.translate(["ein Haus"], terminology=Glossary.of([HOUSE], "de-en"), search="beam")
    assert result.receipts[0].status in ("met", "met by alternative", "missed")


def test_a_contradiction_fails_with_its_reason(translator):
    glossary = Glossary.of([GlossaryEntry("Haus", ("house",), case="fixed"), GlossaryEntry("", ("house",), "forbid")])
    with pytest.raises(ConstraintError, match="sentence 2: 'house' is forbidden, but 'house' is required"):
        translator.translate(["Mehl", "ein Haus"], terminology=glossary)


def test_a_glossary_for_other_languages_is_refused(translator):
    with pytest.raises(ConfigError, match="source language is 'en', but the translation is de-en"):
        translator.translate(["Mehl"], terminology=Glossary.of([HOUSE], "en-de"))


def test_what_is_guaranteed_has_the_first_claim_to_a_place(translator):
    entries = [GlossaryEntry("Fluss", ("house",), "prefer"), GlossaryEntry("Haus", ("house",), "must")]
    (result,) = translator.translate(["Fluss Haus"], terminology=Glossary.of(entries, "de-en"), beam=2)
    assert [(receipt.source, receipt.policy) for receipt in result.receipts] == [("Fluss", "prefer"), ("Haus", "must")]
    assert result.receipts[1].status == "met"


WORDS = ["Haus", "Fluss", "Mehl", "Müller", "alte", "am"]
ENTRIES = st.builds(
    GlossaryEntry,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join),
    st.lists(st.sampled_from(["house", "river", "flour", "old miller", "a b", "x-y"]), min_size=1, max_size=2).map(
        tuple
    ),
    st.sampled_from(["must", "prefer"]),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ENTRIES, max_size=4),
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=3),
)
def test_no_must_term_is_ever_missed(translator, entries, sentences):
    for result in translator.translate(sentences, terminology=Glossary.of(entries, "de-en"), beam=2):
        statuses = {receipt.status for receipt in result.receipts if receipt.policy == "must"}
        assert statuses <= {"met", "met by alternative"}
