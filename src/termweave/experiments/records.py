"""Records: one JSON file for each finished step, with all that says where its figures come from.

A record is written, whole or not at all, when its step has ended. Nothing in it depends on where the experiment lies,
so that the folder can be carried between machines.

A step that is done again, because its files were lost, may make something else than before: on a GPU, no two trainings
are equal. So a record says what its step made and what it read, and holds only as long as that is what lies there.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
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

    def done(self) -> set[str]:
        """Steps whose records hold."""
        return set(holding(self.root, self.graph.keys))

    def exists(self, step: str) -> bool:
        """Is there a record of the present plan, whether it holds or not?"""
        return (_read(self.path(step)) or {}).get("key") == self.graph.keys[step]

    def read(self, step: str) -> dict[str, Any]:
        """What a finished step found."""
        result: dict[str, Any] = read_json(self.path(step))["result"]
        return result

    def write(self, step: str, result: Result, made: str, seconds: float, common: Result) -> None:
        entry = self.graph.steps[step]
        read = {need: (_read(self.path(need)) or {}).get("made", "") for need in entry.needs}
        record = {
            "step": step,
            "key": self.graph.keys[step],
            "needs": {need: self.graph.keys[need] for need in entry.needs},
            "read": read,
            "made": made,
            "settings": entry.settings,
            "data": self.graph.data_of(step),
            "seconds": round(seconds, 1),  # of the last visit
            **common,
            "result": result,
        }
        write_json(self.path(step), record)


def holding(root: Path, keys: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Records that belong to the plan and read what lies there now; `keys` are in an order steps can be done in."""
    found: dict[str, dict[str, Any]] = {}
    outdated: set[str] = set()
    for step, key in keys.items():
        record = _read(root / RECORDS / f"{step}.json")
        if record is None or record.get("key") != key:
            continue
        # A step whose record is lost may have made anything; only what it makes anew will tell.
        known = [need for need in record["needs"] if need in found]
        read = record.get("read", {})
        agrees = all(read.get(need, "") == found[need].get("made", "") for need in known)
        if agrees and outdated.isdisjoint(record["needs"]):
            found[step] = record
        else:
            outdated.add(step)
    return found


def _read(path: Path) -> dict[str, Any] | None:
    """A record; None if there is none, or it was damaged, by hand or by a disk: the step is done again."""
    try:
        record = read_json(path) if path.exists() else None
    except DataError:
        return None
    whole = isinstance(record, dict) and {"key", "needs", "result"} <= record.keys()
    return record if whole else None


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
    records: dict[str, dict[str, Any]]  # by step; only those that belong to the present plan and hold

    @classmethod
    def open(cls, root: Path) -> Results:
        if not (root / EXPERIMENT).exists():
            raise DataError(f"{root} holds no {EXPERIMENT}; name the folder that `termweave experiment run` wrote")
        tree = read_json(root / EXPERIMENT)
        found = holding(root, tree["keys"])
        return cls(root, tree["direction"], tree["plan"], tree["keys"], found)

    def get(self, step: str) -> dict[str, Any] | None:
        """The result of a step; None if it is not done."""
        record = self.records.get(step)
        return None if record is None else record["result"]

    def systems(self, table: str) -> Iterator[dict[str, Any]]:
        return (system for system in self.plan["systems"] if table in system["tables"])
