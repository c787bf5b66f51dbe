"""Records: one JSON file for each finished step, with all that says where its figures come from.

A record is written, whole or not at all, when its step has ended. Nothing in it depends on where the experiment lies,
so that the folder can be carried between machines.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import sacrebleu
import torch

from termweave import __version__
from termweave.config import to_tree
from termweave.errors import DataError
from termweave.evaluation.bleu import corpus_bleu, corpus_chrf
from termweave.experiments.graph import Graph, Result, shown
from termweave.experiments.plan import Experiment
from termweave.storage import read_json, write_json

EXPERIMENT = "experiment.json"
RECORDS = "records"


@dataclass(frozen=True)
class Records:
    """The records of one experiment, below its folder."""

    root: Path
    graph: Graph

    def path(self, step: str) -> Path:
        return self.root / RECORDS / f"{step}.json"

    def done(self, step: str) -> bool:
        path = self.path(step)
        try:
            return path.exists() and read_json(path).get("key") == self.graph.keys[step]
        except (DataError, AttributeError):
            return False  # damaged, by hand or by a disk: the step is done again

    def read(self, step: str) -> dict[str, Any]:
        """What a finished step found."""
        result: dict[str, Any] = read_json(self.path(step))["result"]
        return result

    def write(self, step: str, result: Result, seconds: float, common: Result) -> None:
        entry = self.graph.steps[step]
        record = {
            "step": step,
            "key": self.graph.keys[step],
            "needs": {need: self.graph.keys[need] for need in entry.needs},
            "settings": entry.settings,
            "data": self.graph.data_of(step),
            "seconds": round(seconds, 1),  # of the last visit
            **common,
            "result": result,
        }
        write_json(self.path(step), record)


def provenance(experiment: Experiment, device: torch.device) -> dict[str, Any]:
    """What all records of a visit share."""
    config = experiment.base_config()
    language = config.data.directions[0].partition("-")[2]
    return {
        "seeds": {"experiment": experiment.seed, "training": config.training.seed},
        "versions": {
            "termweave": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "sacrebleu": sacrebleu.__version__,
        },
        "signatures": {
            "BLEU": corpus_bleu(["a"], ["a"], language).signature,
            "chrF2": corpus_chrf(["a"], ["a"]).signature,
        },
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU ({platform.machine()})",
    }


def write_experiment(experiment: Experiment, graph: Graph) -> None:
    """The plan and the keys, beside the records: all that rendering needs to know."""
    plan = to_tree(experiment)
    del plan["folder"], plan["config"]
    for test_set in plan["test_sets"]:
        for field in ("source", "target", "links"):
            test_set[field] = shown(test_set[field])
    direction = experiment.base_config().data.directions[0]
    write_json(experiment.root / EXPERIMENT, {"direction": direction, "plan": plan, "keys": graph.keys})


@dataclass(frozen=True)
class Results:
    """Everything an experiment has found so far, read back from its folder."""

    root: Path
    direction: str
    plan: dict[str, Any]
    keys: dict[str, str]
    records: dict[str, dict[str, Any]]  # by step; only those that belong to the present plan

    @classmethod
    def open(cls, root: Path) -> Results:
        if not (root / EXPERIMENT).exists():
            raise DataError(f"{root} holds no {EXPERIMENT}; name the folder that `termweave experiment run` wrote")
        tree = read_json(root / EXPERIMENT)
        found = {}
        for step, key in tree["keys"].items():
            path = root / RECORDS / f"{step}.json"
            if path.exists() and (record := read_json(path)).get("key") == key:
                found[step] = record
        return cls(root, tree["direction"], tree["plan"], tree["keys"], found)

    def get(self, step: str) -> dict[str, Any] | None:
        """The result of a step; None if it is not done."""
        record = self.records.get(step)
        return None if record is None else record["result"]

    def systems(self, table: str) -> Iterator[dict[str, Any]]:
        return (system for system in self.plan["systems"] if table in system["tables"])
