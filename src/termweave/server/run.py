"""The command `termweave serve`: a model, a store, and an address."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

import uvicorn

from termweave.accelerators import prepare_process
from termweave.decoding.translator import Translator
from termweave.errors import ConfigError
from termweave.server.app import create_app
from termweave.server.backend import TranslatorBackend
from termweave.server.connections import configuration, give_up_unread
from termweave.server.database import Database
from termweave.server.keys import KeyStore
from termweave.server.observation import log, log_as_json
from termweave.server.settings import Settings


def serve(
    model: Path | None, store: str | Path, host: str, port: int, device: str, precision: str, settings: Settings
) -> None:
    """Serve until told to stop; what was accepted by then is still answered."""
    require_store(host, store)
    listening = _listen(host, port)
    log_as_json()
    prepare_process()
    translator = Translator.load(model, device, precision)
    backend = TranslatorBackend(translator, settings.gathering.batch_tokens)
    backend.warm_up()
    app = create_app(backend, store, settings)
    log.info(
        "serving",
        extra={"fields": {"address": address_of(listening), "directions": list(translator.directions)}},
    )
    give_up_unread(listening, settings.limits)
    uvicorn.Server(configuration(app, settings.limits)).run(sockets=[listening])


def require_store(host: str, store: str | Path) -> None:
    """A store that cannot be used is told here, before the model is loaded, rather than to clients, request by request.

    An address others can reach needs keys besides: without, everybody could translate and change glossaries.
    """
    database = Database(store)
    try:
        with database.writing():  # nothing, but files and databases that can only be read refuse it
            pass
        if not KeyStore(database).required and not is_loopback(host):
            raise ConfigError(
                f"--host {host} can be reached from other machines, but {database.name} has no API keys; make one "
                f"first with `termweave keys create NAME --store {database.name}`, or serve this machine only with "
                "--host 127.0.0.1"
            )
    finally:
        database.close()


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    """Bound before the model is loaded, so that a port in use is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ConfigError(f"--host {host} is no address of this machine ({error.strerror}); use 127.0.0.1") from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {host}, port {port}: {error.strerror}; choose another --port") from None
    return listening


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
