"""Placeholders that stand in an output more often than in its source: searched for again, and never in silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave import Constraint, Glossary, GlossaryEntry, Terminology, Translator
from termweave.constraints.protection import counted
from termweave.decoding.beam import Hypothesis
from termweave.decoding.demands import Wishes, make_demands
from termweave.decoding.surplus import _surely_lacks

PLAIN = Terminology(None, "de-en")
SENTENCE = "das Haus %s am Fluss"


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en"), "cpu")


class Doubling:
    """A search that says something too often, unless it obeys what is ruled out."""

    def __init__(self, translator: Translator, text: str, better: str = "") -> None:
        self.encode, self.text, self.better = translator.subwords.target.encode, text, better
        self.wishes: list[Wishes] = []  # of each search

    def __call__(self, batch, options, meanwhile=None):
        self.wishes += [request.wishes for request in batch.requests]
        return [[self.found(request.wishes)] for request in batch.requests]

    def found(self, wishes: Wishes) -> Hypothesis:
        text = self.better if wishes.surplus and self.better else self.text
        return Hypothesis(tuple(self.encode(text)), -1.0, -5.0)


def translated(translator, monkeypatch, found, terminology=PLAIN, **options):
    monkeypatch.setattr(translator._searcher, "search", found)
    [result] = translator.translate([SENTENCE], terminology=terminology, **options)
    return result


def test_a_surplus_is_ruled_out_in_the_next_search(translator, monkeypatch):
    search = Doubling(translator, "the house %s by %s", "the house %s")
    result = translated(translator, monkeypatch, search)
    assert result.text == "the house %s"
    assert [own.surplus for own in search.wishes] == [(), ("%s",)]
    assert [receipt.status for receipt in result.receipts] == ["kept"]


@pytest.mark.parametrize("score, text, searches", [(-1.05, "a house %s", 1), (-1.2, "the house %s", 2)])
def test_an_output_without_it_that_is_nearly_as_good_will_do(translator, monkeypatch, score, text, searches):
    class WithAnother(Doubling):
        def __call__(self, batch, options, meanwhile=None):
            outputs = super().__call__(batch, options)
            another = Hypothesis(tuple(self.encode("a house %s")), score, -5.0)
            return [[*own, another] for own in outputs] if len(self.wishes) == 1 else outputs

    search = WithAnother(translator, "the house %s by %s", "the house %s")
    assert translated(translator, monkeypatch, search).text == text
    assert len(search.wishes) == searches


def test_an_output_that_may_have_been_cut_off_is_not_taken_so(translator, monkeypatch):
    """It may only not have come to its flaws."""

    class WithAnother(Doubling):
        def __call__(self, batch, options, meanwhile=None):
            outputs = super().__call__(batch, options)
            another = Hypothesis(tuple(self.encode("a house %s " + " ".join(map(str, range(100, 130))))), -1.05, -5.0)
            return [[*own, another] for own in outputs] if len(self.wishes) == 1 else outputs

    search = WithAnother(translator, "the house %s by %s", "the house %s")
    assert translated(translator, monkeypatch, search).text == "the house %s"
    assert len(search.wishes) == 2


def test_of_both_searches_the_best_without_it_wins(translator, monkeypatch):
    class WorseAgain(Doubling):
        def __call__(self, batch, options, meanwhile=None):
            first = not self.wishes
            [[best]] = super().__call__(batch, options)
            another = Hypothesis(tuple(self.encode("a house %s")), -1.2, -5.0)
            return [[best, another] if first else [best._replace(score=-3.0)]]

    search = WorseAgain(translator, "the house %s by %s", "the house %s")
    assert translated(translator, monkeypatch, search).text == "a house %s"


def test_what_is_not_in_the_source_is_a_surplus_as_well(translator, monkeypatch):
    search = Doubling(translator, "the %d house %s", "the house %s")
    assert translated(translator, monkeypatch, search).text == "the house %s"
    assert search.wishes[-1].surplus == ("%d", "%s")  # nor may the other take its place


def test_another_emoji_is_a_surplus_as_well(translator, monkeypatch):
    search = Doubling(translator, "the 🥠 house %s", "the house %s")
    assert translated(translator, monkeypatch, search).text == "the house %s"


def test_what_has_no_surplus_is_searched_for_once(translator, monkeypatch):
    search = Doubling(translator, "the house %s by the river")
    translated(translator, monkeypatch, search)
    assert len(search.wishes) == 1


def test_a_surplus_that_stays_is_told(translator, monkeypatch):
    search = Doubling(translator, "the %d house %s by %s")
    result = translated(translator, monkeypatch, search)
    told = [(own.source, own.status, own.reason, own.found) for own in result.receipts]
    reason = "1 more in the translation than in the source"
    assert told == [("%s", "missed", reason, "%s"), ("%d", "missed", reason, "%d")]
    assert result.receipts[1].target_span == (4, 6)


def test_plain_search_leaves_it_to_the_model_and_tells_too(translator, monkeypatch):
    search = Doubling(translator, "the house %s by %s", "the house %s")
    result = translated(translator, monkeypatch, search, search="beam")
    assert result.text == "the house %s by %s"
    assert [own.status for own in result.receipts] == ["missed"]


def test_a_sentence_that_is_bound_has_it_ruled_out_from_the_start(translator, monkeypatch):
    """Random weights are trusted to meet one term, not four."""
    glossary = Glossary.of([GlossaryEntry(word, (word,)) for word in ("das", "Haus", "am", "Fluss")], "de-en")
    search = Doubling(translator, "das Haus %s am Fluss")
    result = translated(translator, monkeypatch, search, Terminology(glossary, "de-en"))
    assert [own.surplus for own in search.wishes] == [("%s",)]
    assert {receipt.status for receipt in result.receipts} == {"kept", "met"}


def test_what_was_ruled_out_from_the_start_is_told_without_the_same_search_again(translator, monkeypatch):
    glossary = Glossary.of([GlossaryEntry(word, (word,)) for word in ("das", "Haus", "am", "Fluss")], "de-en")
    search = Doubling(translator, "das Haus %s am Fluss %s")
    result = translated(translator, monkeypatch, search, Terminology(glossary, "de-en"))
    assert len(search.wishes) == 1
    assert "missed" in [receipt.status for receipt in result.receipts]


def test_who_protects_nothing_counts_nothing(translator, monkeypatch):
    search = Doubling(translator, "the house %s by %s")
    result = translated(translator, monkeypatch, search, Terminology(None, "de-en", protect=False))
    assert (len(search.wishes), result.receipts) == (1, ())


def test_a_term_may_bring_placeholders_of_its_own(translator, monkeypatch):
    glossary = Glossary.of([GlossaryEntry("Fluss", ("river %s", "%s"))], "de-en")
    search = Doubling(translator, "the house %s by the river %s")
    result = translated(translator, monkeypatch, search, Terminology(glossary, "de-en"))
    assert [own.status for own in result.receipts] == ["kept", "met"]


def test_the_search_itself_finds_no_surplus(translator):
    """Random weights say anything: that a placeholder is there as often as in the source is the search's doing."""
    for sentence in (SENTENCE, "%s %s am Haus", "{name} verkauft %d Mehl"):
        for wanted in ([], [Constraint("Haus", "house")]):
            [result] = translator.translate([sentence], [wanted], terminology=PLAIN)
            surplus = counted(result.text) - counted(sentence)
            assert not surplus or any(own.reason for own in result.receipts)


def test_a_part_of_something_required_stays_possible(translator):
    """'%1' is ruled out, but not the pieces that '%1$s' is spelled with."""
    wishes = Wishes((Constraint("%1$s", "%1$s"),), surplus=("%1", "%1$s"))
    demands = make_demands(wishes, translator.subwords)
    spelled = set(demands.required[0].alternatives)
    assert spelled <= set(demands.forbidden)  # as often as required, and no more
    assert not any(phrase == own[: len(phrase)] for phrase in set(demands.forbidden) - spelled for own in spelled)


@given(
    text=st.text("ß😀 %s{}a", max_size=8), phrase=st.sampled_from(["%s", "{a}", "😀", "ß", "a s", "%"]), data=st.data()
)
def test_what_a_text_surely_lacks_no_part_of_it_says(translator, text, phrase, data):
    tokens = translator.subwords.target.encode(text)  # some characters in bytes, of which a part may hold a half
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(tokens))] * 2)))
    whole, part = translator.subwords.decode(tokens[:last]), translator.subwords.decode(tokens[first:last])
    assert not (_surely_lacks(whole, phrase) and phrase in part)
