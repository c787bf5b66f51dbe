"""`termweave serve` as a process of its own, and `termweave keys`."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from server_process import serving

from termweave.errors import ConfigError
from termweave.server.database import Database
from termweave.server.keys import KeyStore
from termweave.server.run import serve
from termweave.server.settings import Settings

BODY = {"text": ["ein Haus am Fluss"], "source_lang": "DE", "target_lang": "EN-US"}


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """`serve` has the log written to the standard error of its test, which later tests do not have any more."""
    loggers = [logging.getLogger(name) for name in ("termweave.server", "uvicorn", "uvicorn.error")]
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_it_serves_remembers_and_stops(model_folder: Path, tmp_path: Path):
    store = tmp_path / "store.sqlite"
    glossary = {"name": "kept", "source_lang": "de", "target_lang": "en", "entries": "Haus\tbuilding"}
    with serving(model_folder, store) as [server]:
        made = httpx.post(server.address + "/v2/glossaries", json=glossary).json()
        server.kill()
    with serving(model_folder, store) as [server]:
        process, address = server.process, server.address
        body = {**BODY, "glossary_id": made["glossary_id"]}
        answer = httpx.post(address + "/v2/translate", json=body, timeout=60).json()
        assert "building" in answer["translations"][0]["text"]
        long = {**BODY, "text": ["ein Haus am Fluss"] * 60}
        answers = []
        client = threading.Thread(
            target=lambda: answers.append(httpx.post(address + "/v2/translate", json=long, timeout=120))
        )
        client.start()
        while "termweave_queued_requests 1.0" not in httpx.get(address + "/metrics").text:
            assert client.is_alive(), "it was too fast to be seen waiting"
        process.send_signal(signal.SIGTERM)
        client.join()
        process.wait()
        assert len(answers[0].json()["translations"]) == 60


def test_a_full_disk_and_a_broken_store_are_told_and_pass(model_folder: Path, tmp_path: Path):
    """The system refuses to write, as on a full disk; then the file is overwritten with nonsense."""
    store = tmp_path / "store.sqlite"
    glossary = {"name": "kept", "source_lang": "de", "target_lang": "en", "entries": "Haus\tbuilding"}
    document = {"data": {"source": "de", "target": "en"}, "files": {"file": ("a.txt", b"ein Haus")}}
    with serving(model_folder, store) as [server]:
        process, address = server.process, server.address

        def create() -> httpx.Response:
            return httpx.post(address + "/v2/glossaries", json=glossary)

        def translate_file() -> httpx.Response:
            return httpx.post(address + "/translate_file", **document, timeout=60)

        assert create().status_code == 201
        _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        refused = [create(), translate_file()]
        assert [own.status_code for own in refused] == [503, 503]
        assert all(int(own.headers["retry-after"]) > 0 for own in refused)
        assert "store" in refused[0].json()["message"]
        assert "full" in refused[1].json()["error"]
        assert len(httpx.get(address + "/v2/glossaries").json()["glossaries"]) == 1
        assert httpx.post(address + "/v2/translate", json=BODY, timeout=60).status_code == 200, "needs no disk"
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
        assert [create().status_code, translate_file().status_code] == [201, 200]
        for file in tmp_path.glob("store.sqlite*"):
            file.unlink()
        store.write_bytes(b"this is no store" * 1000)
        assert create().status_code == 503
        store.unlink()
        assert create().status_code == 201


def test_a_port_in_use_is_told_before_the_model_is_loaded(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="choose another --port"):
            serve(tmp_path / "nowhere", tmp_path / "store", "127.0.0.1", port, "cpu", "float32", Settings())


def newer(path: Path) -> None:
    database = Database(path)
    with database.reading() as connection:
        connection.execute("PRAGMA user_version = 99")
    database.close()


def damaged(path: Path) -> None:
    """Its beginning is whole, so that it looks like a store."""
    database = Database(path)
    KeyStore(database).create("a team")
    database.close()
    first_page = path.read_bytes()[:4096]
    path.write_bytes(first_page + b"nonsense" * 5000)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (newer, "format 99"),
        (damaged, "malformed"),
        (lambda path: path.write_text("Haus\tbuilding\n" * 100, "utf-8"), "not a database"),
        (lambda path: path.mkdir(), "the store cannot be used"),
    ],
)
def test_a_store_that_cannot_work_is_told_before_the_model_is_loaded(
    termweave: Callable[..., tuple[int, str, str]], tmp_path: Path, spoil: Callable[[Path], object], said: str
):
    store = tmp_path / "store.sqlite"
    spoil(store)
    code, _, errors = termweave("serve", "--model", "nowhere", "--port", 0, "--store", store)
    assert code == 1
    assert said in errors
    assert str(store) in errors.replace("\n", "")
    assert "Traceback" not in errors


def test_a_folder_that_cannot_be_made_and_a_database_out_of_reach_are_told_too(
    termweave: Callable[..., tuple[int, str, str]], tmp_path: Path
):
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]  # nobody listens there when it is closed
    for store in (tmp_path / "file" / "store.sqlite", f"postgresql://termweave@127.0.0.1:{port}/termweave"):
        code, _, errors = termweave("serve", "--model", "nowhere", "--port", 0, "--store", store)
        assert code == 1
        assert "the store cannot be used" in errors


def test_keys_are_made_listed_and_revoked(termweave: Callable[..., tuple[int, str, str]], tmp_path: Path):
    store = tmp_path / "store.sqlite"
    code, secret, said = termweave("keys", "create", "a team", "--store", store, "--characters", 5000)
    assert code == 0
    assert secret.startswith("tw-")
    identifier = said.split()[1]
    _, listed, _ = termweave("keys", "list", "--store", store)
    assert identifier in listed
    assert "5,000" in listed
    assert "valid" in listed
    assert secret.strip() not in listed
    assert termweave("keys", "revoke", identifier, "--store", store)[0] == 0
    assert "revoked" in termweave("keys", "list", "--store", store)[1]


@pytest.mark.parametrize("arguments", [("list",), ("revoke", "1f3a9c22")])
def test_looking_for_keys_makes_no_store(
    termweave: Callable[..., tuple[int, str, str]], tmp_path: Path, arguments: tuple[str, ...]
):
    code, listed, errors = termweave("keys", *arguments, "--store", tmp_path / "typo.sqlite")
    assert (code, listed) == (1, "")
    assert "there is no store" in errors
    assert not any(tmp_path.iterdir())


def test_a_key_that_is_not_there_is_told(termweave: Callable[..., tuple[int, str, str]], tmp_path: Path):
    store = tmp_path / "store.sqlite"
    termweave("keys", "create", "a team", "--store", store)
    code, _, errors = termweave("keys", "revoke", "nothing", "--store", store)
    assert code == 1
    assert "no key" in errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--model", "nowhere", "--batch-tokens"),
        ("serve", "--model", "nowhere", "--queue-tokens"),
        ("serve", "--model", "nowhere", "--requests-per-minute"),
        ("keys", "create", "a team", "--characters"),
    ],
)
def test_numbers_beyond_all_bounds_are_refused(
    termweave: Callable[..., tuple[int, str, str]], tmp_path: Path, arguments: tuple[str, ...]
):
    store = tmp_path / "store.sqlite"
    code, _, errors = termweave(*arguments, 99999999999999999999, "--store", store)
    assert code == 2
    assert "1000000000" in errors, "the maximum is told"
    assert not store.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("keys", "create", " "), "name"),
        (("keys", "create", "a\nteam"), "printable"),
        (("keys", "create", "\x1b[2Jteam"), "printable"),
        (("keys", "create", "\udcff"), "printable"),
        (("serve", "--model", "nowhere", "--host", "0.0.0.0"), "keys create"),
        (("serve", "--model", "nowhere", "--port", "0"), "no model.json"),
    ],
)
def test_mistakes_are_told(
    termweave: Callable[..., tuple[int, str, str]], tmp_path: Path, arguments: tuple[str, ...], said: str
):
    code, _, errors = termweave(*arguments, "--store", tmp_path / "store.sqlite")
    assert code == 1
    assert said in errors
