"""The training loop of one stage: batches in, optimiser steps, checkpoints and a log out.

The loop can be stopped at any time (SIGTERM, Ctrl-C, `--max-seconds`, or a kill) and goes on from its last checkpoint
with the same batches, random numbers and optimiser, so that its losses are those of a run that was never stopped.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter

from termweave import storage
from termweave.config import StageConfig, TrainingConfig
from termweave.data.batches import Batch
from termweave.data.stream import BatchStream
from termweave.errors import TrainingError
from termweave.model.checkpoint import (
    load_settings,
    load_weights,
    put_weights,
    require_same_vocabulary,
    save_checkpoint,
)
from termweave.model.transformer import Transformer
from termweave.progress import console, progress_bar
from termweave.training.alignment import AlignmentObjective
from termweave.training.distributed import Processes
from termweave.training.objective import Objective
from termweave.training.schedule import learning_rate
from termweave.training.state import load_state, random_state, save_state
from termweave.training.validation import Validator


@dataclass
class StopSignal:
    """Set by SIGTERM, Ctrl-C or a deadline; the loop looks at it after every step."""

    deadline: float | None = None
    raised: bool = False

    @property
    def now(self) -> bool:
        return self.raised or (self.deadline is not None and time.monotonic() >= self.deadline)

    @contextmanager
    def listening(self) -> Iterator[None]:
        def stop(*_: object) -> None:
            self.raised = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass
class _Window:
    """Sums since the last line of the log. Losses stay on the device: reading them would stall it."""

    loss: Tensor | None = None
    likelihood: Tensor | None = None
    weight: float = 0.0
    tokens: int = 0
    steps: int = 0
    started: float = field(default_factory=time.monotonic)

    def add(self, loss: Tensor, likelihood: Tensor, batch: Batch) -> None:
        self.loss = loss.detach() if self.loss is None else self.loss + loss.detach()
        self.likelihood = likelihood if self.likelihood is None else self.likelihood + likelihood
        self.weight += batch.weight
        self.tokens += batch.tokens


class StageTrainer:
    """Trains one stage. The model is updated in place; `folder` receives checkpoints and the log."""

    def __init__(
        self,
        name: str,
        model: Transformer,
        stream: BatchStream,
        stage: StageConfig,
        training: TrainingConfig,
        folder: Path,
        group: Processes,
        *,
        tokenizer: Path,
        directions: tuple[str, ...],
        validator: Validator | None,
        validate_every: int,
        objective: Objective | AlignmentObjective | None = None,
    ) -> None:
        if training.accumulation % group.count:
            raise TrainingError(
                f"training.accumulation = {training.accumulation} cannot be shared by {group.count} processes; "
                f"set it to a multiple of {group.count}"
            )
        self.name, self.model, self.stream, self.stage, self.training = name, model, stream, stage, training
        self.folder, self.group, self.tokenizer, self.directions = folder, group, tokenizer, directions
        self.validator, self.validate_every = validator, validate_every
        self.bfloat16 = _bfloat16(training, group.device)
        self.objective = objective or Objective(model, training.label_smoothing)
        if training.compile == "always" or (training.compile == "auto" and group.device.type == "cuda"):
            self.objective.compile_parts()
        self.parallel: nn.Module = DistributedDataParallel(self.objective) if group.count > 1 else self.objective
        # Once: to find them in the modules takes as long as to clip them.
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.Adam(
            self.parameters,
            lr=1.0,
            betas=(0.9, 0.98),
            eps=1e-9,
            fused=group.device.type == "cuda",
        )
        self.step = 0

    def run(self, stop: StopSignal) -> bool:
        """Train to the end of the stage; False if it was stopped before."""
        self._resume()
        micro_batches = self.training.accumulation // self.group.count
        position = self.step * self.training.accumulation + self.group.rank
        pinned = self.group.device.type == "cuda"
        feed = closing(self.stream.batches(position, stride=self.group.count, pinned=pinned))
        self.objective.train()
        window = _Window()
        stopped = False
        with feed as batches, self._writer() as writer, progress_bar(self.name, self.stage.steps) as advance:
            advance(self.step)
            while self.step < self.stage.steps and not stopped:
                stopped = self._optimise([next(batches) for _ in range(micro_batches)], window, stop)
                advance()
                if self.step % self.training.log_every == 0:
                    self._log(window, writer)
                    window = _Window()
                if self.validator is not None and self.step % self.validate_every == 0:
                    self._validate(writer)
                if self.step % self.training.checkpoint_every == 0 or stopped or self.step == self.stage.steps:
                    if window.loss is not None:
                        self._require_finite(float(window.loss))
                    self.save()
        return self.step >= self.stage.steps

    def _optimise(self, batches: list[Batch], window: _Window, stop: StopSignal) -> bool:
        """One step over the micro-batches of this process; True if some process wants to stop."""
        shared = torch.tensor([sum(batch.weight for batch in batches), float(stop.now)], dtype=torch.float64)
        weight, stopping = self.group.sum(shared.to(self.group.device) if self.group.count > 1 else shared).tolist()
        self.step += 1
        for index, batch in enumerate(batches):
            last = index == len(batches) - 1
            moved = batch.to(self.group.device)
            with self._synchronised(last):
                with self._precision():
                    loss, likelihood = self.parallel(moved)
                # Gradients are averaged over processes, and the weights of all of them make up the step.
                (loss * (self.group.count / weight)).backward()
            window.add(loss, likelihood, batch)
        if self.training.max_gradient_norm:
            nn.utils.clip_grad_norm_(self.parameters, self.training.max_gradient_norm)
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = learning_rate(self.stage, self.step)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        window.steps += 1
        return bool(stopping > 0)

    def _synchronised(self, last: bool) -> Any:
        """Processes exchange gradients with the last micro-batch only."""
        if isinstance(self.parallel, DistributedDataParallel) and not last:
            return self.parallel.no_sync()
        return nullcontext()

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.group.device.type, dtype=torch.bfloat16, enabled=self.bfloat16)

    def _log(self, window: _Window, writer: SummaryWriter | None) -> None:
        assert window.loss is not None and window.likelihood is not None
        sums = torch.stack([window.loss, window.likelihood]).double().cpu()
        sums = torch.cat([sums, torch.tensor([window.weight, window.tokens], dtype=torch.float64)])
        sums = self.group.sum(sums.to(self.group.device) if self.group.count > 1 else sums)
        loss, likelihood, weight, tokens = sums.tolist()
        seconds = time.monotonic() - window.started
        record = {
            "stage": self.name,
            "step": self.step,
            "loss": loss / weight,
            "nll": likelihood / weight,
            "rate": learning_rate(self.stage, self.step),
            "tokens_per_second": round(tokens / seconds),
            "steps_per_second": round(window.steps / seconds, 3),
        }
        self._require_finite(loss)
        self._record(record, writer, ("loss", "nll", "rate", "tokens_per_second"))

    def _require_finite(self, loss: float) -> None:
        """A model that diverged is never saved over a good one."""
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} at step {self.step}; the last checkpoint is kept. "
                "Try a lower learning_rate, a longer warmup, or max_gradient_norm = 1.0"
            )

    def _validate(self, writer: SummaryWriter | None) -> None:
        if self.group.first and self.validator is not None:
            result = self.validator.measure(self.model)
            record = {"stage": self.name, "step": self.step, "valid": True} | vars(result)
            self._record(record, writer, ("bleu", "csr", "perplexity"))
        self.group.wait()

    def _record(self, record: dict[str, Any], writer: SummaryWriter | None, scalars: tuple[str, ...]) -> None:
        if not self.group.first or writer is None:
            return
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")
        for key in scalars:
            writer.add_scalar(f"{self.name}/{key}", record[key], record["step"])
        shown = " ".join(f"{key} {record[key]:.4g}" for key in scalars)
        console.print(f"{self.name} step {record['step']}: {shown}", highlight=False, soft_wrap=True)

    @contextmanager
    def _writer(self) -> Iterator[SummaryWriter | None]:
        if not self.group.first:
            yield None
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with SummaryWriter(str(self.folder / "tensorboard"), purge_step=self.step) as writer:
            yield writer

    def save(self) -> None:
        """A checkpoint of this step; older ones beyond `keep` are removed."""
        random_states = self.group.gather(random_state(self.group.device))
        if self.group.first:
            save_training_checkpoint(self, random_states)
        self.group.wait()

    def _resume(self) -> None:
        if self.group.first:
            for leftover in self.folder.glob(".step-*"):  # what a kill cut short
                storage.remove(leftover)
        checkpoints = step_checkpoints(self.folder)
        if checkpoints:
            self.step = resume_from(self, checkpoints[-1])
            if self.group.first:
                forget_log_after(self.folder / "log.jsonl", self.step)


def save_training_checkpoint(trainer: StageTrainer, random_states: list[Tensor]) -> None:
    target = trainer.folder / f"step-{trainer.step:08d}"
    with storage.atomic_path(target) as partial:
        save_checkpoint(
            partial, trainer.model.state_dict(), trainer.model.config, trainer.directions, trainer.tokenizer
        )
        save_state(partial, trainer.model, trainer.optimiser, random_states, {"step": trainer.step})
    regular = regular_checkpoints(trainer.folder, trainer.training.checkpoint_every, trainer.stage.steps)
    kept = {target, *regular[-trainer.training.keep :]}
    for old in step_checkpoints(trainer.folder):
        if old not in kept:
            storage.remove(old)


def step_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a stage, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def regular_checkpoints(folder: Path, every: int, last: int) -> list[Path]:
    """Those an uninterrupted run has too. A stop leaves one of its own, which must not count in the average."""
    return [path for path in step_checkpoints(folder) if (step := _step_of(path)) % every == 0 or step == last]


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


def resume_from(trainer: StageTrainer, checkpoint: Path) -> int:
    config, _ = load_settings(checkpoint)
    if config != trainer.model.config:
        raise TrainingError(
            f"{checkpoint} was trained with another model configuration; choose another training.folder or remove it"
        )
    require_same_vocabulary(checkpoint, trainer.tokenizer)
    put_weights(trainer.model, load_weights(checkpoint), checkpoint)
    return int(
        load_state(checkpoint, trainer.model, trainer.optimiser, trainer.group.rank, trainer.group.device)["step"]
    )


def forget_log_after(log: Path, step: int) -> None:
    """Drop log lines of steps that a kill undid: they will be written again."""
    if log.exists():
        lines = log.read_text(encoding="utf-8").splitlines()
        kept = []
        for line in lines:
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line)
            except (ValueError, KeyError, TypeError):
                continue  # a line the kill cut short
        storage.write_text(log, "".join(line + "\n" for line in kept))


def _bfloat16(training: TrainingConfig, device: torch.device) -> bool:
    if training.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return training.precision == "bfloat16"
