"""Glossary files: `glossary lint`, `glossary convert`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from termweave.cli.application import app, warn

glossary = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Check and convert glossary files.\n\n"
    "Examples: `termweave glossary lint terms.tsv`, `termweave glossary convert terms.tsv terms.tbx --from de --to en`",
)
app.add_typer(glossary, name="glossary")

From = Annotated[str, typer.Option("--from", metavar="CODE", help="Language of the source terms, such as de.")]
To = Annotated[str, typer.Option("--to", metavar="CODE", help="Language of the target terms, such as en.")]


@glossary.command()
def lint(
    file: Annotated[Path, typer.Argument(help="Glossary: .tsv, .csv or .tbx.")],
    source_language: From = "",
    target_language: To = "",
    limit: Annotated[int, typer.Option(min=0, help="Lines shown of each kind of finding; 0: all.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print every finding as JSON.")] = False,
) -> None:
    """Find what is probably wrong with a glossary: duplicates, conflicts, nested and overlapping terms, odd characters.

    Each finding names its line and a remedy. The exit code is 1 if there are errors, 0 if there are only warnings.
    Tables do not name their languages: give `--from zh` for Chinese, which is written without spaces.

    Examples:

    `termweave glossary lint terms.tsv`

    `termweave glossary lint terms.tbx --from de --to en --json`
    """
    from termweave.constraints.glossary_lint import lint_file

    report = lint_file(file, source_language, target_language)
    if as_json:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
    else:
        for line in (*report.lines(limit), report.summary()):
            typer.echo(line)
    if report.count("error"):
        raise typer.Exit(1)


@glossary.command()
def convert(
    file: Annotated[Path, typer.Argument(metavar="IN", help="Glossary to read: .tsv, .csv or .tbx.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Glossary to write: .tsv, .csv or .tbx.")],
    source_language: From = "",
    target_language: To = "",
    tbx: Annotated[
        Literal["dca", "dct", "2008"], typer.Option(help="Kind of TBX to write: 2019 in style DCA or DCT, or 2008.")
    ] = "dca",
    merge: Annotated[bool, typer.Option("--merge", help="Join entries of the same source into one.")] = False,
) -> None:
    """Convert a glossary between TSV, CSV and TBX, told apart by the names of the files. Nothing is lost on the way.

    TBX names its languages, so a table on its way there needs `--from` and `--to`; so does a TBX file of more than two.

    Examples:

    `termweave glossary convert terms.tsv terms.tbx --from de --to en`

    `termweave glossary convert termbase.tbx terms.csv --from de --to fr --merge`
    """
    from termweave.constraints.glossary_files import read_glossary, write_glossary

    terms = read_glossary(file, source_language, target_language)
    if terms.passed_over:
        sides = f"{terms.source_language} and {terms.target_language}"
        warn(f"{file}: {terms.passed_over:,} concepts without terms in both {sides} were passed over")
    if merge:
        terms = terms.merged()
    write_glossary(terms, output, tbx)
    typer.echo(f"{output}: {len(terms):,} {'entry' if len(terms) == 1 else 'entries'}")
