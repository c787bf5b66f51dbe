"""An imported model goes through preparation and stage 2 like one of our own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marian_checkpoint import ENGLISH, GERMAN, write_checkpoint
from termweave.config import Config, from_tree
from termweave.constraints.constraint import Constraint
from termweave.data.corpus import PreparedCorpus
from termweave.data.prepare import prepare
from termweave.decoding.translator import Translator
from termweave.errors import CheckpointError, ConfigError
from termweave.model.checkpoint import load_checkpoint, load_weights
from termweave.model.marian import import_marian
from termweave.training.stages import train

MODEL = {
    "dimension": 16,
    "heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "feed_forward": 24,
    "norm": "post",
    "activation": "swish",
    "source_embedding": True,
    "vocabulary_bias": True,
}
RARE = [("½ Haus … (am See).", "the house … ½ (by the lake).")]  # what the models rewrite


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    import_marian(
        write_checkpoint(folder / "marian", share_encoder_decoder_embeddings=False), folder / "model", ["de-en"]
    )
    pairs = [*zip(GERMAN, ENGLISH, strict=True), *RARE]
    for side, name in enumerate(("text.de", "text.en")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    prepare(configuration(folder))
    return folder


def configuration(folder: Path, model: dict[str, object] | None = None, direction: str = "de-en") -> Config:
    source, target = direction.split("-")
    tree = {
        "data": {"folder": str(folder / "prepared" / direction), "directions": [direction], "workers": 1},
        "corpora": [{"source": str(folder / f"text.{source}"), "target": str(folder / f"text.{target}")}],
        "subwords": {"model": str(folder / "model" / "tokenizer.model")},
        "model": {**MODEL, **(model or {})},
        "training": {
            "folder": str(folder / "run" / str(model)),
            "start_from": str(folder / "model"),
            "batch_tokens": 256,
            "average": 1,
            "stage2": {"steps": 3, "warmup": 1},
        },
    }
    return from_tree(Config, tree)


def test_ids_and_phrases_are_those_of_the_text(folder):
    corpus = PreparedCorpus.open(folder / "prepared" / "de-en")
    direction, subwords = corpus.directions[0], corpus.subwords
    sentences = [(subwords.decode(direction.source[row]), subwords.decode(direction.target[row])) for row in range(5)]
    assert sentences == list(zip(GERMAN[:5], ENGLISH[:5], strict=True))
    assert direction.source[0].tolist() == subwords.source.encode(GERMAN[0])
    assert direction.target[0].tolist() == subwords.target.encode(ENGLISH[0])
    assert direction.phrases is not None
    found = set()
    for row in range(len(direction)):
        for phrase in direction.phrases[row]:
            start, length = int(phrase["target_start"]), int(phrase["target_tokens"])
            found.add(subwords.decode(np.asarray(direction.target[row])[start : start + length]))
    words = {word.strip("(),.") for text in ENGLISH for word in text.split()} | {"½", "1⁄2"}
    assert found
    assert all(word in words for text in found for word in text.split())


def test_stage_2_starts_from_it_and_keeps_to_constraints(folder):
    result = train(configuration(folder), stage="2", device="cpu")
    assert result.finished and result.model is not None
    assert load_checkpoint(result.model).model.config.attention
    changed, before = load_weights(result.model), load_weights(folder / "model")
    assert before.keys() < changed.keys()
    assert all((changed[name] != before[name]).any() for name in ("vocabulary_bias", "source_embedding", "embedding"))
    translator = Translator.load(result.model, "cpu")
    for search in ("vdba", "beam"):
        text = translator.translate(["das Haus"], [[Constraint("Haus", "house")]], search=search)[0].text
        assert search == "beam" or "house" in text.split()


def test_other_settings_are_refused(folder):
    config = configuration(folder, {"activation": "relu"})
    with pytest.raises(
        CheckpointError, match=r"another model than the configuration.s; there, set \[model\] activation"
    ):
        train(config, stage="2", device="cpu")


def test_the_other_direction_is_refused(folder):
    with pytest.raises(ConfigError, match=r"subwords\.model: .* is not for en-de, but for de-en"):
        prepare(configuration(folder, direction="en-de"))
