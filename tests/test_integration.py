"""A tiny corpus through every stage, by the commands a user types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from termweave import Constraint, Translator
from termweave.cli import app
from termweave.experiments.toy import ToyCorpus, write_toy_corpus
from termweave.model.checkpoint import load_weights

SETTINGS = {
    "model.dimension": 64,
    "model.heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.feed_forward": 128,
    "model.dropout": 0.0,
    "training.batch_tokens": 1200,
    "training.checkpoint_every": 150,
    "training.stage1.steps": 250,
    "training.stage1.learning_rate": 5e-3,
    "training.stage1.warmup": 50,
    "training.stage2.steps": 250,
    "training.stage2.learning_rate": 5e-3,
    "training.stage2.warmup": 30,
    "training.alignment.steps": 100,
    "training.alignment.learning_rate": 5e-3,
    "training.alignment.warmup": 20,
    "validation.every": 250,
    "validation.sentences": 20,
    "subwords.size": 900,
    "data.workers": 1,
}


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def settings() -> list[str]:
    return [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ToyCorpus:
    return write_toy_corpus(tmp_path_factory.mktemp("toy"), sentences=2500, seed=3)


@pytest.fixture(scope="module")
def prepared(corpus: ToyCorpus) -> Path:
    output = run("prepare", corpus.config, *settings()).output
    assert "prepared:" in output
    assert run("prepare", corpus.config, *settings()).output.count("done before") == 5
    return corpus.folder / "prepared"


@pytest.fixture(scope="module")
def model(corpus: ToyCorpus, prepared: Path) -> Path:
    run("train", corpus.config, "--device", "cpu", *settings())
    return corpus.folder / "model"


def test_alignment_finds_the_known_links(corpus: ToyCorpus, tmp_path: Path):
    links = tmp_path / "links"
    gold = (*corpus.test_tokens, corpus.test_links)
    output = run("align", *corpus.train, links, "--gold", *gold, "--threads", "1").output
    assert len(links.read_text().splitlines()) == len(corpus.train[0].read_text().splitlines())
    assert float(output.split("AER ")[1].split(",")[0]) < 25


def test_constraint_sets(corpus: ToyCorpus, prepared: Path, tmp_path: Path):
    options = ("--languages", "de-en", "--seed", "5")
    for name in ("first", "again"):
        run("constraints", *corpus.test_tokens, tmp_path / name, *options, "--links", corpus.test_links)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "again").read_bytes()
    run("constraints", *corpus.test, tmp_path / "learned", *options, "--prepared", prepared)
    rows = [json.loads(line) for line in (tmp_path / "learned").read_text().splitlines()]
    assert len(rows) == len(corpus.test[0].read_text().splitlines())
    found = [pair for row in rows for pair in row["constraints"]]
    assert len(found) > len(rows) / 2
    assert all(pair["target"] in row["target"] for row in rows for pair in row["constraints"])


def test_training_teaches_the_model_to_follow_constraints(corpus: ToyCorpus, model: Path, tmp_path: Path):
    """The plain model cannot know which synonym the reference has; the constrained one is told."""
    scores = {}
    for name, options in {
        "vanilla": ("--model", model / "stage1" / "final", "--no-constraints"),
        "given": ("--model", model / "stage2" / "final", "--save", tmp_path / "outputs"),
        "withheld": ("--model", model / "stage2" / "final", "--no-constraints"),
    }.items():
        output = run("evaluate", corpus.test_set, *options, "--beam", "2", "--json", "--device", "cpu").stdout
        scores[name] = json.loads(output)
    assert scores["given"]["csr_phrase_level"] > scores["vanilla"]["csr_phrase_level"] + 20
    assert scores["given"]["csr_phrase_level"] > scores["withheld"]["csr_phrase_level"] + 20
    assert scores["given"]["bleu"] > scores["vanilla"]["bleu"] + 5
    assert "tok:13a" in scores["given"]["signature"]
    again = run("evaluate", corpus.test_set, "--hypotheses", tmp_path / "outputs", "--languages", "de-en", "--json")
    assert json.loads(again.stdout)["bleu"] == scores["given"]["bleu"]


def test_a_model_can_find_its_constraints_in_the_source(corpus: ToyCorpus, model: Path, tmp_path: Path):
    """Replace, with its pointer, from the same stage 1; on top of it the search guarantees what it missed."""
    start = ("--set", f"training.start_from={model / 'stage1' / 'final'}", "--set", f"training.folder={tmp_path}")
    run(
        "train", corpus.config, "--stage", "2", "--device", "cpu", *settings(), *start, "--set", "model.variant=pointer"
    )
    folder, scores = tmp_path / "stage2" / "final", {}
    for name, options in {"given": ("--search", "beam"), "withheld": ("--no-constraints",), "guaranteed": ()}.items():
        output = run(
            "evaluate", corpus.test_set, "--model", folder, *options, "--beam", "2", "--json", "--device", "cpu"
        )
        scores[name] = json.loads(output.stdout)
    assert scores["given"]["csr_phrase_level"] > scores["withheld"]["csr_phrase_level"] + 20
    assert scores["given"]["bleu"] > scores["withheld"]["bleu"] + 5
    assert scores["guaranteed"]["csr_phrase_level"] == 100
    rows = [json.loads(line) for line in (tmp_path / "stage2" / "log.jsonl").read_text().splitlines()]
    assert all(row["perplexity"] < 20 for row in rows if row.get("valid"))


def test_a_plain_model_can_be_led_by_an_alignment_module(corpus: ToyCorpus, model: Path, tmp_path: Path):
    """CDAlign: the module alone is trained, and constraints are put where it points to; some are missed."""
    plain = model / "stage1" / "final"
    start = ("--set", f"training.start_from={plain}", "--set", f"training.folder={tmp_path}")
    run("train", corpus.config, "--stage", "alignment", "--device", "cpu", *settings(), *start)
    folder, scores = tmp_path / "alignment" / "final", {}
    weights, before = load_weights(folder), load_weights(plain)
    assert all(torch.equal(weights[name], before[name]) for name in before)
    assert {name.partition(".")[0] for name in weights.keys() - before.keys()} == {"alignment"}
    for name, options in {"vanilla": ("--no-constraints",), "cdalign": ("--search", "cdalign")}.items():
        output = run(
            "evaluate", corpus.test_set, "--model", folder, *options, "--beam", "2", "--json", "--device", "cpu"
        )
        scores[name] = json.loads(output.stdout)
    assert scores["cdalign"]["csr_phrase_level"] > scores["vanilla"]["csr_phrase_level"] + 20
    assert scores["cdalign"]["bleu"] > scores["vanilla"]["bleu"] + 3
    again = run("train", corpus.config, "--stage", "alignment", "--device", "cpu", *settings(), *start)
    assert str(folder) in again.output.replace("\n", "")


def test_the_log_holds_validation_scores(model: Path):
    rows = [json.loads(line) for line in (model / "stage2" / "log.jsonl").read_text().splitlines()]
    valid = [row for row in rows if row.get("valid")]
    assert [row["step"] for row in valid] == [250]
    assert {"bleu", "csr", "perplexity"} <= valid[0].keys()
    assert list((model / "stage2" / "tensorboard").iterdir())


def test_the_command_and_the_api_translate_alike(corpus: ToyCorpus, model: Path, tmp_path: Path):
    sentences = corpus.test[0].read_text().splitlines()[:5]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in sentences))
    folder = model / "stage2" / "final"
    run(
        "translate",
        tmp_path / "text",
        "--lines",
        "--model",
        folder,
        "--term",
        "Haus=building",
        "--output",
        tmp_path / "out",
        "--device",
        "cpu",
    )
    constraints = [[Constraint("Haus", "building")] if "Haus" in line.split() else [] for line in sentences]
    expected = Translator.load(folder, "cpu").translate(sentences, constraints)
    assert (tmp_path / "out").read_text().splitlines() == [result.text for result in expected]
