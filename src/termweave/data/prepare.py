"""`termweave prepare`: run the steps that are not done yet, and keep a record of what each did and cost.

Every step has a key: a hash of its settings, of the files it reads and of the key before it. The key is written to
`prepare.json` only after the step's files stand under their final names. So a run that was killed goes on with the
step it was in, changed settings redo exactly the steps they touch, and later steps never write the files of earlier
ones: training may read the ids while the rest is still being computed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from termweave.alignment import LINK
from termweave.config import Config
from termweave.constraints.phrases import PHRASE
from termweave.data import steps
from termweave.data.folder import CHARACTER_SPAN, ID, RECORD, SIDES, WORD, WORD_SPAN
from termweave.data.measure import measured
from termweave.data.plan import Plan, make_plan
from termweave.data.steps import Counts
from termweave.errors import ConfigError, DataError
from termweave.storage import RaggedArray, locked, read_json, remove, write_json

_FUNCTIONS: dict[str, Callable[[Plan], Counts]] = {
    "clean": steps.clean,
    "subwords": steps.subwords,
    "encode": steps.encode,
    "align": steps.align,
    "phrases": steps.phrases,
}
STEPS = tuple(_FUNCTIONS)
_FORMAT = 1  # raise it when a step writes something else than before: old folders are then prepared anew


@dataclass(frozen=True)
class StepReport:
    """What one step did and cost. `skipped`: it had been done before, by a run with the same settings and files."""

    name: str
    key: str
    counts: Counts
    wall_seconds: float
    cpu_seconds: float
    peak_memory: int  # bytes, all processes together
    skipped: bool = False


@dataclass(frozen=True)
class PreparedReport:
    """What a whole preparation did."""

    folder: Path
    steps: tuple[StepReport, ...]


def prepare(
    config: Config, *, until: str | None = None, report: Callable[[StepReport], None] | None = None
) -> PreparedReport:
    """Prepare the corpora of `config` up to and including the step `until`; `report` hears of every step."""
    if until is not None and until not in STEPS:
        raise ConfigError(f"--until {until}: no such step; the steps are {', '.join(STEPS)}")
    plan = make_plan(config)
    wanted = STEPS[: STEPS.index(until) + 1] if until else STEPS
    reports: list[StepReport] = []
    with locked(plan.root, "termweave prepare"):
        record = _Record.load(plan)
        key = ""
        for name in wanted:
            key = _step_key(plan, name, key)
            done = record.find(name, key)
            step = done or _run(plan, name, key, record)
            if not done:
                record.add(step)
            reports.append(step)
            if report:
                report(step)
    return PreparedReport(plan.root, tuple(reports))


def _run(plan: Plan, name: str, key: str, record: _Record) -> StepReport:
    record.forget_from(name)
    _remove_leftovers(plan)
    with measured() as cost:
        counts = _FUNCTIONS[name](plan)
    return StepReport(name, key, counts, cost.wall_seconds, cost.cpu_seconds, cost.peak_memory)


class _Record:
    """`prepare.json`."""

    def __init__(self, plan: Plan, done: dict[str, StepReport]) -> None:
        self._plan = plan
        self._done = done

    @classmethod
    def load(cls, plan: Plan) -> _Record:
        """What stands in the folder; an unreadable record counts as none, and everything is done again."""
        try:
            tree = read_json(plan.root / RECORD)
            done = {name: StepReport(name=name, **entry) for name, entry in tree["steps"].items()}
        except (DataError, KeyError, TypeError):
            tree, done = {}, {}
        record = cls(plan, done)
        if tree.get("directions") != list(plan.config.data.directions):
            record._write()  # a direction may be added without any of the wanted steps changing
        return record

    def find(self, name: str, key: str) -> StepReport | None:
        """The report of a step done with this key whose files are all there and undamaged, as far as sizes tell."""
        step = self._done.get(name)
        if step is None or step.key != key or not _is_whole(self._plan, name):
            return None
        return dataclasses.replace(step, skipped=True)

    def add(self, step: StepReport) -> None:
        self._done[step.name] = step
        self._write()

    def forget_from(self, name: str) -> None:
        """Before a step overwrites its files, it and all that rest on it no longer count as done."""
        self._done = {step: entry for step, entry in self._done.items() if STEPS.index(step) < STEPS.index(name)}
        self._write()

    def _write(self) -> None:
        entries: dict[str, Any] = {}
        for name, step in self._done.items():
            entry = dataclasses.asdict(step)
            del entry["name"], entry["skipped"]
            entries[name] = entry
        tree = {
            "format": _FORMAT,
            "directions": list(self._plan.config.data.directions),
            "pairs": [pair.folder.name for pair in self._plan.pairs],
            "steps": entries,
        }
        write_json(self._plan.root / RECORD, tree)


def _is_whole(plan: Plan, name: str) -> bool:
    """Whether the files a step leaves behind are there, and the two files of every ragged array fit each other."""
    try:
        for path, dtype in _step_arrays(plan, name):
            RaggedArray.open(path, dtype)
    except DataError:
        return False
    return all(path.exists() for path in _step_files(plan, name))


def _step_files(plan: Plan, name: str) -> Iterator[Path]:
    """The files a step leaves behind, ragged arrays apart."""
    if name == "subwords":
        yield plan.tokenizer
    for pair in plan.pairs:
        for side in SIDES:
            if name == "clean":
                yield pair.folder.text(side)
            if name == "encode":
                yield pair.folder.vocabulary(side)


def _step_arrays(plan: Plan, name: str) -> Iterator[tuple[Path, np.dtype[Any]]]:
    """The ragged arrays a step leaves behind."""
    for pair in plan.pairs:
        folder = pair.folder
        for side in SIDES:
            if name == "clean" and pair.brings_links:
                yield folder.given_spans(side), CHARACTER_SPAN
            if name == "encode":
                yield from ((folder.ids(side), ID), (folder.words(side), WORD), (folder.spans(side), WORD_SPAN))
        if name in ("clean", "encode") and pair.brings_links:
            yield folder.given_links if name == "clean" else folder.brought_links, LINK
        if name == "align":
            yield folder.links, LINK
        if name == "phrases":
            for direction in pair.directions:
                yield folder.phrases(direction), PHRASE


def _step_key(plan: Plan, name: str, previous: str) -> str:
    config, data = plan.config, plan.config.data
    settings: dict[str, Any] = {
        "clean": {
            "corpora": [(planned.corpus.languages, planned.swapped) for pair in plan.pairs for planned in pair.corpora],
            "folders": [pair.folder.name for pair in plan.pairs],
            "rules": (data.max_ratio, data.max_characters, data.remove_duplicates),
        },
        "subwords": {"subwords": dataclasses.asdict(config.subwords), "languages": plan.languages},
        "encode": {"max_tokens": data.max_tokens},
        "align": dataclasses.asdict(config.alignment),
        "phrases": {"phrases": dataclasses.asdict(config.phrases), "directions": data.directions},
    }
    files: list[Path] = []
    if name == "clean":
        files = list(plan.input_files())
    elif name == "subwords" and config.subwords.model:
        files = [Path(config.subwords.model)]
    contents = [_file_hash(path) for path in files]
    value = json.dumps([_FORMAT, name, previous, settings[name], contents])
    return hashlib.sha256(value.encode()).hexdigest()[:32]


def _file_hash(path: Path) -> str:
    """By content, not by date: a folder copied to another machine need not be prepared again."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder, not a file") from None


def _remove_leftovers(plan: Plan) -> None:
    """What a killed run left half written, all under hidden names; nobody else writes here while we hold the lock."""
    leftovers = [path for pair in plan.pairs for path in pair.folder.path.glob(".*")]
    for path in (*plan.root.glob(".*.partial*"), *leftovers):
        remove(path)
