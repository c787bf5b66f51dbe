"""`experiment run`, `experiment status`, `experiment render`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termweave.cli.application import Device, app

if TYPE_CHECKING:
    from termweave.experiments.plan import Experiment

experiment = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Whole experiments: train every system, translate, measure, and write the tables.\n\n"
    "Example: `termweave experiment run experiments/de-en.toml`",
)
app.add_typer(experiment, name="experiment")

ExperimentPath = Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="See docs/experiments.md.")]
Smoke = Annotated[bool, typer.Option("--smoke", help="The same on the toy corpus with tiny models, in minutes.")]


@experiment.command()
def run(
    file: ExperimentPath,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP",
            help="Only this step and what it needs, such as train.copy or 'score.*'; may be given several times.",
        ),
    ] = None,
    leave: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP",
            help="Steps that other commands do at the same time, such as 'train.*'; what needs them waits.",
        ),
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="Stop cleanly after so many seconds; the same command goes on.")
    ] = None,
    device: Device = "auto",
    smoke: Smoke = False,
) -> None:
    """Do every step that is not done yet, then render the tables.

    Examples:

    `termweave experiment run experiments/de-en.toml --max-seconds 3000`

    `termweave experiment run experiments/de-en.toml --only train.copy`

    `termweave experiment run experiments/de-en.toml --only 'score.*' --leave 'train.*'`

    `termweave experiment run experiments/de-en.toml --smoke --device cpu`
    """
    from termweave.experiments.render import render
    from termweave.experiments.runner import run_experiment

    plan = _load(file, smoke)
    progress = run_experiment(plan, only=only or (), leave=leave or (), max_seconds=max_seconds, device=device)
    page = render(plan.root)
    if progress.left:
        typer.echo(f"stopped early, {len(progress.left)} steps left; the same command goes on with {progress.left[0]}")
    _name(page)


@experiment.command()
def status(file: ExperimentPath, smoke: Smoke = False) -> None:
    """Print each step and whether it is done.

    Example: `termweave experiment status experiments/de-en.toml`
    """
    from termweave.experiments.runner import experiment_status

    states = experiment_status(_load(file, smoke))
    for name, state in states:
        typer.echo(f"{state:<6} {name}")
    typer.echo(f"{sum(state == 'done' for _, state in states)} of {len(states)} steps done")


@experiment.command()
def render(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder of results, such as results/de-en.")],
) -> None:
    """Write RESULTS.md and the figures from the records in a folder, and from nothing else.

    Figures need matplotlib: `pip install 'termweave[figures]'`.

    Example: `termweave experiment render results/de-en`
    """
    from termweave.experiments.render import render as make

    _name(make(folder))


def _name(page: Path) -> None:
    from termweave.experiments.figures import can_draw

    typer.echo(f"results: {page}")
    if not can_draw():
        typer.echo("without figures: matplotlib is not installed (pip install 'termweave[figures]')")


def _load(file: Path, small: bool) -> Experiment:
    from termweave.experiments.plan import load_experiment
    from termweave.experiments.smoke import smoke as make_small

    plan = load_experiment(file)
    return make_small(plan) if small else plan
