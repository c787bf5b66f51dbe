"""A model with random weights, a corpus of three shards, and the command."""

from __future__ import annotations

import gzip
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from termweave.cli import main
from termweave.config import ModelConfig
from termweave.decoding.requests import Wanted, parse_term
from termweave.model.checkpoint import save_checkpoint
from termweave.model.transformer import Transformer
from termweave.shards.work import Settings
from termweave.text.subwords import Subwords

WORDS = ["das", "Haus", "brennt", "der", "Müller", "alt", "neu"]


class Result(NamedTuple):
    code: int
    output: str
    errors: str


@pytest.fixture
def termweave(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the command as a shell would, in this process; errors as one line."""

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["termweave", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        captured = capsys.readouterr()
        return Result(code, captured.out, " ".join(captured.err.split()))

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    text = ["das Haus brennt", "the building burns", "der Müller", "the miller"] * 10
    subwords = Subwords.train(text, folder / "tokenizer.model", size=310)
    config = ModelConfig(dimension=16, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=16, dropout=0.0)
    torch.manual_seed(0)
    weights = Transformer(config, subwords.size, subwords.pad).state_dict()
    save_checkpoint(folder / "final", weights, config, ["de-en"], folder / "tokenizer.model")
    return folder / "final"


@pytest.fixture
def settings(model: Path) -> Callable[..., Settings]:
    def make(*terms: str, **changes: Any) -> Settings:
        wanted = Wanted((), tuple(parse_term(term) for term in terms), inflection=False, protect=True)
        search = {"beam": 1, "search": "vdba", "ordered": False, "batch_tokens": 4096}
        return Settings(model, wanted, device="cpu", search=search | changes.pop("search", {}), **changes)

    return make


@pytest.fixture(scope="session")
def lines() -> list[str]:
    chance = random.Random(7)
    found = [" ".join(chance.choices(WORDS, k=chance.randint(1, 5))) for _ in range(33)]
    found[4] = ""
    found[9] = "Haus\u2028brennt"  # a separator that ends no line
    return found


@pytest.fixture
def corpus(tmp_path: Path, lines: list[str]) -> Path:
    """23 lines plain, 10 packed in a folder below, and a file without a line."""
    folder = tmp_path / "corpus"
    (folder / "more").mkdir(parents=True)
    (folder / "a.de").write_bytes("\n".join(lines[:23]).encode())  # no line feed at the end
    (folder / "more" / "b.de.gz").write_bytes(gzip.compress("".join(line + "\r\n" for line in lines[23:]).encode()))
    (folder / "none.de").touch()
    (folder / ".hidden").write_text("not this\n")
    return folder
