"""A running server with a tiny model of random weights: clients need a server, not a good translation."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import uvicorn
from postgres_server import PostgresServer

from termweave.cli import main
from termweave.config import ModelConfig
from termweave.constraints.constraint import Constraint
from termweave.decoding.translator import Translator
from termweave.model.checkpoint import save_checkpoint
from termweave.model.transformer import Transformer
from termweave.server.app import create_app
from termweave.server.backend import Backend, TranslatorBackend
from termweave.server.connections import configuration
from termweave.server.settings import Settings
from termweave.text.subwords import Subwords

SENTENCES = ["der alte Müller verkauft Mehl", "the old miller sells flour", "ein Haus am Fluss", "a house by the river"]
SMALL = ModelConfig(
    dimension=16, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=24, dropout=0.0, variant="copy"
)


class RunningServer:
    """An application behind uvicorn, in a thread of this process."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.server = uvicorn.Server(configuration(app, app.state.service.limits, port=0))
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def start(self) -> None:
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        host, port = self.server.servers[0].sockets[0].getsockname()[:2]
        self.host, self.port, self.url = host, port, f"http://{host}:{port}"

    @property
    def service(self) -> Any:
        return self.app.state.service

    def ask_to_stop(self) -> None:
        self.server.should_exit = True

    def stop(self) -> None:
        self.ask_to_stop()
        self.thread.join()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Translates de-en and en-de."""
    folder = tmp_path_factory.mktemp("server-model")
    tokenizer = folder / "tokenizer.model"
    Subwords.train(SENTENCES * 10, tokenizer, size=320, languages=["de", "en"])
    torch.manual_seed(0)
    model = Transformer(SMALL, Subwords.load(tokenizer).size, Subwords.pad)
    torch.nn.init.normal_(model.embedding)
    save_checkpoint(folder / "final", model.state_dict(), SMALL, ["de-en", "en-de"], tokenizer)
    return folder / "final"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The setting of an empty store, of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "folder" / "store.sqlite")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh_store()


@pytest.fixture(scope="session")
def backend(model_folder: Path) -> Backend:
    translator = Translator.load(model_folder, "cpu")
    # Loops are compiled when they are first needed, for longer than the clients of some tests wait.
    for constraints in ([], [Constraint("Haus", "building")]):
        translator.translate(["das Haus"], [constraints], direction="de-en")
    return TranslatorBackend(translator, batch_tokens=4096)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """`with running(backend, settings) as server`: one of its own, with a store of its own."""

    @contextmanager
    def run(
        backend: Backend, settings: Settings | None = None, store: str | Path | None = None
    ) -> Iterator[RunningServer]:
        store = store or tmp_path_factory.mktemp("store") / "store.sqlite"
        server = RunningServer(create_app(backend, store, settings))
        server.start()
        try:
            yield server
        finally:
            server.stop()

    return run


@pytest.fixture(scope="module")
def server(backend: Backend, running: Callable[..., Any]) -> Iterator[RunningServer]:
    """Without keys."""
    with running(backend) as server:
        yield server


@pytest.fixture
def termweave(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`termweave(…)` runs the command: its code, its output, its errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["termweave", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        return code, *capsys.readouterr()

    return run
