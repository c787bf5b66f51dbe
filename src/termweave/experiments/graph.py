"""Steps and what they need of each other.

Every step has a key: a hash of its settings, of the data files it reads, and of the keys of the steps it needs. A step
is done if there is a record with its key. Whatever changes, exactly the steps that it touches get another key, and so
are done again; what they write goes to folders named after the key, so nothing old is mixed with it.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from termweave.errors import ConfigError, DataError
from termweave.storage import read_json, write_json

if TYPE_CHECKING:
    from termweave.experiments.context import Context

FORMAT = 1  # raise it when all results mean something else than before: everything is then done again
# Of one kind of step, such as "decode", counted from 1: raise it when that kind makes something else than before, by
# another search for instance. It and what rests on it is then done again, and no model is trained for it.
FORMATS: dict[str, int] = {"decode": 4}
DATA = "data.json"

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """A piece of work. It returns its result, or None if it was stopped before its end and can go on later."""

    name: str
    work: Callable[[Context], Result | None]
    needs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # all that changes the result, and nothing else
    files: tuple[str, ...] = ()  # data it reads
    product: str = ""  # what later steps read in its folder; empty: its record is all there is
    home: str = ""  # the step in whose folder it works; default: its own


class Graph:
    """Steps in an order in which they can be done, with their keys."""

    def __init__(self, steps: Sequence[Step], hashes: Mapping[str, str]) -> None:
        self.steps: dict[str, Step] = {}
        self.keys: dict[str, str] = {}
        for step in steps:
            missing = [need for need in step.needs if need not in self.steps]
            assert not missing, f"{step.name} comes before {missing}"
            assert step.name not in self.steps, f"{step.name} stands twice"
            self.steps[step.name] = step
            self.keys[step.name] = self._key(step, hashes)
        self.hashes = hashes

    def _key(self, step: Step, hashes: Mapping[str, str]) -> str:
        parts: dict[str, Any] = {
            "format": FORMAT,
            "settings": step.settings,
            "files": [hashes[file] for file in step.files],  # where the files lie does not matter
            "needs": [self.keys[need] for need in step.needs],
        }
        kind = step.name.partition(".")[0]
        if kind in FORMATS:
            parts["format of the kind"] = FORMATS[kind]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def matching(self, patterns: Sequence[str]) -> list[str]:
        """Names of steps that match any of the patterns, such as `train.*`; all steps if there are no patterns."""
        if not patterns:
            return list(self.steps)
        for pattern in patterns:
            if not fnmatch.filter(self.steps, pattern):
                raise ConfigError(f"{pattern}: no such step; `termweave experiment status` lists them")
        return [name for name in self.steps if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]

    def due(self, wanted: Sequence[str], done: Callable[[str], bool], has_product: Callable[[str], bool]) -> list[Step]:
        """What must be done for the wanted steps, in order.

        A step that is done is not done again just because its files are gone; only if a step that is due reads them.
        """
        due: set[str] = set()

        def demand(name: str, read: bool) -> None:
            if name in due or (done(name) and not (read and not has_product(name))):
                return
            due.add(name)
            for need in self.steps[name].needs:
                demand(need, True)

        for name in wanted:
            demand(name, False)
        return [step for step in self.steps.values() if step.name in due]

    def data_of(self, name: str) -> dict[str, str]:
        """Hashes of all data a step rests on, its own and that of the steps before it."""
        step = self.steps[name]
        found = {shown(file): self.hashes[file] for file in step.files}
        for need in step.needs:
            found |= self.data_of(need)
        return dict(sorted(found.items()))


def shown(file: str) -> str:
    """The name of a file in records: without a place that other machines do not have."""
    return Path(file).name if Path(file).is_absolute() else file


def hash_files(files: Sequence[str], root: Path) -> dict[str, str]:
    """SHA-256 of each file. They are remembered, for visits to a machine that has no copy of the data."""
    path = root / DATA
    remembered = read_json(path) if path.exists() else {}
    hashes: dict[str, str] = {}
    for file in dict.fromkeys(files):
        if Path(file).exists():
            with Path(file).open("rb") as stream:
                hashes[file] = hashlib.file_digest(stream, "sha256").hexdigest()
        elif shown(file) in remembered:
            hashes[file] = remembered[shown(file)]
        else:
            raise DataError(f"{file} does not exist; put the data where the experiment and its configuration say")
    entries = remembered | {shown(file): value for file, value in hashes.items()}
    if entries != remembered:
        write_json(path, dict(sorted(entries.items())))
    return hashes
