"""Training that is killed beside training left alone, and two processes beside one: `first_run.py interruptions`.

All runs are `termweave train` on the corpus of `termweave toy`, on the CPU, both stages, every loss logged:

    left alone     from the first step to the last
    killed         SIGKILL in the middle of stage 1, the same command again, SIGKILL in the middle of stage 2, again
    one process    two micro-batches a step, no dropout
    two processes  the same by torch.distributed.run (gloo), one micro-batch each

Dropout is left out of the last two because each process draws its own.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from decode import processor
from termweave import storage
from termweave.config import load_config
from termweave.data.prepare import prepare
from termweave.experiments.demo import SENTENCES
from termweave.experiments.toy import write_toy_corpus
from termweave.training.state import STATE

COMMAND = "python benchmarks/first_run.py interruptions"
STEPS = 60  # of each stage
CHECKPOINTS = 3  # of each stage: a kill in the middle then undoes some steps
SHOWN_EVERY = 10  # steps; all are compared
STAGES = ("stage1", "stage2")
TOLERANCE = 1e-5  # relative: sums in another order differ in their last bits, and every step adds to that
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")

Losses = dict[tuple[str, int], float]  # by stage and step


def measure(output: Path, steps: int) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = write_toy_corpus(folder / "toy", sentences=SENTENCES).config
        prepare(load_config(config))
        killed, kills = compare_killed(config, folder, steps)
        processes = compare_processes(config, folder, steps)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    record = {
        "command": COMMAND,
        "sentence_pairs": SENTENCES,
        "steps": steps,
        "checkpoint_every": steps // CHECKPOINTS,
        "kills": kills,
        "killed": killed,
        "processes": processes,
        "torch": torch.__version__,
        "processor": processor(),
        "threads": 1,
        "cpu_seconds": round(sum(usage.ru_utime + usage.ru_stime for usage in usages)),
        "wall_seconds": round(time.monotonic() - started),
    }
    storage.write_json(output, record)
    print(json.dumps({**record, "killed": without_losses(killed), "processes": without_losses(processes)}, indent=1))


def without_losses(comparison: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in comparison.items() if key != "losses"}


def compare_killed(config: Path, folder: Path, steps: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    alone, killed = folder / "alone", folder / "killed"
    train(training(config, alone, steps), folder / "alone.txt")
    command, told = training(config, killed, steps), folder / "killed.txt"
    last = {stage: kill(command, killed / stage / "log.jsonl", steps // 2, told) for stage in STAGES}
    train(command, told)
    comparison = {
        "same_weights": {stage: weights(alone, stage) == weights(killed, stage) for stage in STAGES},
        **compare(read_losses(alone), read_losses(killed)),
    }
    kills = [
        {"stage": stage, "killed_after_step": step, "resumed_after_step": resumed_after(told, stage)}
        for stage, step in last.items()
    ]
    return comparison, kills


def compare_processes(config: Path, folder: Path, steps: int) -> dict[str, Any]:
    one, two = folder / "one", folder / "two"
    settings: dict[str, object] = {"training.accumulation": 2, "model.dropout": 0.0}
    train(training(config, one, steps, settings), folder / "one.txt")
    train([*LAUNCHER, *training(config, two, steps, settings)], folder / "two.txt")
    return {
        "processes": [processes_of(run) for run in (one, two)],
        "tolerance": TOLERANCE,
        **compare(read_losses(one), read_losses(two)),
    }


def training(config: Path, folder: Path, steps: int, settings: dict[str, object] | None = None) -> list[str]:
    """The arguments of a run: the toy's own model and rates, fewer steps, every loss in the log."""
    given: dict[str, object] = {
        "training.folder": f'"{folder.as_posix()}"',
        "training.stage1.steps": steps,
        "training.stage2.steps": steps,
        "training.log_every": 1,
        "training.checkpoint_every": steps // CHECKPOINTS,
        "validation.file": '""',
        **(settings or {}),
    }
    arguments = ["-m", "termweave", "train", str(config), "--device", "cpu"]
    return [*arguments, *(part for key, value in given.items() for part in ("--set", f"{key}={value}"))]


def start(command: list[str], told: Path) -> subprocess.Popen[bytes]:
    """What the run tells is added to a file: it says at which step a run went on."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with told.open("ab") as output:
        return subprocess.Popen([sys.executable, *command], env=environment, stdout=output, stderr=output)


def train(command: list[str], told: Path) -> None:
    if start(command, told).wait():
        raise SystemExit(told.read_text(encoding="utf-8")[-2000:])


def kill(command: list[str], log: Path, step: int, told: Path) -> int:
    """SIGKILL once this step is in the log; the last one that was."""
    running = start(command, told)
    while lines(log) < step:
        if running.poll() is not None:
            raise SystemExit(f"it ended before it could be killed: {told.read_text(encoding='utf-8')[-2000:]}")
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.wait()
    return lines(log)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def resumed_after(told: Path, stage: str) -> int:
    """A run that goes on tells a step of a lower number than the one told before it."""
    steps = [int(step) for step in re.findall(rf"^{stage} step (\d+):", told.read_text(encoding="utf-8"), re.MULTILINE)]
    again = [step for before, step in itertools.pairwise(steps) if step <= before]
    if len(again) != 1:
        raise SystemExit(f"{stage} went on {len(again)} times instead of once")
    return again[0] - 1


def weights(run: Path, stage: str) -> bytes:
    return (run / stage / "final" / "weights.safetensors").read_bytes()


def processes_of(run: Path) -> int:
    """Each process leaves its random state in a checkpoint, so that these tell how many there really were."""
    last = sorted((run / STAGES[-1]).glob("step-*"))[-1]
    with safe_open(last / STATE, "pt") as tensors:
        return sum(name.startswith("random.") for name in tensors.keys())  # noqa: SIM118


def read_losses(run: Path) -> Losses:
    rows = [json.loads(line) for stage in STAGES for line in (run / stage / "log.jsonl").read_text().splitlines()]
    losses = {(row["stage"], row["step"]): row["loss"] for row in rows}
    if len(losses) != len(rows):
        raise SystemExit(f"{run.name}: a step stands in the log twice")
    return losses


def compare(first: Losses, second: Losses) -> dict[str, Any]:
    """All losses are compared, a few are shown: stage, step and both in full."""
    if first.keys() != second.keys():
        raise SystemExit("the two runs logged different steps")
    shown = [place for place in first if place[1] % SHOWN_EVERY == 0 or place[1] == 1]
    return {
        "losses_compared": len(first),
        "largest_difference": max(abs(loss - second[place]) for place, loss in first.items()),
        "largest_relative_difference": max(abs(loss - second[place]) / abs(loss) for place, loss in first.items()),
        "losses": [[*place, first[place], second[place]] for place in shown],
    }
