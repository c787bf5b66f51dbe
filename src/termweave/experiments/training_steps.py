"""Steps that prepare the corpus and train the models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from termweave.config import Config, to_tree
from termweave.data.prepare import prepare
from termweave.experiments.context import Context
from termweave.experiments.graph import Result, Step
from termweave.experiments.plan import Experiment, ModelPlan
from termweave.model.checkpoint import load_weights
from termweave.storage import write_text
from termweave.training.stages import train

FOLDERS = {"1": "stage1", "2": "stage2", "alignment": "alignment"}
# Keys that change nothing about a model, only where it lies and what is told of it on the way.
_INDIFFERENT = ("folder", "start_from", "log_every", "stage1", "stage2", "alignment")


def preparation_steps(experiment: Experiment) -> list[Step]:
    """`encode` is what stage 1 needs; `prepare` goes on to links and phrase pairs, in the same folder."""
    config = experiment.base_config()
    files = [name for corpus in config.corpora for name in (corpus.source, corpus.target, corpus.tmx, corpus.links)]
    files += [name for test in config.test_sets for name in (test.source, test.target)]
    files.append(config.subwords.model)
    data = to_tree(config.data)
    del data["folder"], data["workers"]
    encoded = {
        "data": data,
        "corpora": [{"languages": corpus.languages, "repeat": corpus.repeat} for corpus in config.corpora],
        "subwords": {key: value for key, value in to_tree(config.subwords).items() if key != "model"},
    }
    linked = {"alignment": to_tree(config.alignment), "phrases": to_tree(config.phrases)}
    return [
        Step(
            "encode",
            partial(_prepare, step="encode", until="encode"),
            settings=encoded,
            files=tuple(name for name in files if name),
            product="encoded",
        ),
        Step(
            "prepare",
            partial(_prepare, step="prepare", until=None),
            needs=("encode",),
            settings=linked,
            product="prepared",
            home="encode",
        ),
    ]


def _prepare(context: Context, *, step: str, until: str | None) -> Result:
    config = context.experiment.base_config([_assigned("data.folder", context.home(step))])
    report = prepare(config, until=until)
    # A mark of its own for each of the two steps that share the folder: it may have been lost and made anew in part.
    write_text(context.product(step), f"{until or 'everything'}\n")
    return {done.name: {"counts": done.counts, "wall_seconds": done.wall_seconds} for done in report.steps}


def training_step(experiment: Experiment, model: ModelPlan) -> Step:
    config = experiment.base_config(model.settings)
    # Stage 1 reads plain sentences; everything else needs their phrase pairs or links. A vanilla model does not, but
    # then it has waited for stage 1 anyway.
    needs = ("encode",) if model.stage == "1" else ("prepare", f"train.{model.start}")
    return Step(
        f"train.{model.name}",
        partial(_train, model=model),
        needs=needs,
        settings=_what_matters(config, model.stage),
        product=f"{FOLDERS[model.stage]}/final",
    )


def _what_matters(config: Config, stage: str) -> dict[str, Any]:
    """The settings that a stage's result depends on, so that a change of stage 2 leaves stage 1 alone."""
    model, training = to_tree(config.model), to_tree(config.training)
    own = training[FOLDERS[stage]]
    for key in _INDIFFERENT:
        del training[key]
    settings = {"model": model, "training": training, "stage": own}
    if stage == "1":
        for key in ("attention", "output", "variant", "alignment_layer"):
            del model[key]
    elif stage == "2":
        settings["sampling"] = to_tree(config.sampling)
    return settings


def _train(context: Context, *, model: ModelPlan) -> Result | None:
    home = context.home(f"train.{model.name}")
    settings = [
        *model.settings,
        _assigned("data.folder", context.home("encode")),
        _assigned("training.folder", home),
        'validation.file=""',
    ]
    if model.start:
        settings.append(_assigned("training.start_from", context.product(f"train.{model.start}")))
    config = context.experiment.base_config(settings)
    context.forget_translator()
    with _torch_left_as_found():
        result = train(config, stage=model.stage, device=context.device, max_seconds=context.seconds_left)
    if result.model is None:
        return None
    log = [json.loads(line) for line in (home / FOLDERS[model.stage] / "log.jsonl").read_text().splitlines()]
    return {
        "steps": getattr(config.training, FOLDERS[model.stage]).steps,  # the log may end before
        "parameters": sum(weight.numel() for weight in load_weights(result.model).values()),
        "first_loss": log[0]["loss"],
        "last_loss": log[-1]["loss"],
        "steps_per_second": median(row["steps_per_second"] for row in log),
        "target_tokens_per_second": median(row["tokens_per_second"] for row in log),
    }


@contextmanager
def _torch_left_as_found() -> Iterator[None]:
    """Training tunes torch for itself; translations must be the same whether it ran in this process or not.

    What was compiled for one model is thrown away after it: torch gives up compiling code that it has compiled for too
    many.
    """
    precision = torch.get_float32_matmul_precision()
    planned = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cuda.enable_cudnn_sdp(planned)
        torch.compiler.reset()


def _assigned(key: str, path: Path) -> str:
    return f"{key}={json.dumps(path.as_posix())}"
