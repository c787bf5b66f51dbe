"""What a step has at hand while it works: the plan, the folders, the time that is left, the model used last."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from termweave.constraints.evaluation_sets import ConstrainedSentence, read_constraint_set
from termweave.decoding.translator import Translation, Translator
from termweave.experiments.graph import Graph
from termweave.experiments.plan import Experiment, Kind
from termweave.storage import read_json, write_text

WORK = "work"  # below the experiment's folder: models, sets and translations, too large or not ours to publish
OUTPUTS = "outputs.json"


class Context:
    """One visit to an experiment."""

    def __init__(self, experiment: Experiment, graph: Graph, device: str, deadline: float | None) -> None:
        self.experiment = experiment
        self.graph = graph
        self.device = device
        self.deadline = deadline
        self.direction = experiment.base_config().data.directions[0]
        self.source_language, self.target_language = self.direction.split("-")
        self._loaded: tuple[Path, Translator] | None = None

    def home(self, step: str) -> Path:
        """The folder of a step, named after its key: what was made with other settings lies beside."""
        owner = self.graph.steps[step].home or step
        return self.experiment.root / WORK / f"{owner}.{self.graph.keys[owner][:8]}"

    def product(self, step: str) -> Path:
        return self.home(step) / self.graph.steps[step].product

    def has_product(self, step: str) -> bool:
        return not self.graph.steps[step].product or self.product(step).exists()

    def made(self, step: str) -> str:
        """A hash of what later steps read of a step; empty if its record is all there is."""
        if not self.graph.steps[step].product:
            return ""
        product, found = self.product(step), hashlib.sha256()
        for path in sorted(product.rglob("*")) if product.is_dir() else [product]:
            if path.is_file():
                with path.open("rb") as stream:
                    own = hashlib.file_digest(stream, "sha256").hexdigest()
                found.update(f"{path.relative_to(product)} {own}\n".encode())
        return found.hexdigest()[:16]

    @property
    def seconds_left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.seconds_left is not None and self.seconds_left <= 0

    def translator(self, model: str) -> Translator:
        """The model, kept until another is asked for: on a GPU, its first sentences take much longer than the rest."""
        path = self.product(f"train.{model}")
        if self._loaded is None or self._loaded[0] != path:
            self.forget_translator()  # two models need not fit into memory together
            self._loaded = path, Translator.load(path, self.device)
        return self._loaded[1]

    def forget_translator(self) -> None:
        self._loaded = None

    def sentences(self, test_set: str, kind: Kind) -> list[ConstrainedSentence]:
        """The set a kind is measured on; where no constraints are given, those of `all` are still counted."""
        return read_constraint_set(self.product(f"set.{test_set}.{'all' if kind == 'none' else kind}"))

    def write_outputs(self, step: str, outputs: list[Translation]) -> None:
        rows = {"texts": [each.text for each in outputs], "tokens": [each.tokens for each in outputs]}
        write_text(self.product(step), json.dumps(rows, ensure_ascii=False))

    def outputs(self, step: str) -> list[Translation]:
        """Translations as they were produced, subwords included."""
        rows = read_json(self.product(step))
        return [
            Translation(text, 0.0, tokens=tuple(tokens))
            for text, tokens in zip(rows["texts"], rows["tokens"], strict=True)
        ]
