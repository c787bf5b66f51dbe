"""The two stages: θ_v alone on plain sentences, then the whole model θ on sentences with constraints."""

from __future__ import annotations

import dataclasses
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from termweave import storage
from termweave.config import Config, ModelConfig, StageConfig
from termweave.data.corpus import PreparedCorpus
from termweave.data.stream import BatchStream, Weighting
from termweave.decoding.translator import choose_device
from termweave.errors import TrainingError
from termweave.model.checkpoint import (
    average_weights,
    load_settings,
    load_weights,
    put_weights,
    require_same_vocabulary,
    save_checkpoint,
)
from termweave.model.transformer import Transformer
from termweave.progress import console
from termweave.training.distributed import Processes, processes
from termweave.training.loop import StageTrainer, StopSignal, regular_checkpoints
from termweave.training.validation import Validator

Stage = Literal["1", "2", "both"]


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
        plain = dataclasses.replace(self.config.model, attention=False, output=False)
        return self._stage("stage1", plain, None, self.config.training.stage1, Weighting(), stop)

    def stage2(self, first: Path, stop: StopSignal) -> Path | None:
        model, stage = self.config.model, self.config.training.stage2
        # With neither, stage 2 is stage 1 continued: the vanilla baseline.
        constraints = model.attention or model.output
        weighting = Weighting(stage.alpha, stage.beta, constraints)
        return self._stage("stage2", model, first, stage, weighting, stop)

    def _stage(
        self,
        name: str,
        settings: ModelConfig,
        start: Path | None,
        stage: StageConfig,
        weighting: Weighting,
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
            put_weights(model, load_weights(start), start, new=True)
        torch.manual_seed(training.seed + 1000 + self.group.rank)  # dropout differs between processes
        seed = training.seed + (0 if name == "stage1" else 1)
        stream = BatchStream(
            self.corpus.directions,
            subwords,
            batch_tokens=training.batch_tokens,
            seed=seed,
            sampling=self.config.sampling,
            weighting=weighting,
        )
        validation = self.config.validation
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
            validator=Validator(validation, subwords, self.directions) if validation.file else None,
            validate_every=validation.every,
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
            save_checkpoint(folder / "final", average_weights(last), settings, self.directions, self.tokenizer)
        self.group.wait()
        return folder / "final"
