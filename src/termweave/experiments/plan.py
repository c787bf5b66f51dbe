"""What an experiment is: the models to train, the systems they make, the test sets, the tables wanted. Read from TOML.

A *model* is trained once. A *system* is a model with a search: a row of tables. Which tables a system stands in
decides what is decoded with it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from termweave.config import Config, from_tree, load_config
from termweave.errors import ConfigError

Kind = Literal["none", "all", "hard", "switched"]
TableName = Literal["main", "ablation", "switched", "speed", "calibration"]

_NAME = re.compile(r"[A-Za-z0-9][\w+-]*")  # it becomes part of file names, with dots between the parts


@dataclass(frozen=True)
class ModelPlan:
    """A model to train."""

    name: str
    stage: Literal["1", "2", "alignment"] = "2"  # alignment: only the module of CDAlign, beside a finished model
    start: str = ""  # the model it starts from; empty for stage 1
    settings: tuple[str, ...] = ()  # keys of the configuration it replaces, such as "model.variant=paper"

    def __post_init__(self) -> None:
        _require_name("models", self.name)
        if (self.stage == "1") == bool(self.start):
            raise ConfigError(f"models: {self.name}: stage 1 starts from nothing, every other stage from a model")


@dataclass(frozen=True)
class SystemPlan:
    """A model and a search: a row of tables."""

    name: str
    model: str
    search: Literal["beam", "vdba", "cdalign"] = "beam"
    tables: tuple[TableName, ...] = ("main",)
    switched: str = ""  # the model for code-switched sets, trained for them; empty: the same
    paper: str = ""  # the method of the paper whose figures stand beside, see `paper.METHODS`

    def __post_init__(self) -> None:
        _require_name("systems", self.name)


@dataclass(frozen=True)
class TestSetPlan:
    """A test set, and the kinds of constraints it is used with."""

    __test__ = False  # the name starts with "Test"; pytest must not collect it

    name: str
    source: str
    target: str
    links: str = ""  # Pharaoh links of a set in words; empty: learned together with training text
    languages: str = ""  # "de-en": language of `source`, language of `target`; default: the direction translated
    note: str = ""  # printed above its tables
    kinds: tuple[Kind, ...] = ("none", "all", "hard", "switched")
    sentences: int = 0  # only so many, from its beginning; 0: all

    def __post_init__(self) -> None:
        _require_name("test_sets", self.name)
        if self.sentences < 0:
            raise ConfigError(f"test_sets: {self.name}: `sentences` must not be negative; 0 means all")


@dataclass(frozen=True)
class SpeedPlan:
    """How inference speed is measured, on the `hard` constraints of the first test set."""

    batches: tuple[int, ...] = (1, 128)  # sentences translated at once
    sentences: int = 512  # at most so many, and at most thirty batches

    def __post_init__(self) -> None:
        if not self.batches or min(self.batches) < 1 or self.sentences < 1:
            raise ConfigError("speed: `batches` and `sentences` must be at least 1")


@dataclass(frozen=True)
class Experiment:
    """A whole experiment."""

    name: str
    config: str  # configuration of data, model and training that all models share
    plain: str  # the model whose greedy output decides which constraints are `hard`
    models: tuple[ModelPlan, ...]
    systems: tuple[SystemPlan, ...]
    test_sets: tuple[TestSetPlan, ...]
    settings: tuple[str, ...] = ()  # keys of the configuration replaced for all models
    folder: str = ""  # where results, models and translations go; default: results/NAME
    seed: int = 1  # of constraint sets and the bootstrap; training has its own in the configuration
    beam: int = 4
    batch_tokens: int = 4096  # source subwords translated at once
    link_pairs: int = 450_000  # training pairs that test sets without links are aligned with
    samples: int = 1000  # test sets drawn by the paired bootstrap
    cases: int = 3  # sentences of the case study
    speed: SpeedPlan = SpeedPlan()

    def __post_init__(self) -> None:
        _require_name("name", self.name)
        for what, entries in (("models", self.models), ("systems", self.systems), ("test_sets", self.test_sets)):
            _require_distinct(what, [entry.name for entry in entries])
        known: set[str] = set()
        for model in self.models:
            _require_known(f"models: {model.name}: start", model.start, known)
            known.add(model.name)
        _require_known("plain", self.plain, known)
        for system in self.systems:
            _require_known(f"systems: {system.name}: model", system.model, known)
            _require_known(f"systems: {system.name}: switched", system.switched, known)

    @property
    def root(self) -> Path:
        return Path(self.folder or f"results/{self.name}")

    def base_config(self, extra: Sequence[str] = ()) -> Config:
        return load_config(Path(self.config), [*self.settings, *extra])

    def kinds_of(self, system: SystemPlan, test_set: TestSetPlan) -> tuple[Kind, ...]:
        """With which constraints a system translates a test set."""
        wanted: set[str] = set()
        if "main" in system.tables:
            # Without constraints, all searches are the plain one.
            wanted |= {"all", "hard"} | ({"none"} if system.search == "beam" else set())
        if {"ablation", "calibration"} & set(system.tables):
            wanted.add("hard")
        if "switched" in system.tables:
            wanted.add("switched")
        return tuple(kind for kind in test_set.kinds if kind in wanted)


def load_experiment(path: Path) -> Experiment:
    """Read an experiment file; paths in it are relative to the folder the command runs in."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (IsADirectoryError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    try:
        return from_tree(Experiment, tree)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _require_name(where: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: {name!r} cannot be part of a file name; use letters, digits, `-`, `_` and `+`")


def _require_distinct(where: str, names: list[str]) -> None:
    if not names:
        raise ConfigError(f"{where}: name at least one with [[{where}]]")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f"{where}: `{twice[0]}` stands twice")


def _require_known(where: str, name: str, known: set[str]) -> None:
    if name and name not in known:
        raise ConfigError(f"{where}: no model `{name}` before it; known: {', '.join(sorted(known)) or 'none'}")
