"""What no friendly client sends: the right refusal, always in the same form, and a server that goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gated_backend import until

MEBIBYTE = 2**20
DEEP = b"[" * 100_000 + b"]" * 100_000
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(autouse=True)
def still_serving(server: Any) -> Iterator[None]:
    yield
    assert httpx.get(server.url + "/health").status_code == 200


def refused(answer: httpx.Response, status: int) -> dict[str, str]:
    """Every refusal is JSON with two texts."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"message", "detail"}
    assert all(isinstance(text, str) for text in body.values())
    return body


@pytest.mark.parametrize("path", ["/v2/translate", "/v3/glossaries", "/v1/translate", "/v2/glossaries"])
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", JSON),
        (b"{", JSON),
        (b"[]", JSON),
        (b"null", JSON),
        (b"3", JSON),
        (DEEP, JSON),
        (b'{"text": ' + DEEP[:20_000] + b"}", JSON),
        (b'{"text": ["\xff\xfe"], "target_lang": "EN"}', JSON),
        (b'{"text": ["\\ud800"], "target_lang": "EN", "texts": ["\\ud800"], "target": "en"}', JSON),
        (b'{"text": NaN, "texts": NaN}', JSON),
        (b'{"text": ' + b"9" * 5000 + b"}", JSON),
        (b'{"text": {"a": 1}, "target_lang": ["EN"], "name": {}, "dictionaries": 3}', JSON),
        (b'{"text": [null], "texts": [null], "target_lang": "EN"}', JSON),
        (b"text=%ff%fe&target_lang=EN", FORM),
        (b"\xff\xfe", FORM),
        (b"&".join(b"text=a" for _ in range(20_000)), FORM),
        (b"dictionaries[0].entries=a&dictionaries[9999].x=1&name=a", FORM),
    ],
)
def test_bodies_that_are_nonsense(server: Any, path: str, body: bytes, headers: dict[str, str]):
    refused(httpx.post(server.url + path, content=body, headers=headers), 400)


@pytest.mark.parametrize(
    ("path", "size"),
    [("/v2/translate", 2 * MEBIBYTE), ("/v1/translate", 10 * MEBIBYTE), ("/v2/glossaries", 21 * MEBIBYTE)],
)
@pytest.mark.parametrize("announced", [True, False])
def test_bodies_that_are_too_large(server: Any, path: str, size: int, announced: bool):
    def chunks() -> Iterator[bytes]:
        for _ in range(size // 65536):
            yield b"a" * 65536

    content = b"a" * size if announced else chunks()
    refused(httpx.post(server.url + path, content=content, headers=JSON), 413)


def test_what_is_refused_unread_is_counted_by_its_route(server: Any):
    refused(httpx.post(server.url + "/v1/inspect", content=b"a" * 2 * MEBIBYTE, headers=JSON), 413)
    counted = 'termweave_requests_total{method="POST",route="/v1/inspect",status="413"} 1.0'
    until(lambda: counted in httpx.get(server.url + "/metrics").text)  # it is counted when its answer is already sent


def test_a_glossary_that_is_too_large(server: Any):
    entries = "\n".join(f"{'a' * 90}{number}\t{'b' * 90}" for number in range(60_000))
    body = {"name": "large", "source_lang": "de", "target_lang": "en", "entries": entries}
    refused(httpx.post(server.url + "/v2/glossaries", json=body, timeout=60), 413)


def test_too_many_texts(server: Any):
    body = {"text": ["a"] * 1001, "target_lang": "EN", "source_lang": "DE"}
    refused(httpx.post(server.url + "/v2/translate", json=body), 413)


def test_too_many_sentences(server: Any):
    body = {"text": ["Ja. " * 30_000], "target_lang": "EN", "source_lang": "DE"}
    refused(httpx.post(server.url + "/v2/translate", json=body, timeout=60), 413)


@pytest.mark.parametrize("headers", [{"Content-Type": "text/plain"}, {"Content-Type": "application/xml"}])
def test_other_kinds_of_bodies(server: Any, headers: dict[str, str]):
    refused(httpx.post(server.url + "/v2/translate", content=b"<a/>", headers=headers), 415)


def test_compressed_bodies_are_not_unpacked(server: Any):
    headers = {**JSON, "Content-Encoding": "gzip"}
    refused(httpx.post(server.url + "/v2/translate", content=b"\x1f\x8b", headers=headers), 415)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/glossaries/..%2f..%2fetc%2fpasswd",
        "/v2/glossaries/%00",
        "/v2/glossaries/%ff",
        "/v2/glossaries/' OR 1=1 --",
        "/v3/glossaries/" + "a" * 5000,
        "/v2/../../etc/passwd",
        "/etc/passwd",
        "//v2//translate",
    ],
)
def test_paths_lead_nowhere_else(server: Any, path: str):
    answer = raw(
        server, f"GET {path.replace(' ', '%20')} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 404"), answer[:100]
    assert set(json.loads(answer.partition(b"\r\n\r\n")[2])) == {"message", "detail"}


def test_methods_that_do_not_exist(server: Any):
    refused(httpx.delete(server.url + "/v2/translate"), 405)
    refused(httpx.request("BREW", server.url + "/v2/translate"), 405)
    assert httpx.put(server.url + "/v3/glossaries/a").headers["allow"] == "DELETE, GET, PATCH"


def raw(server: Any, data: bytes) -> bytes:
    with socket.create_connection((server.host, server.port), timeout=20) as connection:
        connection.sendall(data)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999999999\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Header with space: a\r\n",
        b"X: " + b"a" * 100_000 + b"\r\n",
    ],
)
def test_headers_that_are_tricks(server: Any, headers: bytes):
    head = b"POST /v2/translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + b"\r\n"
    answer = raw(server, head + b"0\r\n\r\n")
    assert 400 <= int(answer.split(b" ", 2)[1]) < 500


def test_no_header_is_made_from_a_request(server: Any):
    answer = httpx.get(server.url + "/v2/glossaries/a%0d%0aSet-Cookie:%20b=c")
    refused(answer, 404)
    assert "set-cookie" not in answer.headers


def test_errors_of_libretranslates_routes_are_theirs(server: Any):
    answer = httpx.post(server.url + "/translate", json={"q": "a", "source": "de", "target": "xx"})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


def test_an_unforeseen_error_is_a_500_without_its_words(server: Any, monkeypatch: pytest.MonkeyPatch):
    def fail() -> list[Any]:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(server.service.glossaries, "list", fail)
    body = refused(httpx.get(server.url + "/v2/glossaries"), 500)
    assert "secret" not in str(body)


def test_a_store_that_fails_is_a_503(server: Any, monkeypatch: pytest.MonkeyPatch):
    from termweave.errors import StoreError

    def fail() -> list[Any]:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(server.service.glossaries, "list", fail)
        answer = httpx.get(server.url + "/v2/glossaries")
        refused(answer, 503)
        assert answer.headers["retry-after"]
    assert httpx.get(server.url + "/v2/glossaries").status_code == 200
