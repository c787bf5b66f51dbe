"""Experiment files: what they may say, and that those of the project are whole."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from termweave.config import from_tree
from termweave.errors import ConfigError
from termweave.experiments import paper
from termweave.experiments.plan import Experiment, load_experiment
from termweave.experiments.smoke import Scale, smoke
from termweave.experiments.steps import make_steps

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "experiments").glob("*.toml"))
JOINT = {"compare", "overlap", "cases"}


def tree(**changes: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "config": "configs/de-en.toml",
        "plain": "vanilla",
        "models": [{"name": "stage1", "stage": "1"}, {"name": "vanilla", "start": "stage1"}],
        "systems": [{"name": "vanilla", "model": "vanilla"}],
        "test_sets": [{"name": "news", "source": "news.de", "target": "news.en"}],
    } | changes


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_experiments_of_the_project(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    experiment = load_experiment(path)
    assert {system.paper for system in experiment.systems} <= {"", *paper.METHODS}
    trained = {step.name: step.settings for step in make_steps(experiment) if step.name.startswith("train.")}
    assert len(trained) == len(experiment.models)
    shared = {str(settings["training"]) for settings in trained.values()}
    assert len(shared) == 1, "all systems are trained alike"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_on_the_smallest_scale_they_go_the_same_way(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The toy's German stands for the other language; who translates into it does so there as well."""
    monkeypatch.chdir(tmp_path)
    small = smoke(load_experiment(path), Scale(pairs=400))
    assert small.base_config().data.directions == (("en-de" if path.name.startswith("en-") else "de-en"),)
    assert small.base_config(small.models[-1].settings).data.directions == small.base_config().data.directions
    assert {test_set.languages for test_set in small.test_sets} == {"de-en"}
    assert {corpus.languages for corpus in small.base_config().corpora} == {"de-en"}  # not what is translated first


def test_a_model_is_the_same_in_every_experiment(monkeypatch: pytest.MonkeyPatch):
    """So that the directions can be compared; texts and numbers of steps are the configurations' own."""
    monkeypatch.chdir(ROOT)
    found: dict[str, set[str]] = {}
    for path in FILES:
        for step in make_steps(load_experiment(path)):
            if step.name.startswith("train."):
                seen = {key: step.settings.get(key) for key in ("model", "sampling")}
                found.setdefault(step.name, set()).add(str(seen))
    assert [name for name, settings in found.items() if len(settings) > 1] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_compares_systems_needs_only_their_translations(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Models of several visits to a GPU need not be kept, nor be in one place."""
    monkeypatch.chdir(ROOT)
    joint = [step for step in make_steps(load_experiment(path)) if step.name.split(".")[0] in JOINT]
    assert {step.name.split(".")[0] for step in joint} == JOINT
    read = {need.split(".")[0] for step in joint for need in step.needs}
    assert read == {"decode", "set", "prepare"}


def test_a_small_experiment_has_these_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    names = [step.name for step in make_steps(from_tree(Experiment, tree()))]
    kinds = ("none", "all", "hard")
    assert names == [
        *("encode", "prepare", "train.stage1", "train.vanilla"),
        *("links.news", "set.news.all", "greedy.news", "set.news.hard", "set.news.switched"),
        *(f"{step}.vanilla.news.{kind}" for kind in kinds for step in ("decode", "score")),
        *("overlap.news", "cases"),
    ]


def test_settings_of_stage_2_leave_stage_1_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    experiment = from_tree(Experiment, tree())
    settings = ("training.stage2.steps=7", "sampling.empty_share=0.5", "model.variant=paper", "training.log_every=3")
    other = dataclasses.replace(experiment, settings=settings)
    pairs = zip(make_steps(experiment), make_steps(other), strict=True)
    assert {before.name for before, after in pairs if before.settings != after.settings} == {"train.vanilla"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plain": "vanila"}, "plain: no model `vanila`"),
        ({"models": [{"name": "a.b", "stage": "1"}]}, "cannot be part of a file name"),
        ({"models": [{"name": "a"}]}, "every other stage from a model"),
        ({"models": [{"name": "a", "start": "b"}, {"name": "b", "stage": "1"}]}, "no model `b` before it"),
        ({"systems": [{"name": "a", "model": "vanilla"}] * 2}, "`a` stands twice"),
        ({"systems": [{"name": "a", "model": "vanilla", "tables": ["mian"]}]}, "'mian' is not one of"),
        ({"systems": []}, "name at least one with"),
        ({"beams": 3}, "did you mean `beam`"),
        ({"speed": {"batches": []}}, "must be at least 1"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        from_tree(Experiment, tree(**changes))
