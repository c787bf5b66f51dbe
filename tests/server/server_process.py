"""`termweave serve` as a process of its own, on a free port."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ServerProcess:
    """The store goes into the variable, as is right for an address with a password. `log` is what it writes."""

    def __init__(self, model: Path, store: str | Path, *options: object) -> None:
        command = [sys.executable, "-m", "termweave", "serve", "--model", model, "--port", "0", *map(str, options)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERMWEAVE_STORE": str(store)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.log: list[str] = []
        self.address = ""

    def wait_until_ready(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            record = json.loads(line)
            self.address = record.get("address", self.address)
            if "startup complete" in record["event"]:
                break
        # A full pipe would stop the server.
        threading.Thread(target=self._read_on, daemon=True).start()

    def _read_on(self) -> None:
        assert self.process.stderr is not None
        self.log += self.process.stderr

    def kill(self) -> None:
        """At once, without warning."""
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(model: Path, store: str | Path, *, count: int = 1) -> Iterator[list[ServerProcess]]:
    """So many servers of one store, ready to answer."""
    servers = [ServerProcess(model, store, "--batch-tokens", 100) for _ in range(count)]
    try:
        for server in servers:
            server.wait_until_ready()
        yield servers
    finally:
        for server in servers:
            server.kill()
