"""A model folder with random weights: searching needs a model, not a good one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from termweave.config import ModelConfig
from termweave.model.checkpoint import save_checkpoint
from termweave.model.transformer import Transformer
from termweave.text.subwords import Subwords

SENTENCES = ["der alte Müller verkauft Mehl", "the old miller sells flour", "ein Haus am Fluss", "a house by the river"]
SMALL = ModelConfig(
    dimension=16, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=24, dropout=0.0, variant="copy"
)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("subwords") / "tokenizer.model"
    Subwords.train(SENTENCES * 10, path, size=320, languages=["de", "en"])
    return path


@pytest.fixture(scope="session")
def make_folder(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def make(*directions: str, **settings: object) -> Path:
        torch.manual_seed(0)
        config = replace(SMALL, **settings)  # type: ignore[arg-type]
        model = Transformer(config, Subwords.load(tokenizer).size, Subwords.pad)
        torch.nn.init.normal_(model.embedding)  # larger than fresh weights are, so that outputs differ more
        folder = tmp_path_factory.mktemp("model") / "final"
        save_checkpoint(folder, model.state_dict(), config, directions, tokenizer)
        return folder

    return make
