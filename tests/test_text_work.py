"""Receipts of documents: of what stands there in the end."""

from __future__ import annotations

import io
import json
from typing import Any

from termweave import GlossaryEntry, Terminology, Translation
from termweave.cli.text_work import TextWork
from termweave.decoding.requests import Wanted


class Shouting:
    """Says "HOUSE" for what is asked for, and everything else in capitals."""

    directions = ("de-en",)

    def translate(self, sentences: list[str], constraints: None, *, terminology: Terminology, **_: Any) -> list[Any]:
        return [self._translation(sentence, terminology) for sentence in sentences]

    def _translation(self, sentence: str, terminology: Terminology) -> Translation:
        plan = terminology.plan(sentence)
        text = sentence.upper().replace("HAUS", "house")
        start = text.find("house")
        spans = [(start, start + 5) if constraint.target == "house" else None for constraint in plan.told]
        return Translation(text, 0.0, receipts=plan.receipts(text, spans, "en"))


def make_work(monkeypatch: Any, more: tuple[GlossaryEntry, ...] = ()) -> tuple[TextWork, io.StringIO]:
    monkeypatch.setattr("termweave.cli.text_work.with_probabilities", lambda _, __, results, *___, **____: results)
    monkeypatch.setattr("termweave.cli.text_work.with_marks", lambda _, __, results, ___: [own.text for own in results])
    receipts = io.StringIO()
    wanted = Wanted((), (GlossaryEntry("Haus", ("house",)), *more), inflection=False, protect=True)
    return TextWork(Shouting(), wanted, "de-en", receipts, {"search": "beam"}), receipts  # type: ignore[arg-type]


def told(receipts: io.StringIO) -> list[tuple[str, list[str]]]:
    records = [json.loads(line) for line in receipts.getvalue().splitlines()]
    return [(record["output"], [own["status"] for own in record["receipts"]]) for record in records]


def test_what_was_translated_again_has_one_receipt(monkeypatch: Any) -> None:
    work, receipts = make_work(monkeypatch)
    work(["das <1>Haus</1> hier", "ein Haus"])
    work(["das Haus", "hier"])  # the first of them in pieces
    assert receipts.getvalue() == ""
    work.settled(["das <1>Haus</1> hier"], [])
    assert told(receipts) == [("EIN house", ["met"]), ("DAS house", ["met"])]
    assert (work.counts["sentences"], work.counts["met"]) == (3, 2)


def test_terms_of_what_stays_as_it_was_are_missed(monkeypatch: Any) -> None:
    work, receipts = make_work(monkeypatch)
    work(["ein Haus, 5 km", "das Haus"])
    work.settled([], ["ein Haus, 5 km"])
    assert told(receipts) == [("ein Haus, 5 km", ["missed", "kept"]), ("DAS house", ["met"])]
    assert "1 term missed; --receipts says which" in list(work.remarks())


def test_what_is_forbidden_is_told_of_too_where_a_sentence_stays(monkeypatch: Any) -> None:
    forbidden = (GlossaryEntry("Haus", ("hut",), "forbid"), GlossaryEntry("Hier", ("Hier",), "forbid"))
    work, receipts = make_work(monkeypatch, forbidden)
    work(["Hier ein Haus"])
    work.settled([], ["Hier ein Haus"])
    (record,) = map(json.loads, receipts.getvalue().splitlines())
    found = {(own["policy"], own["target"]): own["status"] for own in record["receipts"]}
    assert found == {("must", "house"): "missed", ("forbid", "hut"): "met", ("forbid", "Hier"): "missed"}
