"""Which corpora go into which pair folder, and which directions each folder serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from termweave.config import Config, CorpusConfig
from termweave.data.folder import TOKENIZER, PairFolder, reverse
from termweave.data.parallel import worker_count
from termweave.errors import ConfigError


@dataclass(frozen=True)
class PlannedCorpus:
    """A corpus; `swapped` if its source language is the target language of its pair folder."""

    corpus: CorpusConfig
    swapped: bool

    @property
    def files(self) -> list[Path]:
        corpus = self.corpus
        return [Path(name) for name in (corpus.tmx, corpus.source, corpus.target, corpus.links) if name]


@dataclass(frozen=True)
class PairPlan:
    """One pair folder."""

    folder: PairFolder
    corpora: tuple[PlannedCorpus, ...]
    directions: tuple[str, ...]

    @property
    def brings_links(self) -> bool:
        return any(planned.corpus.links for planned in self.corpora)

    @property
    def brings_all_links(self) -> bool:
        return all(planned.corpus.links for planned in self.corpora)


@dataclass(frozen=True)
class Plan:
    """All there is to prepare."""

    config: Config
    root: Path
    pairs: tuple[PairPlan, ...]

    @property
    def workers(self) -> int:
        return worker_count(self.config.data.workers)

    @property
    def tokenizer(self) -> Path:
        return self.root / TOKENIZER

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(sorted({language for name in self.config.data.directions for language in name.split("-")}))

    def input_files(self) -> Iterator[Path]:
        """Every file the cleaning reads."""
        for pair in self.pairs:
            for planned in pair.corpora:
                yield from planned.files
        for test_set in self.config.test_sets:
            yield Path(test_set.source)
            yield Path(test_set.target)


def make_plan(config: Config) -> Plan:
    """Sort corpora into pair folders: "de-en" and "en-de" share one, named after the first that comes."""
    root = Path(config.data.folder)
    corpora: dict[str, list[PlannedCorpus]] = {}
    for corpus in config.corpora:
        name = corpus.languages or config.data.directions[0]
        if name not in config.data.directions and (name.count("-") != 1 or reverse(name) not in config.data.directions):
            served = ", ".join(config.data.directions)
            raise ConfigError(f"corpora: {name!r} text serves none of data.directions ({served})")
        swapped = reverse(name) in corpora
        corpora.setdefault(reverse(name) if swapped else name, []).append(PlannedCorpus(corpus, swapped))
    for direction in config.data.directions:
        if direction not in corpora and reverse(direction) not in corpora:
            raise ConfigError(f"data.directions: there is no corpus for {direction}; add one with [[corpora]]")
    pairs = tuple(
        PairPlan(
            PairFolder(root, name),
            tuple(planned),
            tuple(direction for direction in config.data.directions if direction in (name, reverse(name))),
        )
        for name, planned in corpora.items()
    )
    return Plan(config, root, pairs)
