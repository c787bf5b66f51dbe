"""LibreTranslate's interface, by its Python client and by hand."""

from __future__ import annotations

from typing import Any
from urllib.error import HTTPError

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

SENTENCE = "der alte Müller verkauft Mehl"


@pytest.fixture
def client(server: Any) -> LibreTranslateAPI:
    return LibreTranslateAPI(server.url)


def test_the_client_translates(client: LibreTranslateAPI):
    assert client.translate(SENTENCE, "de", "en")


def test_the_client_lists_languages(client: LibreTranslateAPI):
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Das alte Haus steht am Fluss.", "de"),
        ("The old house stands by the river.", "en"),
        ("我们在河边有一座房子。", "zh"),
    ],
)
def test_the_client_detects(client: LibreTranslateAPI, text: str, language: str):
    first = client.detect(text)[0]
    assert first["language"] == language
    assert 0 < first["confidence"] <= 100


@pytest.mark.parametrize("text", [" ", "\n", "1,234.5", "🌷 🌷", "?!"])
def test_a_text_without_letters_is_in_no_language(client: LibreTranslateAPI, text: str):
    assert client.detect(text) == [{"language": "en", "confidence": 0.0}]


def test_an_empty_text_has_nothing_to_detect(client: LibreTranslateAPI):
    with pytest.raises(HTTPError) as caught:
        client.detect("")
    assert caught.value.code == 400
    assert b"'q'" in caught.value.read()


def test_the_client_sees_errors(client: LibreTranslateAPI):
    with pytest.raises(HTTPError) as caught:
        client.translate(SENTENCE, "de", "fr")
    assert caught.value.code == 400
    assert b"'target'" in caught.value.read()


def post(server: Any, **body: Any) -> httpx.Response:
    return httpx.post(server.url + "/translate", json={"source": "de", "target": "en", **body}, timeout=30)


def test_a_list_is_answered_with_a_list(server: Any):
    texts = ["ein Haus", SENTENCE]
    together = post(server, q=texts).json()["translatedText"]
    assert together == [post(server, q=text).json()["translatedText"] for text in texts]
    assert isinstance(post(server, q=["ein Haus"]).json()["translatedText"], list)


def test_alternatives(server: Any):
    answer = post(server, q=SENTENCE, alternatives=3).json()
    assert 1 <= len(answer["alternatives"]) <= 3
    assert answer["translatedText"] not in answer["alternatives"]
    assert "alternatives" not in post(server, q=SENTENCE).json()
    several = post(server, q=[SENTENCE, "ein Haus"], alternatives=1).json()
    assert [len(own) for own in several["alternatives"]] == [1, 1]


def test_the_language_is_detected_if_asked_for(server: Any):
    answer = post(server, q="Das alte Haus steht am Fluss.", source="auto").json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert "detectedLanguage" not in post(server, q="ein Haus").json()


def test_an_empty_text_has_an_empty_translation(server: Any):
    assert post(server, q="").json() == {"translatedText": ""}
    assert post(server, q=[" \n", ""]).json() == {"translatedText": [" \n", ""]}


@pytest.mark.parametrize(
    "body",
    [
        {"q": SENTENCE, "format": "pdf"},
        {"q": SENTENCE, "format": "html", "alternatives": 1},
        {"q": SENTENCE, "alternatives": 100},
        {"q": SENTENCE, "alternatives": "many"},
        {"q": 3},
        {"q": None},
        {"q": SENTENCE, "source": "xx"},
        {"q": SENTENCE, "target": "de"},
    ],
)
def test_what_is_wrong_is_said(server: Any, body: dict[str, Any]):
    answer = post(server, **body)
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
