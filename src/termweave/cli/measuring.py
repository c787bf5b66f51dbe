"""How far a figure can be trusted: `compare`, `calibration`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from termweave.cli.application import Beam, Device, SearchName, app


@app.command()
def compare(
    constraint_set: Annotated[
        Path, typer.Argument(metavar="SET", help="Constraint set made by `termweave constraints`.")
    ],
    first: Annotated[Path, typer.Argument(metavar="HYPOTHESES_A", help="Translations of system A, one a line.")],
    second: Annotated[Path, typer.Argument(metavar="HYPOTHESES_B", help="Translations of system B, one a line.")],
    languages: Annotated[str, typer.Option(help="Such as de-en: words are counted by language.")],
    samples: Annotated[int, typer.Option(min=1, help="Test sets drawn from the one there is.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same draws.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Is B better than A, or was it lucky? Paired bootstrap resampling of BLEU and CSR.

    Examples:

    `termweave compare hard.jsonl vanilla.en constrained.en --languages de-en`

    `termweave compare hard.jsonl beam.en vdba.en --languages de-en --samples 10000 --json`
    """
    from termweave.evaluation.significance import compare_files

    found = compare_files(constraint_set, first, second, languages, samples=samples, seed=seed)
    typer.echo(json.dumps(found.to_json(), ensure_ascii=False, indent=2) if as_json else str(found))


@app.command()
def calibration(
    constraint_set: Annotated[
        Path, typer.Argument(metavar="SET", help="Constraint set made by `termweave constraints`.")
    ],
    model: Annotated[Path, typer.Option(help="Model folder to translate with.")],
    hypotheses: Annotated[
        Path | None, typer.Option(help="Measure on these translations, one a line, instead of the model's own.")
    ] = None,
    languages: Annotated[str | None, typer.Option(help="Such as de-en; default: the model's first direction.")] = None,
    no_constraints: Annotated[
        bool, typer.Option("--no-constraints", help="Translate without the constraints.")
    ] = False,
    search: SearchName = "vdba",
    beam: Beam = 4,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source subwords translated at once.")] = 4096,
    device: Device = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the bins of a reliability diagram.")
    ] = False,
) -> None:
    """Are a model's probabilities true? Inference ECE, and how probable constrained and all tokens are.

    Examples:

    `termweave calibration hard.jsonl --model runs/toy/model/stage2/final`

    `termweave calibration hard.jsonl --model runs/toy/model/stage2/final --search beam --json`

    `termweave calibration hard.jsonl --model runs/toy/model/stage1/final --no-constraints` for a plain model
    """
    from termweave.evaluation.systems import Setting, calibrate_system

    setting = Setting(languages, not no_constraints, search, beam, batch_tokens, device)
    found = calibrate_system(constraint_set, model, setting, hypotheses=hypotheses)
    typer.echo(json.dumps(found.to_json(), ensure_ascii=False, indent=2) if as_json else str(found))
