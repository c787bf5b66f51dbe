"""The application, the options that several commands share, and how errors reach the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from termweave import __version__
from termweave.errors import TermweaveError
from termweave.progress import console

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Neural machine translation that keeps to a glossary.\n\n"
    "Train a model with three commands: `termweave prepare CONFIG`, `termweave train CONFIG`, "
    "`termweave evaluate SET --model MODEL`. `termweave toy` shows all of it on a small corpus.",
)

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="Configuration file; see docs/prepare.md.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Replace one key of the configuration; may be given several times."
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto for a GPU where there is one.")]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16", "int8"],
    typer.Option(help="Of the weights; int8 is the fastest on a CPU, and auto takes it there for packed models."),
]
Beam = Annotated[int, typer.Option(min=1, help="Hypotheses kept per sentence.")]
SearchName = Annotated[
    Literal["vdba", "beam", "cdalign"],
    typer.Option(
        help="vdba: constraints are guaranteed; beam: left to the model; cdalign: put where an alignment module says."
    ),
]


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        typer.echo(f"termweave {__version__}")
        raise typer.Exit()


def warn(message: str) -> None:
    console.print(f"termweave: {message}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def write_lines(lines: list[str], output: Path | None) -> None:
    text = "".join(line + "\n" for line in lines)
    if output is None:
        sys.stdout.write(text)
    else:
        from termweave.storage import write_text

        write_text(output, text)


@contextmanager
def told_if_interrupted(kept: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C ends a command with a line on what it leaves behind. Typer by itself would end it without a word."""
    try:
        yield
    except KeyboardInterrupt:
        console.print(f"termweave: interrupted; {kept()}", style="red", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(130) from None


def share_processors() -> None:
    """Let threads that wait for the next piece of work sleep soon, if nothing else was asked for.

    On a machine that has other work too, one that spins takes the processor from the one it waits for: eight sentences
    then took forty seconds instead of five. GNU's OpenMP reads this when torch is loaded.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


@contextmanager
def clear_errors() -> Iterator[None]:
    """Errors a user can mend are printed in one paragraph, without a traceback."""
    try:
        yield
    except TermweaveError as error:
        console.print(f"termweave: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        console.print(f"termweave: {where}{error.strerror or error}", style="red", highlight=False, markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("termweave: interrupted", style="red")
        sys.exit(130)
