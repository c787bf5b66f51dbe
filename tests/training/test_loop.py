"""Stopping and going on: kill, SIGTERM, deadline, and several processes. All run the real command on a tiny corpus."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from termweave.config import load_config
from termweave.data.prepare import prepare
from termweave.experiments.toy import write_toy_corpus
from termweave.model.checkpoint import load_weights

SETTINGS = {
    "model.dimension": 16,
    "model.heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.feed_forward": 32,
    "model.dropout": 0.1,
    "training.batch_tokens": 256,
    "training.log_every": 1,
    "training.checkpoint_every": 5,
    "training.keep": 3,
    "training.average": 2,
    "training.stage1.steps": 12,
    "training.stage1.learning_rate": 0.01,
    "training.stage1.warmup": 2,
    "training.stage2.steps": 12,
    "validation.file": '""',
    "subwords.size": 500,
    "data.workers": 1,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = write_toy_corpus(tmp_path_factory.mktemp("toy"), sentences=400, seed=1)
    prepare(load_config(corpus.config, overrides({})))
    return corpus.config


def overrides(extra: dict[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in {**SETTINGS, **extra}.items()]


def command(config: Path, folder: Path, extra: dict[str, object], *options: str) -> list[str]:
    settings = overrides({"training.folder": f'"{folder.as_posix()}"', **extra})
    return [
        *("-m", "termweave", "train", str(config), "--device", "cpu", *options),
        *(part for setting in settings for part in ("--set", setting)),
    ]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def run(config: Path, folder: Path, extra: dict[str, object] | None = None, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *command(config, folder, extra or {}, *options)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(folder: Path) -> list[tuple[str, int, float]]:
    rows = []
    for stage in ("stage1", "stage2"):
        for line in (folder / stage / "log.jsonl").read_text().splitlines():
            record = json.loads(line)
            rows.append((stage, record["step"], record["loss"]))
    return rows


@pytest.fixture(scope="module")
def uninterrupted(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run(config, folder)
    return folder


def test_both_stages_train(uninterrupted: Path):
    rows = losses(uninterrupted)
    assert [(stage, step) for stage, step, _ in rows] == [(s, i) for s in ("stage1", "stage2") for i in range(1, 13)]
    assert rows[11][2] < rows[0][2] - 0.1  # more than other sentences alone would make it differ
    for stage in ("stage1", "stage2"):
        final = uninterrupted / stage / "final"
        assert sorted(path.name for path in final.iterdir()) == ["model.json", "tokenizer.model", "weights.safetensors"]
        kept = sorted(path.name for path in (uninterrupted / stage).glob("step-*"))
        assert kept == ["step-00000005", "step-00000010", "step-00000012"]


@pytest.mark.parametrize(("stage", "step"), [("stage1", 7), ("stage2", 8)])
def test_a_killed_run_goes_on_with_the_same_losses(config, uninterrupted, tmp_path, stage, step):
    process = subprocess.Popen(
        [sys.executable, *command(config, tmp_path, {})],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_step(process, tmp_path / stage / "log.jsonl", step)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / stage / "final").exists()
    (tmp_path / stage / ".step-00000009.1.partial").mkdir()
    run(config, tmp_path)
    assert not list((tmp_path / stage).glob(".step-*"))
    assert losses(tmp_path) == losses(uninterrupted)
    assert_same_weights(tmp_path, uninterrupted)


def assert_same_weights(first: Path, second: Path) -> None:
    name = "stage2/final/weights.safetensors"
    assert (first / name).read_bytes() == (second / name).read_bytes()


def wait_for_step(process: subprocess.Popen[bytes], log: Path, step: int) -> None:
    while process.poll() is None:
        if log.exists() and len(log.read_text().splitlines()) >= step:
            return
        time.sleep(0.002)
    pytest.fail("the run ended before it could be killed; make it longer")


def test_sigterm_saves_and_leaves_cleanly(config, uninterrupted, tmp_path):
    process = subprocess.Popen(
        [sys.executable, *command(config, tmp_path, {})],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    wait_for_step(process, tmp_path / "stage1" / "log.jsonl", 6)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate()
    assert process.returncode == 0
    assert "stopped early" in output
    steps = len((tmp_path / "stage1" / "log.jsonl").read_text().splitlines())
    assert (tmp_path / "stage1" / f"step-{steps:08d}").exists()
    run(config, tmp_path)
    assert losses(tmp_path) == losses(uninterrupted)


def test_the_deadline_saves_and_leaves_cleanly(config, uninterrupted, tmp_path):
    assert "stopped early" in run(config, tmp_path, None, "--max-seconds", "0")
    assert [path.name for path in (tmp_path / "stage1").glob("step-*")] == ["step-00000001"]
    run(config, tmp_path)
    assert losses(tmp_path) == losses(uninterrupted)


def test_two_processes_give_the_losses_of_one(config, tmp_path):
    """The same micro-batches, summed by one process or shared by two; without dropout, whose draws would differ."""
    settings = {
        "training.accumulation": 2,
        "model.dropout": 0.0,
        "training.stage1.steps": 6,
        "training.stage2.steps": 6,
    }
    run(config, tmp_path / "one", settings)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, *command(config, tmp_path / "two", settings)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [row[:2] for row in one] == [row[:2] for row in two]
    assert [row[2] for row in one] == pytest.approx([row[2] for row in two], rel=1e-4)


def test_accumulation_must_fit_the_processes(config, tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, *command(config, tmp_path, {"training.accumulation": 3})],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "set it to a multiple of 2" in done.stderr


def refused(config: Path, folder: Path, extra: dict[str, object]) -> str:
    done = subprocess.run(
        [sys.executable, *command(config, folder, extra)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_finished_folder_is_not_taken_for_another_model(config, uninterrupted):
    assert "another model configuration" in refused(config, uninterrupted, {"model.variant": "paper"})


def test_stops_do_not_change_what_is_averaged(config, uninterrupted, tmp_path):
    """The checkpoint a stop leaves behind is no regular one."""
    run(config, tmp_path, None, "--max-seconds", "0")
    run(config, tmp_path, None, "--max-seconds", "0")
    run(config, tmp_path)
    assert_same_weights(tmp_path, uninterrupted)


def test_a_diverged_model_is_never_saved(config, tmp_path):
    extra = {"training.stage1.learning_rate": 1e30, "training.stage1.warmup": 1, "training.log_every": 100}
    assert "Try a lower learning_rate" in refused(config, tmp_path, extra)
    assert not (tmp_path / "stage1" / "final").exists()


def test_two_runs_do_not_share_a_folder(config, tmp_path):
    from termweave.storage import locked

    with locked(tmp_path / "stage1", "termweave train"):
        assert "another `termweave train` is at work" in refused(config, tmp_path, {})


def test_weights_of_another_vocabulary_are_refused(config, uninterrupted, tmp_path):
    start = tmp_path / "start"
    shutil.copytree(uninterrupted / "stage1" / "final", start)
    with (start / "tokenizer.model").open("ab") as file:
        file.write(b"x")
    extra = {"training.start_from": f'"{start.as_posix()}"'}
    assert "another vocabulary" in refused(config, tmp_path / "run", extra)


def test_another_model_is_not_resumed(config, uninterrupted, tmp_path):
    run(config, tmp_path, None, "--max-seconds", "0")
    done = subprocess.run(
        [sys.executable, *command(config, tmp_path, {"model.dimension": 32})],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "another model configuration" in done.stderr


def test_the_alignment_stage_stops_and_goes_on_too(config, uninterrupted, tmp_path):
    """Beside the run's own last model, whose weights stay as they are."""
    extra = {"training.alignment.steps": 6, "training.alignment.warmup": 2}
    logs = []
    for name, starts in (("whole", [()]), ("stopped", [("--max-seconds", "0.001"), ()])):
        folder = tmp_path / name
        shutil.copytree(uninterrupted / "stage2" / "final", folder / "stage2" / "final")
        for options in starts:
            output = run(config, folder, extra, "--stage", "alignment", *options)
            assert ("stopped early" in output) == bool(options)
        rows = map(json.loads, (folder / "alignment" / "log.jsonl").read_text().splitlines())
        logs.append([(row["step"], row["loss"]) for row in rows])
        before, after = (load_weights(folder / stage / "final") for stage in ("stage2", "alignment"))
        assert all(torch.equal(after[weight], before[weight]) for weight in before)
        assert {weight.partition(".")[0] for weight in after.keys() - before.keys()} == {"alignment"}
    assert [step for step, _ in logs[0]] == list(range(1, 7))
    assert logs[1] == logs[0]
