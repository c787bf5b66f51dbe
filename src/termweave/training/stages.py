"""The two stages: θ_v alone on plain sentences, then the whole model θ on sentences with constraints.

And one for CDAlign: the alignment module alone, beside a model that is finished.
"""

from __future__ import annotations

import dataclasses
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from termweave import storage
from termweave.accelerators import choose_device
from termweave.config import Config, ModelConfig, StageConfig
from termweave.data.corpus import PreparedCorpus
from termweave.data.linked import LinkedStream, open_links
from termweave.data.stream import BatchStream, Weighting
from termweave.errors import TrainingError
from termweave.model.checkpoint import (
    average_weights,
    load_settings,
    load_weights,
    put_weights,
    require_same_model,
    require_same_vocabulary,
    save_checkpoint,
)
from termweave.model.growth import deepened
from termweave.model.transformer import Transformer
from termweave.progress import console
from termweave.training.alignment import AlignmentObjective
from termweave.training.distributed import Processes, processes
from termweave.training.loop import StageTrainer, StopSignal, regular_checkpoints
from termweave.training.validation import Validator

Stage = Literal["1", "2", "both", "alignment"]


@dataclass(frozen=True)
class TrainingResult:
    """Where a run ended."""

    finished: bool  # False: stopped early; the same command goes on
    model: Path | None  # folder of the last finished stage


def train(
    config: Config, *, stage: Stage = "both", device: str = "auto", max_seconds: float | None = None
) -> TrainingResult:
    """Train the stages asked for, going on where an earlier run stopped."""
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    stop = StopSignal(deadline)
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for every shape, which costs more than it gains
    with processes(choose_device(device)) as group, stop.listening():
        run = _Run(config, group)
        model: Path | None = Path(config.training.start_from) if config.training.start_from else None
        if stage == "alignment":
            model = run.alignment(model or run.latest(), stop)
            return TrainingResult(model is not None, model)
        if stage in ("1", "both") and model is None:
            model = run.stage1(stop)
            if model is None:
                return TrainingResult(False, None)
        if stage in ("2", "both"):
            first = model or run.folder / "stage1" / "final"
            if not first.exists():
                raise TrainingError(f"stage 2 starts from {first}, which does not exist; train stage 1 first")
            model = run.stage2(first, stop)
        return TrainingResult(model is not None, model)


class _Run:
    def __init__(self, config: Config, group: Processes) -> None:
        self.config = config
        self.group = group
        self.corpus = PreparedCorpus.open(Path(config.data.folder))
        self.folder = Path(config.training.folder)
        self.tokenizer = Path(config.data.folder) / "tokenizer.model"
        self.directions = tuple(direction.name for direction in self.corpus.directions)

    def stage1(self, stop: StopSignal) -> Path | None:
        plain = dataclasses.replace(self.config.model, attention=False, output=False, alignment_layer=0)
        return self._stage("stage1", plain, None, self.config.training.stage1, self._stream(Weighting()), stop)

    def stage2(self, first: Path, stop: StopSignal) -> Path | None:
        model, stage = dataclasses.replace(self.config.model, alignment_layer=0), self.config.training.stage2
        # With neither, stage 2 is stage 1 continued: the vanilla baseline.
        constraints = model.attention or model.output
        weighting = Weighting(stage.alpha, stage.beta, constraints, model.replaces_source)
        return self._stage("stage2", model, first, stage, self._stream(weighting, later=1), stop)

    def latest(self) -> Path:
        """The model of the last stage that is finished."""
        finished = [self.folder / stage / "final" for stage in ("stage2", "stage1")]
        found = next((path for path in finished if path.exists()), None)
        if found is None:
            raise TrainingError(
                f"the alignment module looks at a finished model, but {self.folder} has none; train stage 1 first, or "
                "name a model folder in training.start_from"
            )
        return found

    def alignment(self, first: Path, stop: StopSignal) -> Path | None:
        """Train the alignment module of a finished model, and nothing else of it."""
        settings, _ = load_settings(first)
        layer = self.config.model.alignment_layer or (settings.decoder_layers + 1) // 2
        settings = dataclasses.replace(settings, alignment_layer=layer)
        training = self.config.training
        stream = LinkedStream(
            self.corpus.directions,
            open_links(self.corpus),
            self.corpus.subwords,
            batch_tokens=training.batch_tokens,
            seed=training.seed + 2,
        )
        return self._stage("alignment", settings, first, training.alignment, stream, stop)

    def _stream(self, weighting: Weighting, later: int = 0) -> BatchStream:
        """later: which stage after the first, so that no two see the same order of sentences."""
        return BatchStream(
            self.corpus.directions,
            self.corpus.subwords,
            batch_tokens=self.config.training.batch_tokens,
            seed=self.config.training.seed + later,
            sampling=self.config.sampling,
            weighting=weighting,
        )

    def _stage(
        self,
        name: str,
        settings: ModelConfig,
        start: Path | None,
        stage: StageConfig,
        stream: BatchStream,
        stop: StopSignal,
    ) -> Path | None:
        """Train one stage and write its model folder; None if it was stopped before its end."""
        folder = self.folder / name
        if (folder / "final").exists():
            self._require_same(folder / "final", settings)
            console.print(f"{name}: finished before", highlight=False)
            return folder / "final"
        training = self.config.training
        torch.manual_seed(training.seed)
        subwords = self.corpus.subwords
        model = Transformer(settings, subwords.size, subwords.pad)
        if start is not None:
            require_same_vocabulary(start, self.tokenizer)
            require_same_model(start, settings)
            found = load_settings(start)[0]
            if (added := settings.layers - found.layers) > 0 and self.group.first:
                console.print(f"{name}: {added} layers more than {start}", highlight=False, soft_wrap=True)
            put_weights(model, deepened(load_weights(start), found, settings), start, new=True)
        torch.manual_seed(training.seed + 1000 + self.group.rank)  # dropout differs between processes
        validation = self.config.validation
        aligning = isinstance(stream, LinkedStream)  # translations do not change then, so there is nothing to validate
        trainer = StageTrainer(
            name,
            model.to(self.group.device),
            stream,
            stage,
            training,
            folder,
            self.group,
            tokenizer=self.tokenizer,
            directions=self.directions,
            validator=Validator(validation, subwords, self.directions) if validation.file and not aligning else None,
            validate_every=validation.every,
            objective=AlignmentObjective(model) if aligning else None,
        )
        with storage.locked(folder, "termweave train") if self.group.first else nullcontext():
            if not trainer.run(stop):
                return None
            return self._finish(folder, settings, stage.steps)

    def _require_same(self, final: Path, settings: ModelConfig) -> None:
        """A finished stage must be the one that is asked for."""
        found, directions = load_settings(final)
        if found != settings or directions != self.directions:
            raise TrainingError(
                f"{final} was trained with another model configuration or for other directions; "
                "choose another training.folder or remove it"
            )
        require_same_vocabulary(final, self.tokenizer)

    def _finish(self, folder: Path, settings: ModelConfig, steps: int) -> Path:
        """Average the last checkpoints into the stage's model."""
        if self.group.first:
            last = regular_checkpoints(folder, self.config.training.checkpoint_every, steps)
            last = last[-self.config.training.average :]
            expansions = {direction.name: round(direction.expansion, 3) for direction in self.corpus.directions}
            weights = average_weights(last)
            save_checkpoint(folder / "final", weights, settings, self.directions, self.tokenizer, expansions=expansions)
        self.group.wait()
        return folder / "final"
