"""Termweave's own interface: terms, policies, receipts, n-best."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

CLASH = {"source": "Haus", "target": "house", "case": "exact"}
SENTENCE = "der alte Müller verkauft Mehl"


def post(server: Any, **body: Any) -> httpx.Response:
    return httpx.post(server.url + "/v1/translate", json={"source": "de", "target": "en", **body}, timeout=60)


def translate(server: Any, text: str, **body: Any) -> dict[str, Any]:
    answer = post(server, texts=[text], **body)
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]


def holds(text: str, phrase: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None


def test_receipts_say_where_terms_stand(server: Any):
    text = "  Ein Haus am Fluss. Der Müller schläft.\nEin Haus."
    terms = [{"source": "Müller", "target": "old miller"}, {"source": "Haus", "target": "building"}]
    found = translate(server, text, terms=terms)
    places = [(receipt["source"], receipt["target"]) for receipt in found["receipts"]]
    assert places == [("Haus", "building"), ("Müller", "old miller"), ("Haus", "building")]
    for receipt in found["receipts"]:
        assert (receipt["status"], receipt["found"]) == ("met", receipt["target"])
        start, end = receipt["source_span"]
        assert text[start:end] == receipt["source"]
        start, end = receipt["target_span"]
        assert found["text"][start:end] == receipt["target"]
    assert found["source"] == "de"


def test_any_alternative_will_do(server: Any):
    term = {"source": "Mehl", "target": "flour", "alternatives": ["meal", "powder"]}
    (receipt,) = translate(server, SENTENCE, terms=[term])["receipts"]
    assert receipt["target"] == "flour"
    assert receipt["found"] in ("flour", "meal", "powder")
    assert receipt["status"] == ("met" if receipt["found"] == "flour" else "met by alternative")


def test_what_is_kept_is_not_translated(server: Any):
    found = translate(server, SENTENCE, terms=[{"source": "Müller", "policy": "keep"}])
    assert holds(found["text"], "Müller")
    assert (found["receipts"][0]["policy"], found["receipts"][0]["status"]) == ("keep", "kept")


def test_addresses_and_placeholders_are_kept(server: Any):
    found = translate(server, "Der Müller: %s, https://muehle.example/mehl?a=1")
    assert "%s" in found["text"]
    assert "https://muehle.example/mehl?a=1" in found["text"]
    assert [receipt["status"] for receipt in found["receipts"]] == ["kept", "kept"]


def test_tags_come_through_and_spans_are_true(server: Any):
    text = "Ein <b>Haus am Fluss. Der alte</b> Müller <i>verkauft</i> Mehl."
    answer = translate(server, text, terms=[{"source": "Haus", "target": "house"}], nbest=2)
    for own in (answer, *answer["others"]):
        assert sorted(re.findall("<[^>]*>", own["text"])) == ["</b>", "</i>", "<b>", "<i>"]
        assert own["text"].index("<b>") < own["text"].index("</b>")
        (receipt,) = own["receipts"]
        assert text[slice(*receipt["source_span"])] == "Haus"
        assert own["text"][slice(*receipt["target_span"])] == "house"
        assert [text[slice(*pair["source_span"])][-1] for pair in own["sentences"]] == [".", "."]


def test_a_wish_may_be_missed_and_is_told(server: Any):
    term = {"source": "Mehl", "target": "unheard of", "policy": "prefer"}
    (receipt,) = translate(server, SENTENCE, terms=[term])["receipts"]
    assert receipt["policy"] == "prefer"
    assert receipt["status"] in ("met", "missed")


def test_letter_case_is_carried_over(server: Any):
    found = translate(server, "DER MÜLLER", terms=[{"source": "Müller", "target": "miller"}])
    assert found["receipts"][0]["target"] == "MILLER"
    exact = {"source": "Müller", "target": "miller", "case": "exact"}
    assert translate(server, "DER MÜLLER", terms=[exact])["receipts"] == []


def test_what_is_forbidden_is_avoided(server: Any):
    plain = translate(server, SENTENCE)["text"]
    word = re.findall(r"\w+", plain)[0]
    found = translate(server, SENTENCE, terms=[{"source": "Mehl", "target": word, "policy": "forbid"}])
    assert not holds(found["text"], word)
    assert (found["receipts"][0]["policy"], found["receipts"][0]["status"]) == ("forbid", "met")
    elsewhere = translate(server, SENTENCE, terms=[{"source": "Fluss", "target": word, "policy": "forbid"}])
    assert elsewhere["text"] == plain, "it is forbidden only where its source occurs"
    assert not holds(translate(server, SENTENCE, forbidden=[word])["text"], word)


def test_terms_of_the_request_come_before_those_of_glossaries(server: Any):
    body = {"name": "g", "source_lang": "de", "target_lang": "en", "entries": "Müller\tgrinder\nMehl\tpowder"}
    glossary = httpx.post(server.url + "/v2/glossaries", json=body).json()["glossary_id"]
    found = translate(server, SENTENCE, terms=[{"source": "Müller", "target": "farmer"}], glossaries=[glossary])
    assert [receipt["target"] for receipt in found["receipts"]] == ["farmer", "powder"]


def test_several_translations_each_with_receipts(server: Any):
    found = translate(server, SENTENCE, terms=[{"source": "Mehl", "target": "flour"}], nbest=3)
    assert 1 <= len(found["others"]) <= 2
    every = [found, *found["others"]]
    assert len({own["text"] for own in every}) == len(every)
    assert all(holds(own["text"], "flour") for own in every)
    assert all(own["receipts"][0]["status"] == "met" for own in every)


def test_the_order_can_be_asked_for(server: Any):
    terms = [{"source": "Müller", "target": "miller"}, {"source": "Mehl", "target": "flour"}]
    first, second = translate(server, SENTENCE, terms=terms, ordered=True)["receipts"]
    assert first["target_span"][1] <= second["target_span"][0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "texts"),
        ({"texts": []}, "texts"),
        ({"texts": ["a"], "unknown": 1}, "unknown"),
        ({"texts": ["a"], "beam": 0}, "beam"),
        ({"texts": ["a"], "beam": 10_000}, "beam"),
        ({"texts": ["a"], "nbest": 9}, "nbest"),
        ({"texts": ["a"], "length_penalty": -1}, "length_penalty"),
        ({"texts": ["a"], "search": "greedy"}, "search"),
        ({"texts": ["a"], "terms": [{"source": "a"}]}, "no target"),
        ({"texts": ["a"], "terms": [{"source": "a", "target": "b", "policy": "keep"}]}, "kept"),
        ({"texts": ["a"], "terms": [{"source": "a", "target": " "}]}, "empty"),
        ({"texts": ["a"], "terms": [{"source": "a", "target": "b", "policy": "maybe"}]}, "policy"),
        ({"texts": ["Haus"], "terms": [CLASH], "forbidden": ["house"]}, "forbidden"),
        ({"texts": ["a"], "search": "beam", "forbidden": ["b"]}, "vdba"),
        ({"texts": ["a"], "target": "fr"}, "target_lang"),
    ],
)
def test_what_is_wrong_is_said(server: Any, body: dict[str, Any], said: str):
    answer = post(server, **body)
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["message"] + answer.json()["detail"]


def test_an_unknown_glossary_is_404(server: Any):
    assert post(server, texts=["a"], glossaries=["nothing"]).status_code == 404


def test_probabilities_come_if_asked_for(server: Any):
    term = {"source": "Mehl", "target": "flour"}
    assert translate(server, SENTENCE, terms=[term])["receipts"][0]["probability"] is None
    found = translate(server, SENTENCE, terms=[term], probabilities=True, nbest=2)
    for own in (found, *found["others"]):
        assert 0 < own["receipts"][0]["probability"] <= 1


def test_sentences_are_told_with_their_translations(server: Any):
    text = "Ein Haus am Fluss. Der Müller schläft."
    found = translate(server, text, nbest=2)
    for own in (found, *found["others"]):
        here = [text[slice(*pair["source_span"])] for pair in own["sentences"]]
        there = [own["text"][slice(*pair["target_span"])] for pair in own["sentences"]]
        assert here == ["Ein Haus am Fluss.", "Der Müller schläft."]
        assert re.sub(r"\s", "", "".join(there)) == re.sub(r"\s", "", own["text"])


def test_what_the_model_looks_at_is_told(server: Any):
    body = {"text": SENTENCE, "translation": "the miller", "source": "de", "target": "en"}
    plain = httpx.post(server.url + "/v1/inspect", json=body).json()
    seen = httpx.post(server.url + "/v1/inspect", json=body | {"terms": [{"source": "Mehl", "target": "flour"}]}).json()
    assert not plain["term_pieces"]
    assert "".join(seen["term_pieces"]).strip("▁") == "Mehl"
    assert len(seen["attention"]) == len(seen["output_pieces"]) == len(seen["gates"])
    for row in seen["attention"]:
        assert len(row) == len(seen["source_pieces"]) + len(seen["term_pieces"])
        assert sum(row) == pytest.approx(1, abs=0.01)
    long = httpx.post(server.url + "/v1/inspect", json=body | {"text": SENTENCE * 100})
    assert long.status_code == 413


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"text": ""}, 200),
        ({"translation": ""}, 200),
        ({"terms": [{"source": "", "target": "a"}]}, 400),
        ({"terms": [{"source": "not there", "target": "a"}]}, 200),
        ({"target": "fr"}, 400),
        ({"source": "en"}, 400),
        ({"unknown": 1}, 400),
    ],
)
def test_what_can_be_inspected(server: Any, change: dict[str, Any], wanted: int):
    body = {"text": SENTENCE, "translation": "the miller", "source": "de", "target": "en"}
    answer = httpx.post(server.url + "/v1/inspect", json=body | change)
    assert answer.status_code == wanted, answer.text
