"""What only PostgreSQL does: addresses, a start of several at once, connections that are bounded, cut and made anew."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from postgres_server import PASSWORD, PostgresServer

from termweave.errors import ConfigError, StoreError
from termweave.server import postgres as module
from termweave.server.database import Database
from termweave.server.keys import KeyStore
from termweave.server.postgres import CONNECTIONS, Address
from termweave.server.settings import Limits
from termweave.server.store import GlossaryStore


def test_an_address_is_read_and_told_without_its_password():
    address = Address.of("postgresql://ada:a%20p%40ss%2Fword@db.example:6000/terms?sslmode=require")
    assert (address.user, address.host, address.port, address.database) == ("ada", "db.example", 6000, "terms")
    assert (address.password, address.tls) == ("a p@ss/word", "require")
    assert str(address) == "postgresql://ada@db.example:6000/terms"
    assert address.password not in repr(address)
    local = Address.of("postgres://ada@/terms?host=/run/postgresql")
    assert (local.host, local.port, local.password) == ("/run/postgresql", 5432, "")


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://ada:geheim/nis@db.example/terms",
        "postgresql://ada:[geheim@db.example/terms",
        "postgresql://:geheim@db.example/terms",
        "postgresql://ada:geheim@db.example",
        "postgresql://ada:geheim@db.example:port/terms",
        "postgresql://ada:geheim@db.example/terms?sslmode=perhaps",
        "postgresql://ada:geheim@db.example/terms?geheim=1",
        "postgresql:/ada:geheim@db.example/terms",
        "mysql://ada:geheim@db.example/terms",
    ],
)
def test_wrong_addresses_are_told_without_being_repeated(wrong: str):
    with pytest.raises(ConfigError, match="--store") as refused:
        Database(wrong)
    assert "geheim" not in str(refused.value)


def test_a_missing_driver_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pg8000.native", None)
    with pytest.raises(ConfigError, match=r"pip install 'termweave\[postgres\]'"):
        Database("postgresql://ada@db.example/terms")


def test_a_wrong_password_is_told_without_it(postgres: PostgresServer):
    setting = postgres.fresh_store().replace("a%20p%40ss%2Fword", "geheim")
    with pytest.raises(StoreError, match="password authentication failed") as refused:
        KeyStore(Database(setting)).list()
    assert "geheim" not in str(refused.value)


def test_encryption_that_is_wanted_is_not_gone_without(postgres: PostgresServer):
    setting = postgres.fresh_store()
    KeyStore(Database(setting)).list()
    for mode in ("require", "verify-full"):
        with pytest.raises(StoreError, match="refuses SSL"):
            KeyStore(Database(f"{setting}?sslmode={mode}")).list()


def test_servers_that_start_at_the_same_moment_make_one_store(postgres: PostgresServer):
    setting, together = postgres.fresh_store(), threading.Barrier(6)

    def start(number: int) -> str:
        keys = KeyStore(Database(setting))
        together.wait()
        return keys.create(f"key {number}")[0].id

    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(start, range(6)))
    assert {key.id for key in KeyStore(Database(setting)).list()} == set(made)
    assert len(set(made)) == 6


def test_a_store_of_another_format_is_refused(postgres: PostgresServer):
    setting = postgres.fresh_store()
    with Database(setting).writing() as connection:
        connection.execute("UPDATE format SET number = 99")
    with pytest.raises(StoreError, match="format 99"):
        KeyStore(Database(setting)).list()


def test_a_database_of_another_encoding_is_refused(postgres: PostgresServer):
    postgres.query("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    setting = postgres.fresh_store().rpartition("/")[0] + "/latin"
    with pytest.raises(StoreError, match=r"LATIN1.*ENCODING 'UTF8'"):
        KeyStore(Database(setting)).list()


def connections(server: PostgresServer, setting: str) -> int:
    name = setting.rpartition("/")[2]
    [(count,)] = server.query(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'")
    return int(count)


def test_connections_are_bounded_shared_and_given_back(postgres: PostgresServer):
    setting = postgres.new_store()
    database = Database(setting)
    inside, leave = threading.Barrier(CONNECTIONS + 1), threading.Event()

    def stay() -> None:
        with database.reading() as connection:
            connection.execute("SELECT 1")
            inside.wait()
            leave.wait()

    def ask() -> list[Any]:
        with database.reading() as connection:
            return connection.execute("SELECT 7").fetchone()

    with ThreadPoolExecutor(2 * CONNECTIONS) as threads:
        staying = [threads.submit(stay) for _ in range(CONNECTIONS)]
        inside.wait()
        waiting = threads.submit(ask)
        assert connections(postgres, setting) == CONNECTIONS
        assert not waiting.done(), "there was no connection left for it"
        leave.set()
        assert list(waiting.result()) == [7]
        assert [own.result() for own in staying] == [None] * CONNECTIONS
    assert connections(postgres, setting) == CONNECTIONS
    database.close()


def test_cut_connections_are_not_noticed(postgres: PostgresServer):
    setting = postgres.fresh_store()
    keys = KeyStore(Database(setting))
    key, secret = keys.create("a team")
    postgres.cut_connections(setting.rpartition("/")[2])
    assert keys.find(secret) == key


def test_a_database_that_falls_silent_is_waited_for_once(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_SILENCE", 0.5)
    database = Database(postgres.fresh_store())
    with database.reading() as first, database.reading() as second:
        silent = [own.execute("SELECT pg_backend_pid()").fetchone()[0] for own in (first, second)]
    for process in silent:
        os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match="timed out"), database.reading():
            pass
        with database.reading() as connection:
            assert connection.execute("SELECT pg_backend_pid()").fetchone()[0] not in silent
    finally:
        for process in silent:
            os.kill(process, signal.SIGCONT)


def test_a_transaction_that_is_cut_leaves_nothing(postgres: PostgresServer):
    setting = postgres.fresh_store()
    database = Database(setting)
    with pytest.raises(StoreError), database.writing() as connection:
        connection.execute("INSERT INTO usage VALUES (?, ?, ?)", ("a", "2026-01", 1))
        postgres.cut_connections(setting.rpartition("/")[2])
        connection.execute("INSERT INTO usage VALUES (?, ?, ?)", ("b", "2026-01", 1))
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM usage").fetchone()[0] == 0


def test_a_writer_that_waits_too_long_is_told(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(module._SESSION, "lock_timeout", "50ms")
    setting = postgres.fresh_store()
    slow, other = Database(setting), KeyStore(Database(setting))
    other.list()
    with slow.writing() as connection:
        connection.execute("SELECT 1")
        with pytest.raises(StoreError, match="lock timeout"):
            other.create("too late")
    assert other.create("in time")[0].name == "in time"


def test_answers_wait_for_the_disk_even_where_the_database_is_hasty(postgres: PostgresServer):
    setting = postgres.new_store()
    postgres.query(f"ALTER DATABASE {setting.rpartition('/')[2]} SET synchronous_commit = off")
    with Database(setting).reading() as connection:
        assert connection.execute("SELECT current_setting('synchronous_commit')").fetchone()[0] == "on"


def test_stopped_and_started_again(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_REST", 0.0)
    keys = KeyStore(Database(postgres.fresh_store()))
    key, secret = keys.create("a team")
    postgres.stop()
    for _ in range(2):
        with pytest.raises(StoreError, match="refused") as failed:
            keys.find(secret)
        assert PASSWORD not in str(failed.value)
    postgres.start()
    assert keys.find(secret) == key


def test_after_a_failure_attempts_are_spared(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_REST", 1e6)
    keys = KeyStore(Database("postgresql://ada@127.0.0.1:1/terms"))
    with pytest.raises(StoreError, match="refused"):
        keys.list()
    with pytest.raises(StoreError, match="a moment ago"):
        keys.list()


@pytest.mark.parametrize("call", ["get", "delete"])
def test_identifiers_that_cannot_be_stored_are_not_found(store: str, call: str):
    with pytest.raises(Exception, match="not found"):
        getattr(GlossaryStore(Database(store), Limits()), call)("a\0b")


def test_the_command_for_keys_takes_an_address(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, termweave: Callable[..., tuple[int, str, str]]
):
    setting = postgres.fresh_store()
    code, secret, said = termweave("keys", "create", "a team", "--store", setting)
    assert (code, secret[:3]) == (0, "tw-")
    assert "TERMWEAVE_STORE" in said, "the password stood in the command"
    monkeypatch.setenv("TERMWEAVE_STORE", setting)
    code, listed, said = termweave("keys", "list")
    assert (code, "a team" in listed, said) == (0, True, "")
    assert termweave("keys", "revoke", listed.split()[0])[0] == 0
    assert KeyStore(Database(setting)).find(secret.strip()) is None
    code, _, said = termweave("serve", "--model", "nowhere", "--host", "0.0.0.0", "--store", postgres.fresh_store())
    assert (code, "keys create" in said) == (1, True)
    assert "a%20p" not in said
    assert PASSWORD not in said
