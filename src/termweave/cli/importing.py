"""`import`: models that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from termweave.cli.application import app
from termweave.errors import ConfigError

importing = typer.Typer(
    no_args_is_help=True,
    help="Bring a model that was trained elsewhere.\n\n"
    "Example: `termweave import marian opus-mt-de-en runs/opus/model --direction de-en`",
)
app.add_typer(importing, name="import")


@importing.command()
def marian(
    folder: Annotated[Path, typer.Argument(help="Checkpoint as Hugging Face keeps it: config.json, source.spm, …")],
    output: Annotated[Path, typer.Argument(help="Model folder to write.")],
    direction: Annotated[
        list[str], typer.Option(metavar="SOURCE-TARGET", help="What it translates, such as de-en; may repeat.")
    ],
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="LANGUAGE=CODE", help="The model's own code of a target language, where it has several."),
    ] = None,
) -> None:
    """Turn a MarianMT (OPUS-MT) checkpoint into a model folder, to translate with or to start stage 2 from.

    Examples:

    `termweave import marian opus-mt-de-en runs/opus/model --direction de-en`

    `termweave import marian opus-mt-en-roa runs/roa/model --direction en-fr --tag fr=fra`
    """
    from termweave.model.marian import import_marian, stage2_settings

    tags = dict(_parse_tag(text) for text in tag or [])
    config = import_marian(folder, output, direction, tags)
    typer.echo(f"model: {output}\nto start stage 2 from it, say in the configuration:\n")
    typer.echo(stage2_settings(output, config))


def _parse_tag(text: str) -> tuple[str, str]:
    language, separator, code = text.partition("=")
    if not (language and separator and code):
        raise ConfigError(f"--tag {text}: write it as LANGUAGE=CODE, for example fr=fra")
    return language, code
