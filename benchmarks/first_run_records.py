"""The JSON records of the first run: one folder a run, in it one file for each training and each translated set."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ORDER = ("vanilla", "paper", "released", "copy")
VARIANTS = ORDER[1:]
TEST_SETS = {
    "rwth508": "test.rwth508 (508 sentences, silver links)",
    "europarl": "dev.europarl (2,000 sentences)",
    "bicici100": "gold.bicici100 (100 sentences, lower-cased, human links)",
}

Record = dict[str, Any]


@dataclass(frozen=True)
class Scored:
    """What a system made of a test set in a run: with the constraints of `hard`, and with none."""

    system: str
    run: str  # where it was measured
    hard: Record
    none: Record

    @property
    def rate(self) -> float:
        return float(self.hard["csr_phrase_level"])


def records(folder: Path, pattern: str) -> dict[str, Record]:
    return {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in sorted(folder.glob(pattern))}


def record(folder: Path, name: str) -> Record | None:
    return records(folder, f"{name}.json").get(name)


def runs(folder: Path) -> list[Path]:
    """Oldest first; their names begin with a number."""

    def number(run: Path) -> tuple[int, str]:
        first = run.name.partition("-")[0]
        return (int(first) if first.isdigit() else 0, run.name)

    return sorted((path for path in folder.iterdir() if path.is_dir()), key=number)


def newest(folder: Path, *names: str) -> Path | None:
    """The newest run that has all of these records."""
    having = [run for run in runs(folder) if has(run, *names)]
    return having[-1] if having else None


def has(run: Path, *names: str) -> bool:
    return all((run / f"{name}.json").exists() for name in names)


def origin(run: Path, name: str) -> str:
    """The oldest run with the very same record: a run that goes on from another one's models holds copies of theirs."""
    wanted = record(run, name)
    return next(other.name for other in runs(run.parent) if record(other, name) == wanted)


def scored(run: Path, system: str, test_set: str) -> Scored | None:
    hard, none = record(run, f"{system}.{test_set}.hard"), record(run, f"{system}.{test_set}.none")
    if hard is None or none is None:
        return None
    return Scored(system, origin(run, f"{system}.{test_set}.hard"), hard, none)


def beside_vanilla(folder: Path, system: str, test_set: str) -> tuple[Scored, Scored] | None:
    """A system and vanilla of the newest run that has both: `hard` differs from run to run."""
    names = [f"{name}.{test_set}.{kind}" for name in (system, "vanilla") for kind in ("hard", "none")]
    run = newest(folder, *names)
    if run is None:
        return None
    variant, vanilla = scored(run, system, test_set), scored(run, "vanilla", test_set)
    assert variant and vanilla and variant.hard["constraints"] == vanilla.hard["constraints"]
    return variant, vanilla
