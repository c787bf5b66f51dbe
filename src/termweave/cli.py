"""The command `termweave`. Each command reads its options, calls one function of a package, and prints the result.

Packages are imported inside the commands: torch and numba take seconds to load, which `--help` should not cost.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from termweave import __version__
from termweave.errors import ConfigError, TermweaveError
from termweave.progress import console

if TYPE_CHECKING:
    from termweave.data.prepare import StepReport

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
Beam = Annotated[int, typer.Option(min=1, help="Hypotheses kept per sentence.")]
SearchName = Annotated[
    Literal["vdba", "beam"], typer.Option(help="vdba: constraints are guaranteed; beam: it is left to the model.")
]


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        typer.echo(f"termweave {__version__}")
        raise typer.Exit()


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


@app.command()
def train(
    config: ConfigPath,
    settings: Overrides = None,
    stage: Annotated[Literal["1", "2", "both"], typer.Option(help="Which stage to train.")] = "both",
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
def translate(
    model: Annotated[Path, typer.Argument(help="Model folder, such as runs/toy/model/stage2/final.")],
    source: Annotated[
        Path | None, typer.Argument(help="Text to translate, a sentence a line; default: standard input.")
    ] = None,
    constraint_set: Annotated[
        Path | None, typer.Option("--set", help="Translate a constraint set with its constraints instead.")
    ] = None,
    term: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE=TARGET", help="A constraint for every sentence that holds SOURCE; may repeat."),
    ] = None,
    no_constraints: Annotated[
        bool, typer.Option("--no-constraints", help="With --set: ignore its constraints.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Where to write; default: standard output.")] = None,
    direction: Annotated[str | None, typer.Option(help="Such as de-en, if the model has several.")] = None,
    search: SearchName = "vdba",
    beam: Beam = 4,
    nbest: Annotated[int, typer.Option(min=1, help="Translations a sentence, best first.")] = 1,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Constraints must come in the order they are given.")
    ] = False,
    forbid: Annotated[
        list[str] | None, typer.Option(metavar="PHRASE", help="Must stand in no translation; may repeat.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a sentence: output, score, where each constraint stands.")
    ] = False,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source subwords translated at once.")] = 4096,
    device: Device = "auto",
    precision: Annotated[
        Literal["float32", "bfloat16", "int8"], typer.Option(help="Of the weights; int8 is the fastest on a CPU.")
    ] = "float32",
) -> None:
    """Translate text, with constraints if wanted.

    Examples:

    `echo 'der Lehrer kauft ein Haus' | termweave translate MODEL --term Haus=building`

    `echo 'der Lehrer kauft ein Haus' | termweave translate MODEL --forbid house --nbest 2 --json`

    `termweave translate MODEL --set hard.jsonl --search beam --output hard.out`
    """
    from termweave.decoding.requests import add_terms, as_lines, parse_term, read_requests
    from termweave.decoding.translator import Translator

    if term and no_constraints:
        raise ConfigError("give either --term or --no-constraints, not both")
    terms = [parse_term(text) for text in term or []]
    sentences, wanted = read_requests(source, constraint_set, with_constraints=not no_constraints)
    translator = Translator.load(model, device, precision)
    language = (direction or translator.directions[0]).partition("-")[0]
    for unused in add_terms(sentences, wanted, terms, language):
        _warn(f"the term {unused.source!r} occurs in no sentence and was not applied")
    results = translator.translate(
        sentences,
        wanted,
        direction=direction,
        search=search,
        beam=beam,
        nbest=nbest,
        ordered=ordered,
        forbidden=forbid or (),
        batch_tokens=batch_tokens,
        progress=True,
    )
    _write_lines(as_lines(results, wanted, as_json, nbest), output)


@app.command()
def evaluate(
    constraint_set: Annotated[Path, typer.Argument(help="Constraint set made by `termweave constraints`.")],
    model: Annotated[Path | None, typer.Option(help="Model folder to translate with.")] = None,
    hypotheses: Annotated[Path | None, typer.Option(help="Finished translations instead, one a line.")] = None,
    languages: Annotated[str | None, typer.Option(help="Such as de-en; default: the model's first direction.")] = None,
    no_constraints: Annotated[
        bool, typer.Option("--no-constraints", help="Translate without the constraints.")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Write the translations here as well.")] = None,
    search: SearchName = "vdba",
    beam: Beam = 4,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source subwords translated at once.")] = 4096,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score a model or finished translations: BLEU, chrF, CSR phrase-level and word-weighted, with signatures.

    Examples:

    `termweave evaluate hard.jsonl --model runs/toy/model/stage2/final`

    `termweave evaluate hard.jsonl --model runs/toy/model/stage2/final --search beam` for the model by itself

    `termweave evaluate hard.jsonl --hypotheses hard.out --languages de-en --json`
    """
    from termweave.evaluation.systems import evaluate_system

    scores = evaluate_system(
        constraint_set,
        model=model,
        hypotheses=hypotheses,
        languages=languages,
        with_constraints=not no_constraints,
        save=save,
        search=search,
        beam=beam,
        batch_tokens=batch_tokens,
        device=device,
    )
    typer.echo(json.dumps(scores.to_json(), ensure_ascii=False, indent=2) if as_json else str(scores))


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


def _warn(message: str) -> None:
    console.print(f"termweave: {message}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def _write_lines(lines: list[str], output: Path | None) -> None:
    text = "".join(line + "\n" for line in lines)
    if output is None:
        sys.stdout.write(text)
    else:
        from termweave.storage import write_text

        write_text(output, text)


@contextmanager
def _clear_errors() -> Iterator[None]:
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


def main() -> None:
    with _clear_errors():
        app()


if __name__ == "__main__":
    main()
