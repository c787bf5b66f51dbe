"""`train` and `pack`; `toy`, which does everything on a small scale; `demo`, which shows a finished model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from termweave.cli.application import ConfigPath, Device, Overrides, app


@app.command()
def train(
    config: ConfigPath,
    settings: Overrides = None,
    stage: Annotated[
        Literal["1", "2", "both", "alignment"],
        typer.Option(help="Which stage to train; alignment: the module that `--search cdalign` needs, beside a model."),
    ] = "both",
    max_seconds: Annotated[
        float | None, typer.Option(help="Save and leave after so many seconds; the same command goes on.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train both stages, going on where an earlier run stopped.

    On several GPUs or machines: `torchrun --nproc-per-node 8 -m termweave train CONFIG.toml`, with
    `training.accumulation` a multiple of the number of processes.

    Example: `termweave train configs/de-en.toml --set model.variant=paper --max-seconds 3600`
    """
    from termweave.config import load_config
    from termweave.training.stages import train as run

    result = run(load_config(config, settings or ()), stage=stage, device=device, max_seconds=max_seconds)
    if not result.finished:
        typer.echo("stopped early; the same command goes on from here")
    else:
        typer.echo(f"model: {result.model}")


@app.command()
def pack(
    model: Annotated[Path, typer.Argument(help="Model folder, such as runs/toy/model/stage2/final.")],
    output: Annotated[Path, typer.Argument(help="Folder to write.")],
    gate_shift: Annotated[
        float, typer.Option(help="Added to the gate of `copy`: below zero, the model copies less readily.")
    ] = 0.0,
) -> None:
    """Make a model folder a quarter of its size: weights of eight bits, with a scale for each row.

    It is read like any other model folder, with any `--precision`.

    Example: `termweave pack runs/toy/model/stage2/final runs/toy/small`
    """
    from termweave.model.checkpoint import pack_checkpoint

    pack_checkpoint(model, output, gate_shift)
    size = sum(path.stat().st_size for path in output.iterdir())
    typer.echo(f"{output}: {size / 2**20:.1f} MiB")


@app.command()
def toy(
    folder: Annotated[Path, typer.Argument(help="Where everything is written.")] = Path("runs/toy"),
    seed: Annotated[int, typer.Option(help="Same seed, same corpus.")] = 1,
) -> None:
    """Show the whole path on a small corpus of our own: prepare, train both stages, compare. Minutes on two cores.

    Example: `termweave toy runs/toy`
    """
    from termweave.experiments.demo import run_demo

    run_demo(folder, seed)


@app.command()
def demo(
    model: Annotated[
        Path | None, typer.Option(help="Model folder, German or English; default: the ready model.")
    ] = None,
    device: Device = "cpu",
) -> None:
    """Translate a few sentences of our own, without and with a glossary, and show a receipt for every term.

    Example: `termweave demo --model runs/toy/model/stage2/final`
    """
    from termweave.decoding.translator import Translator
    from termweave.experiments.showcase import show_glossary

    translator = Translator.load(model, device, "int8" if device == "cpu" else "float32")
    show_glossary(translator)
    named = "" if model is None else f" --model {model}"
    way = "" if len(translator.directions) == 1 else f" --direction {translator.directions[0]}"
    typer.echo(
        f"\nYour own text and terms: termweave translate FILE{named}{way} --glossary TERMS.tsv --receipts terms.jsonl"
        f"\nOr on a page: termweave serve{named}, then open http://127.0.0.1:8080"
    )
