"""A whole experiment on the smallest scale: every step, every table, by the commands a user types."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from termweave import storage
from termweave.cli import app
from termweave.experiments import figures, system_steps
from termweave.experiments import smoke as smoke_module
from termweave.experiments.context import Context
from termweave.experiments.plan import load_experiment
from termweave.experiments.render import _SECTIONS, render
from termweave.experiments.runner import experiment_status, run_experiment
from termweave.experiments.smoke import Scale, smoke

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "de-en.toml"
TINY = Scale(
    pairs=400, test_sentences=10, dimension=16, stage1_steps=25, stage2_steps=20, alignment_steps=20, samples=50
)


def termweave(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the whole experiment has been run: one visit too short to do anything, then one to the end."""
    place = tmp_path_factory.mktemp("experiment")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(smoke_module.smoke, "__defaults__", (TINY,))
        command = ("experiment", "run", EXPERIMENT, "--smoke", "--device", "cpu")
        output = termweave(*command, "--max-seconds", "0").output
        assert "the same command goes on with encode" in output
        output = termweave(*command).output
        assert "stopped" not in output
        assert "results: results/de-en-smoke/RESULTS.md" in output
        output = termweave("experiment", "status", EXPERIMENT, "--smoke").output
        done, steps = re.search(r"(\d+) of (\d+) steps done", output).groups()
        assert done == steps
    return place


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return Path("results/de-en-smoke")


def tables(page: str) -> dict[str, list[list[str]]]:
    """All rows of tables, by section."""
    sections = re.split(r"^## (.+)$", page, flags=re.MULTILINE)[1:]
    return {
        title: [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
        for title, text in zip(sections[::2], sections[1::2], strict=True)
    }


def test_every_table_is_filled(inside: Path):
    page = (inside / "RESULTS.md").read_text(encoding="utf-8")
    found = tables(page)
    assert list(found) == [title for title, _ in _SECTIONS]
    rows = {row[0]: row for row in found["Main results"]}
    assert rows["paper+vdba"][2] == "100.0"
    assert rows["paper+vdba"][4:] == ["Ours", "35.9", "100.0", "28.8", "100.0"]
    for title, columns in {"Main results": 4, "Code-switched translation": 4, "Inference speed": 3}.items():
        assert all("–" not in row[:columns] for row in found[title]), title
    assert all("–" not in row[:3] for row in found["Ablation"])
    assert all("–" not in (row[1], row[3]) for row in found["Calibration"])  # no constraint may be met by chance
    assert not [row for row in found["The paper's claims"] if row[1] == "open"]


def test_guaranteed_systems_meet_every_constraint(inside: Path):
    for path in (inside / "records").glob("score.*+vdba.*.json"):
        assert json.loads(path.read_text())["result"]["csr_phrase_level"] == 100


def test_records_say_where_figures_come_from_and_nothing_of_this_machine(folder: Path, inside: Path):
    paths = sorted((inside / "records").glob("*.json"))
    assert len(paths) > 150
    for path in [*paths, inside / "experiment.json", inside / "data.json"]:
        assert str(folder) not in path.read_text(encoding="utf-8")
    for path in paths:
        record = json.loads(path.read_text(encoding="utf-8"))
        assert record["seeds"] == {"experiment": 1, "training": 1}
        assert {"termweave", "torch", "sacrebleu"} <= record["versions"].keys()
        assert record["signatures"]["BLEU"].startswith("nrefs:1|case:mixed")
        assert all(re.fullmatch("[0-9a-f]{64}", value) for value in record["data"].values())
        assert record["data"]


def test_a_second_run_finds_nothing_to_do(inside: Path):
    small = smoke(load_experiment(EXPERIMENT), TINY)
    assert run_experiment(small, device="cpu").finished == ()


def test_a_lost_record_is_made_again_alone(inside: Path):
    small = smoke(load_experiment(EXPERIMENT), TINY)
    path = inside / "records" / "score.copy.rwth508.hard.json"
    before = json.loads(path.read_text())
    path.write_text("{")  # as a disk may leave it
    assert run_experiment(small, device="cpu").finished == ("score.copy.rwth508.hard",)
    after = json.loads(path.read_text())
    assert after["result"] == before["result"]
    assert after["key"] == before["key"]


def test_files_are_made_again_only_where_they_are_read(inside: Path):
    small = smoke(load_experiment(EXPERIMENT), TINY)
    decoded = next((inside / "work").glob("decode.copy.rwth508.hard.*"))
    texts = storage.read_json(decoded / "outputs.json")
    shutil.rmtree(decoded)
    assert run_experiment(small, device="cpu").finished == ()
    (inside / "records" / "score.copy.rwth508.hard.json").unlink()
    states = dict(experiment_status(small))
    assert states["decode.copy.rwth508.hard"] == "again, its files are gone"
    assert run_experiment(small, only=["score.copy.*"], device="cpu").finished == (
        "decode.copy.rwth508.hard",
        "score.copy.rwth508.hard",
    )
    assert storage.read_json(decoded / "outputs.json") == texts


def test_training_goes_on_after_a_clean_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    small = smoke(load_experiment(EXPERIMENT), TINY)
    with monkeypatch.context() as patch:
        patch.setattr(Context, "seconds_left", 1e-9)  # enough to begin, not to end
        progress = run_experiment(small, only=["train.stage1"], device="cpu")
    assert progress.finished == ("encode",)
    assert progress.left == ("train.stage1",)
    states = dict(experiment_status(small))
    assert (states["encode"], states["prepare"], states["train.stage1"]) == ("done", "to do", "begun")
    assert run_experiment(small, only=["train.stage1"], device="cpu").finished == ("train.stage1",)
    assert json.loads(Path("results/de-en-smoke/records/train.stage1.json").read_text())["result"]["steps"] == 25


def test_a_failed_step_leaves_no_record(inside: Path, monkeypatch: pytest.MonkeyPatch):
    small = smoke(load_experiment(EXPERIMENT), TINY)
    path = inside / "records" / "score.copy.rwth508.hard.json"
    before = json.loads(path.read_text())
    path.unlink()
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(system_steps, "evaluate", lambda *_: (_ for _ in ()).throw(MemoryError))
        run_experiment(small, device="cpu")
    assert not path.exists()
    assert run_experiment(small, device="cpu").finished == ("score.copy.rwth508.hard",)
    assert json.loads(path.read_text())["result"] == before["result"]


def test_a_page_needs_the_records_alone(inside: Path, tmp_path: Path):
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    shutil.copy(inside / "experiment.json", copy)
    shutil.copytree(inside / "records", copy / "records")
    page = render(copy).read_text(encoding="utf-8")
    assert page == render(inside).read_text(encoding="utf-8")
    assert (copy / "cases" / "CASES.md").exists()


@pytest.mark.parametrize("installed", [False, True])
def test_who_cannot_draw_is_told(inside: Path, monkeypatch: pytest.MonkeyPatch, installed: bool):
    monkeypatch.setattr(figures, "can_draw", lambda: installed)
    monkeypatch.setattr(figures, "_draw", lambda *_: False)
    output = termweave("experiment", "render", inside).output
    assert ("pip install 'termweave[figures]'" in output) == (not installed)
