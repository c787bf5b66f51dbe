"""Documents, tags, forms and raw requests that are traps: the right refusal, nothing leaks, and the server goes on."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gated_backend import GatedBackend

LAUGHS = '<!ENTITY l0 "ha">' + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
SECRET = "what the file of the server says"


@pytest.fixture(scope="module")
def server(running: Callable[..., Any]) -> Iterator[Any]:
    with running(GatedBackend()) as server:
        yield server


@pytest.fixture(autouse=True)
def still_serving(server: Any) -> Iterator[None]:
    yield
    assert httpx.get(server.url + "/health").status_code == 200


@pytest.fixture(params=["laughs", "file", "parameter"])
def entities(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Definitions that grow to gigabytes, or that bring a file of the server along; &l9; asks for them."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    return {
        "laughs": LAUGHS,
        "file": f'<!ENTITY l9 SYSTEM "{secret.as_uri()}">',
        "parameter": f'<!ENTITY % p SYSTEM "{secret.as_uri()}"> %p;',
    }[request.param]


def xliff(entities: str) -> str:
    return (
        f'<?xml version="1.0"?><!DOCTYPE xliff [{entities}]><xliff version="1.2"><file source-language="de" '
        'original="a" datatype="plaintext"><body><trans-unit id="1"><source>&l9;</source></trans-unit></body>'
        "</file></xliff>"
    )


def upload(server: Any, name: str, content: bytes) -> httpx.Response:
    data = {"source": "de", "target": "en"}
    return httpx.post(server.url + "/translate_file", data=data, files={"file": (name, content)}, timeout=60)


def with_tags(server: Any, text: str, kind: str) -> httpx.Response:
    body = {"text": [text], "source_lang": "DE", "target_lang": "EN", "tag_handling": kind}
    return httpx.post(server.url + "/v2/translate", json=body, timeout=60)


def test_documents_that_define_entities_are_refused(server: Any, entities: str):
    answer = upload(server, "a.xlf", xliff(entities).encode())
    assert answer.status_code == 400
    assert "entities" in answer.json()["error"]
    assert SECRET not in answer.text


@pytest.mark.parametrize("kind", ["xml", "html"])
def test_entities_in_texts_with_tags_stay_what_they_are(server: Any, entities: str, kind: str):
    text = xliff(entities)
    answer = with_tags(server, text, kind)
    assert answer.status_code == 200
    translated = answer.json()["translations"][0]["text"]
    assert SECRET not in translated
    assert len(translated) < 2 * len(text)


@pytest.mark.parametrize("kind", ["xml", "html"])
@pytest.mark.parametrize(
    "text",
    [
        "<a>" * 5000 + "Haus" + "</a>" * 5000,
        "<div>" * 5000 + "Haus",
        "</a>" * 5000,
        "<" * 50_000,
        "<!--" * 5000,
        "<![CDATA[" * 5000,
        "<a " + "b='c' " * 5000 + ">Haus</a>",
        "&#0;&#xD800;&#x110000;&#99999999999999999999;&nope; Haus",
        "\x00\ufffe\ue000\uf8ff\u202e Haus",
    ],
)
def test_tags_that_are_nonsense_are_text(server: Any, text: str, kind: str):
    answer = with_tags(server, text, kind)
    assert answer.status_code == 200
    assert "suaH" in answer.json()["translations"][0]["text"] or "Haus" not in text


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("a.xlf", b'<xliff version="1.2">' + b"<g>" * 100_000, 400),
        ("a.xlf", b"<xliff", 400),
        ("a.html", b"<div>" * 5000 + b"Haus", 200),
        ("a.md", b">" * 20_000 + b" Haus", 200),
        ("a.md", b"[" * 5000, 200),
        ("a.po", b'msgid "a"\nmsgstr[99999999999999999999] ""\n', 200),
        ("a.txt", "Haus".encode("utf-16"), 400),
        ("a.txt", b"\xc3\x28", 400),
        ("a.tsv", b"a\x00b\tc\n", 400),
        ("a.exe", b"MZ", 400),
    ],
)
def test_documents_that_are_traps(server: Any, name: str, content: bytes, status: int):
    assert upload(server, name, content).status_code == status


@pytest.mark.parametrize(
    "name", ["../../secret.txt", "..\\..\\secret.txt", "/secret.txt", "a\x00b.txt", "." * 300 + ".txt"]
)
def test_the_name_of_a_document_leads_nowhere(server: Any, name: str):
    answer = upload(server, name, b"Haus")
    assert answer.status_code == 200
    fetched = httpx.get(answer.json()["translatedFileUrl"])
    assert fetched.text == "suaH"
    told = fetched.headers["content-disposition"]
    assert "/" not in told.removeprefix("attachment; filename*=UTF-8''")
    assert "\\" not in told


PART = b'--a\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n'
FILE = b'--a\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n1\r\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PART, "multipart/form-data"),
        (PART, "multipart/form-data; boundary=" + "a" * 5000),
        (FILE.removesuffix(b"1\r\n"), "multipart/form-data; boundary=a"),
        (PART * 2000 + b"--a--\r\n", "multipart/form-data; boundary=a"),
        (FILE * 20 + b"--a--\r\n", "multipart/form-data; boundary=a"),
        (b"--a\r\nX: y\r\n\r\n1\r\n--a--\r\n", "multipart/form-data; boundary=a"),
        (b"--a\r\nX: " + b"y" * 200_000 + b"\r\n\r\n1\r\n--a--\r\n", "multipart/form-data; boundary=a"),
        (FILE + b"--a--\r\n", "multipart/form-data; boundary=a; charset=nonsense"),
    ],
)
def test_forms_that_are_traps(server: Any, body: bytes, kind: str):
    answer = httpx.post(server.url + "/translate_file", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


def statuses(server: Any, data: bytes) -> list[int]:
    """Of all answers on one connection, until the server ends it."""
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        connection.sendall(data)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return [int(line.split()[1]) for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
        b"Content-Length: 0, 5\r\n\r\n",
        b"Content-Length: +0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"F" * 30 + b"\r\n",
        b"Host: elsewhere\r\nContent-Length: 0\r\n\r\n",
        b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
        b"X: a\rY: b\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_no_request_is_smuggled_behind_another(server: Any, framing: bytes):
    head = b"POST /v2/translate HTTP/1.1\r\nHost: localhost\r\n"
    assert statuses(server, head + framing + SMUGGLED) == [400]


@pytest.mark.parametrize("header", ["Host: [::1", "Host: [", "Host: localhost\r\nOrigin: http://["])
def test_names_that_are_none_are_foreign(server: Any, header: str):
    assert statuses(server, f"GET /v2/usage HTTP/1.1\r\n{header}\r\nConnection: close\r\n\r\n".encode()) == [403]


@pytest.mark.parametrize(
    "target",
    [
        "http://elsewhere/v2/usage",
        "//elsewhere/v2/usage",
        "/page/..%2frun.py",
        "/page/../run.py",
        "/download_file/..%2f..%2fsecret",
        "/v2/usage%00",
        "/v2/usage;a",
        "*",
    ],
)
def test_targets_lead_nowhere_else(server: Any, target: str):
    assert statuses(server, f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()) == [404]
