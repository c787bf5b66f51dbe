"""Who is served: keys, the machine itself, nobody else; and how often."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deepl
import httpx
import pytest
from gated_backend import until
from starlette.requests import Request

from termweave.errors import ConfigError
from termweave.server.access import Pace, require_this_machine
from termweave.server.backend import Backend
from termweave.server.database import Database
from termweave.server.keys import KeyStore
from termweave.server.observation import JsonLines
from termweave.server.problems import Problem
from termweave.server.run import require_store
from termweave.server.settings import Limits, Settings

BODY = {"text": ["ein Haus"], "source_lang": "DE", "target_lang": "EN-US"}


@dataclass
class Guarded:
    """A server with a key."""

    server: Any
    secret: str
    keys: KeyStore
    store: Path

    @property
    def url(self) -> str:
        return self.server.url

    def headers(self, scheme: str = "DeepL-Auth-Key") -> dict[str, str]:
        return {"Authorization": f"{scheme} {self.secret}"}


@pytest.fixture(scope="module")
def guarded(backend: Backend, running: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    store = tmp_path_factory.mktemp("guarded") / "store.sqlite"
    keys = KeyStore(Database(store))
    _, secret = keys.create("a team")
    with running(backend, store=store) as server:
        yield Guarded(server, secret, keys, store)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/translate"),
        ("GET", "/v2/languages"),
        ("GET", "/v2/usage"),
        ("GET", "/v2/glossaries"),
        ("POST", "/v3/glossaries"),
        ("POST", "/v1/translate"),
        ("POST", "/translate"),
        ("GET", "/languages"),
        ("POST", "/detect"),
        ("GET", "/metrics"),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "DeepL-Auth-Key tw-wrong"}, {"Authorization": "Basic eDp5"}])
def test_a_server_with_keys_serves_nobody_without(guarded: Guarded, method: str, path: str, headers: dict[str, str]):
    answer = httpx.request(method, guarded.url + path, headers=headers)
    assert answer.status_code == 403
    assert "uthorization failed" in answer.text


def test_health_needs_no_key(guarded: Guarded):
    assert httpx.get(guarded.url + "/health").json() == {"status": "ok"}
    brief = httpx.head(guarded.url + "/health")
    assert (brief.status_code, brief.content) == (200, b"")


def test_a_key_opens(guarded: Guarded):
    for scheme in ("DeepL-Auth-Key", "Bearer", "deepl-auth-key"):
        answer = httpx.post(guarded.url + "/v2/translate", json=BODY, headers=guarded.headers(scheme))
        assert answer.status_code == 200
    assert "termweave_requests_total" in httpx.get(guarded.url + "/metrics", headers=guarded.headers()).text
    by_body = {"q": "ein Haus", "source": "de", "target": "en", "api_key": guarded.secret}
    assert httpx.post(guarded.url + "/translate", json=by_body).status_code == 200


def test_deepls_client_understands_a_refusal(guarded: Guarded):
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("tw-wrong", server_url=guarded.url).get_usage()


def test_a_revoked_key_is_refused_by_a_running_server(guarded: Guarded):
    key, secret = guarded.keys.create("for a moment")
    headers = {"Authorization": f"DeepL-Auth-Key {secret}"}
    assert httpx.get(guarded.url + "/v2/usage", headers=headers).status_code == 200
    guarded.keys.revoke(key.id)
    assert httpx.get(guarded.url + "/v2/usage", headers=headers).status_code == 403


def test_a_quota_is_kept(guarded: Guarded):
    _, secret = guarded.keys.create("a small one", character_limit=20)
    client = deepl.DeepLClient(secret, server_url=guarded.url)
    client.translate_text("ein Haus am Fluss", source_lang="DE", target_lang="EN-US")
    usage = client.get_usage()
    assert (usage.character.count, usage.character.limit) == (17, 20)
    with pytest.raises(deepl.QuotaExceededException):
        client.translate_text("ein Haus am Fluss", source_lang="DE", target_lang="EN-US")


def test_too_many_requests_are_told_when_to_come_again(backend: Backend, running: Callable[..., Any], tmp_path: Path):
    _, secret = KeyStore(Database(tmp_path / "store")).create("an eager one")
    headers = {"Authorization": f"DeepL-Auth-Key {secret}"}
    settings = Settings(Limits(requests_per_minute=3))
    with running(backend, settings, tmp_path / "store") as server:
        statuses = [httpx.get(server.url + "/v2/usage", headers=headers).status_code for _ in range(4)]
        refused = httpx.get(server.url + "/v2/usage", headers=headers)
    assert statuses == [200, 200, 200, 429]
    assert 1 <= int(refused.headers["retry-after"]) <= 60


def test_pace_saves_up_for_a_minute_at_most():
    pace = Pace(60)
    for second in range(3):  # one a second is as many as come in
        pace.check("key", now=float(second))
    for _ in range(60):
        pace.check("key", now=10_000.0)
    with pytest.raises(Problem):
        pace.check("key", now=10_000.0)
    pace.check("another", now=10_000.0)
    pace.check("key", now=10_001.0)


# Without keys


def request(client: str = "127.0.0.1", version: str = "1.1", **headers: str) -> Request:
    given = {"host": "127.0.0.1:8080", **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    scope = {"type": "http", "http_version": version, "client": (client, 1234), "headers": raw}
    return Request({**scope, "method": "GET", "path": "/"})


@pytest.mark.parametrize(
    "own",
    [
        request(),
        request("::1", host="[::1]:8080"),
        request("127.0.0.5", host="localhost"),
        request(origin="http://localhost:8080"),
    ],
)
def test_this_machine_is_served_without_a_key(own: Request):
    require_this_machine(own)


@pytest.mark.parametrize(
    "foreign",
    [
        request("192.0.2.1"),
        request("::ffff:192.0.2.1"),
        request(x_forwarded_for="192.0.2.1"),
        request(x_forwarded_for="127.0.0.1"),
        request(forwarded="for=127.0.0.1"),
        request(x_real_ip="127.0.0.1"),
        request(version="1.0"),
        request(host="rebound.example"),
        request(host="127.0.0.1.example"),
        request(host=""),
        request(origin="https://page.example"),
        request(origin="null"),
    ],
)
def test_others_are_not(foreign: Request):
    with pytest.raises(Problem) as refused:
        require_this_machine(foreign)
    assert refused.value.status == 403


def test_headers_do_not_open_a_running_server(server: Any):
    assert httpx.get(server.url + "/v2/usage").status_code == 200
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"X-Forwarded-For": "127.0.0.1"}):
        assert httpx.get(server.url + "/v2/usage", headers=headers).status_code == 403


def ask_in_version(server: Any, version: str, **headers: str) -> bytes:
    """The answer to a request as nginx passes it on with its default settings, where the version is 1.0."""
    given = {"Host": f"127.0.0.1:{server.port}", "Connection": "close", **headers}
    lines = [f"GET /v2/usage HTTP/{version}", *(f"{name}: {value}" for name, value in given.items())]
    with socket.create_connection((server.host, server.port)) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_proxy_that_adds_no_headers_is_known_by_its_version(server: Any):
    assert ask_in_version(server, "1.1").startswith(b"HTTP/1.1 200")
    refused = ask_in_version(server, "1.0")
    assert refused.startswith(b"HTTP/1.1 403")
    assert b"keys create" in refused


def test_a_key_opens_through_such_a_proxy(guarded: Guarded):
    assert ask_in_version(guarded.server, "1.0", **guarded.headers()).startswith(b"HTTP/1.1 200")


def test_an_open_address_needs_keys(tmp_path: Path):
    for host in ("0.0.0.0", "192.0.2.1", "::", "some.example"):
        with pytest.raises(ConfigError, match="keys create"):
            require_store(host, tmp_path / "store")
    for host in ("127.0.0.1", "::1", "localhost"):
        require_store(host, tmp_path / "store")
    KeyStore(Database(tmp_path / "store")).create("a team")
    require_store("0.0.0.0", tmp_path / "store")


# Logs


def test_logs_are_json_and_hold_neither_texts_nor_keys(guarded: Guarded, caplog: pytest.LogCaptureFixture):
    secret_words = ["Geheimnis", "secretive", guarded.secret]
    with caplog.at_level(logging.INFO, logger="termweave.server"):
        headers = guarded.headers()
        httpx.post(guarded.url + "/v2/translate", json={**BODY, "text": ["Geheimnis"]}, headers=headers)
        httpx.get(guarded.url + "/v2/glossaries/Geheimnis?secretive=1", headers=headers)
        httpx.get(guarded.url + "/Geheimnis", headers=headers)
        httpx.post(guarded.url + "/v1/translate", json={"texts": "Geheimnis", "target": "en"}, headers=headers)
        clash = {"source": "Geheimnis", "target": "secretive", "case": "exact"}
        body = {"texts": ["Geheimnis"], "target": "en", "source": "de", "terms": [clash], "forbidden": ["secretive"]}
        refused = httpx.post(guarded.url + "/v1/translate", json=body, headers=headers)
        until(lambda: len(caplog.records) >= 5)  # a line is written when its answer is already sent
    assert refused.status_code == 400
    lines = [JsonLines().format(record) for record in caplog.records if record.name == "termweave.server"]
    records = [json.loads(line) for line in lines]
    routes = [record["route"] for record in records]
    assert routes == ["/v2/translate", "/v2/glossaries/{glossary_id}", "unknown", "/v1/translate", "/v1/translate"]
    assert records[0]["characters"] == len("Geheimnis")
    assert records[0]["key"] in {key.id for key in guarded.keys.list()}
    for line in lines:
        assert not any(word in line for word in secret_words)
