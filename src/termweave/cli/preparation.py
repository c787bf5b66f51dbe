"""What comes before training: `prepare`, `align`, `constraints`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from termweave.cli.application import ConfigPath, Overrides, app
from termweave.progress import console

if TYPE_CHECKING:
    from termweave.data.prepare import StepReport


@app.command()
def prepare(
    config: ConfigPath,
    settings: Overrides = None,
    until: Annotated[
        str | None, typer.Option(help="Last step to run: clean, subwords, encode, align or phrases.")
    ] = None,
) -> None:
    """Clean, encode and align parallel text, and extract phrase pairs.

    Steps that are done already are skipped, so the same command goes on after an interruption.

    Example: `termweave prepare configs/de-en.toml --set data.workers=8`
    """
    from termweave.config import load_config
    from termweave.data.prepare import prepare as run

    def report(step: StepReport) -> None:
        counts = "; ".join(
            f"{name}: " + ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in numbers.items())
            for name, numbers in step.counts.items()
        )
        cost = (
            "done before"
            if step.skipped
            else (f"{step.wall_seconds:.0f} s, {step.cpu_seconds:.0f} CPU s, {step.peak_memory / 2**20:,.0f} MiB")
        )
        console.print(f"{step.name}: {counts} ({cost})", highlight=False, soft_wrap=True)

    result = run(load_config(config, settings or ()), until=until, report=report)
    typer.echo(f"prepared: {result.folder}")


@app.command()
def align(
    source: Annotated[Path, typer.Argument(help="Source text, words separated by spaces (plain, .gz, .xz).")],
    target: Annotated[Path, typer.Argument(help="Target text, line by line its translation.")],
    output: Annotated[Path, typer.Argument(help="Links in Pharaoh format, one line per sentence pair.")],
    method: Annotated[
        Literal["builtin", "eflomal"], typer.Option(help="eflomal must be installed by you.")
    ] = "builtin",
    gold: Annotated[
        tuple[Path, Path, Path] | None,
        typer.Option(metavar="SOURCE TARGET LINKS", help="Align this gold set along, and report the error rate on it."),
    ] = None,
    one_based: Annotated[bool, typer.Option("--one-based", help="The gold links count words from 1.")] = False,
    threads: Annotated[int, typer.Option(help="0: one per core.")] = 0,
) -> None:
    """Align the words of parallel text in both directions, and symmetrise.

    Example: `termweave align train.de train.en links.txt --gold gold.de gold.en gold.links`
    """
    from termweave.alignment import ALIGN_STEPS, GoldFiles, align_files
    from termweave.progress import progress_bar

    with progress_bar("align", ALIGN_STEPS) as advance:
        report = align_files(
            source,
            target,
            output,
            method=method,
            gold=GoldFiles(*gold, one_based=one_based) if gold else None,
            threads=threads,
            advance=advance,
        )
    typer.echo(
        f"{output}: {report.sentences:,} sentence pairs, {report.links:,} links, "
        f"{report.wall_seconds:.0f} s ({report.cpu_seconds:.0f} CPU s)"
    )
    if report.error_rate:
        typer.echo(report.error_rate)


@app.command()
def constraints(
    source: Annotated[Path, typer.Argument(help="Source side of a test set (plain, .gz, .xz).")],
    target: Annotated[Path, typer.Argument(help="Its reference translation.")],
    output: Annotated[Path, typer.Argument(help="Constraint set to write, JSON lines.")],
    languages: Annotated[str, typer.Option(help="Languages of source and target, such as de-en.")],
    links: Annotated[
        Path | None, typer.Option(help="Pharaoh links of the test set; its words are separated by spaces then.")
    ] = None,
    prepared: Annotated[
        Path | None, typer.Option(help="A prepared corpus to learn the links from, if there are none.")
    ] = None,
    align_pairs: Annotated[
        int, typer.Option(min=0, help="With --prepared: align the test set with so many of its sentence pairs.")
    ] = 200_000,
    hard_against: Annotated[
        Path | None,
        typer.Option(help="Plain translations, one a line: keep only constraints they do not meet (the set `hard`)."),
    ] = None,
    code_switch: Annotated[
        float, typer.Option(min=0, max=1, help="Share of target constraints replaced by their source.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Same seed, same file.")] = 1,
    max_constraints: Annotated[int, typer.Option(min=1, max=15, help="At most so many a sentence.")] = 3,
    max_words: Annotated[int, typer.Option(min=1, max=8, help="Longest source phrase.")] = 3,
) -> None:
    """Make a constraint set for evaluation: sentences, references and sampled constraints.

    Examples:

    `termweave constraints test.de test.en all.jsonl --languages de-en --links test.links`

    `termweave constraints dev.de dev.en hard.jsonl --languages de-en --prepared runs/de-en/prepared --hard-against
    plain.en`
    """
    from termweave.constraints.evaluation_sets import ConstraintSetOptions
    from termweave.data.test_sets import make_test_constraints

    source_language, _, target_language = languages.partition("-")
    options = ConstraintSetOptions(source_language, target_language, seed, max_constraints, max_words, code_switch)
    summary = make_test_constraints(
        source, target, output, options, links=links, prepared=prepared, pairs=align_pairs, hard_against=hard_against
    )
    typer.echo(f"{output}: {summary}")
