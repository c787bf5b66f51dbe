"""A trained model at work: `translate`, `evaluate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from termweave.cli.application import Beam, Device, SearchName, app, warn, write_lines
from termweave.errors import ConfigError

if TYPE_CHECKING:
    from termweave.cli.text_work import TextWork
    from termweave.documents import Options

STREAM = Path("-")  # as a file name: standard input or output


# The options of `translate`.
Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Files to translate: .txt .md .html .po .xliff .tsv; default: standard input."),
]
ModelFolder = Annotated[Path | None, typer.Option(help="Model folder; default: the ready model.")]
Direction = Annotated[str | None, typer.Option(help="Such as de-en, if the model has several.")]
Glossaries = Annotated[list[Path] | None, typer.Option(help="Glossary to keep to: .tsv, .csv or .tbx; may repeat.")]
Terms = Annotated[
    list[str] | None, typer.Option(metavar="SOURCE=TARGET", help="A single term of a glossary; may repeat.")
]
Forbidden = Annotated[
    list[str] | None, typer.Option(metavar="PHRASE", help="Must stand in no translation; may repeat.")
]
Inflection = Annotated[bool, typer.Option("--inflection", help="Find inflected forms of terms as well.")]
NoProtection = Annotated[
    bool, typer.Option("--no-protect", help="Do not see to it that addresses, placeholders and tags are kept.")
]
Receipts = Annotated[
    Path | None, typer.Option(help="Write here, as JSON lines, what became of every term; - for standard error.")
]
Output = Annotated[
    Path | None,
    typer.Option(help="File to write, - for standard output; default: beside the input, as letter.en.txt."),
]
Format = Annotated[
    str | None, typer.Option("--format", help="Of the files, if their names do not tell: txt, md, html, po, …")
]
Column = Annotated[str, typer.Option(help=".tsv: the column to translate, by number or name.")]
Append = Annotated[bool, typer.Option("--append", help=".tsv: add a column instead of replacing one.")]
Retranslate = Annotated[bool, typer.Option("--retranslate", help=".po, .xliff: also what has a translation already.")]
Lines = Annotated[bool, typer.Option("--lines", help="Text with a sentence a line: nothing is split.")]
ConstraintSet = Annotated[
    Path | None, typer.Option("--set", help="Translate a constraint set with its constraints instead.")
]
NoConstraints = Annotated[bool, typer.Option("--no-constraints", help="With --set: ignore its constraints.")]
Nbest = Annotated[int, typer.Option(min=1, help="Translations a sentence, best first; implies --lines.")]
Ordered = Annotated[
    bool, typer.Option("--ordered", help="Constraints in the order of the set, terms in that of the source.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="A JSON object a sentence: output, score, receipts; implies --lines.")
]
BatchTokens = Annotated[int, typer.Option(min=1, help="Source subwords translated at once.")]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8"], typer.Option(help="Of the weights; int8 is the fastest on a CPU.")
]


@app.command()
def translate(
    files: Files = None,
    model: ModelFolder = None,
    direction: Direction = None,
    glossary: Glossaries = None,
    term: Terms = None,
    forbid: Forbidden = None,
    inflection: Inflection = False,
    no_protect: NoProtection = False,
    receipts: Receipts = None,
    output: Output = None,
    format_name: Format = None,
    column: Column = "1",
    append: Append = False,
    retranslate: Retranslate = False,
    lines: Lines = False,
    constraint_set: ConstraintSet = None,
    no_constraints: NoConstraints = False,
    search: SearchName = "vdba",
    beam: Beam = 4,
    nbest: Nbest = 1,
    ordered: Ordered = False,
    as_json: AsJson = False,
    batch_tokens: BatchTokens = 4096,
    device: Device = "auto",
    precision: Precision = "float32",
) -> None:
    """Translate text and files, keeping to a glossary.

    Examples:

    `termweave translate letter.de.txt --direction de-en --glossary terms.tsv`

    `echo 'der Lehrer kauft ein Haus' | termweave translate --model MODEL --term Haus=building`

    `termweave translate app.po --direction en-de --glossary terms.tbx --receipts receipts.jsonl`

    `termweave translate --model MODEL --set hard.jsonl --search beam --output hard.out`
    """
    from termweave.cli.text_work import TextWork, Wanted
    from termweave.constraints.glossary import GlossaryEntry
    from termweave.decoding.requests import parse_term

    whole = lines or as_json or nbest > 1 or constraint_set is not None
    names = [path for path in files or [] if path != STREAM]
    if names and len(names) < len(files or []):
        raise ConfigError("give either files or - for standard input, not both")
    if forbid and search != "vdba":
        raise ConfigError("forbidden phrases need the search that keeps them out; use --search vdba")
    _require_apart(names, output, receipts)
    if output is not None and output != STREAM and len(names) > 1:
        raise ConfigError("--output names one file, but there are several to translate; leave it out")
    wanted = Wanted(
        tuple(glossary or ()),
        (*(parse_term(text) for text in term or ()), *(GlossaryEntry("", (text,), "forbid") for text in forbid or ())),
        inflection,
        protect=not no_protect and constraint_set is None,
    )
    with TextWork.open(
        wanted, model, direction, receipts, device=device, precision=precision,
        search=search, beam=beam, nbest=nbest, ordered=ordered, batch_tokens=batch_tokens,
    ) as work:  # fmt: skip
        if whole:
            _translate_lines(work, names, constraint_set, not no_constraints, as_json, nbest, output)
        else:
            options = work.document_options(column, append, retranslate)
            _translate_documents(work, names, options, format_name, output)
    for message in work.remarks():
        warn(message)


def _require_apart(names: list[Path], output: Path | None, receipts: Path | None) -> None:
    """No file may be written over another that this run reads or writes."""
    written = [path for path in (output, receipts) if path is not None and path != STREAM]
    for index, path in enumerate(written):
        if path.resolve() in {other.resolve() for other in (*names, *written[:index])}:
            raise ConfigError(f"{path} would be overwritten; name another file for --output or --receipts")


def _translate_lines(
    work: TextWork,
    names: list[Path],
    constraint_set: Path | None,
    with_constraints: bool,
    as_json: bool,
    nbest: int,
    output: Path | None,
) -> None:
    from termweave.decoding.requests import as_lines, read_requests

    if len(names) > 1:
        raise ConfigError("give one file with --lines, --json or --nbest")
    sentences, wanted = read_requests(names[0] if names else None, constraint_set, with_constraints)
    results = work.translations(sentences, wanted, progress=True)
    write_lines(as_lines(results, wanted, as_json, nbest), None if output == STREAM else output)


def _translate_documents(
    work: TextWork, names: list[Path], options: Options, format_name: str | None, output: Path | None
) -> None:
    from termweave.decoding.requests import read_standard_input
    from termweave.documents import translate_file, translate_text
    from termweave.progress import progress_bar
    from termweave.storage import write_text

    if not names:
        text = translate_text(read_standard_input(), work, options.source_language)
        if output is None or output == STREAM:
            sys.stdout.write(text)
        else:
            write_text(output, text)
    for name in names:
        with progress_bar(name.name, 1) as advance:
            done = 0.0

            def tell(now: int, total: int) -> None:
                nonlocal done
                share = now / max(total, 1)
                advance(share - done)
                done = share

            to = sys.stdout.buffer if output == STREAM else output
            kind = format_name or work.format_of(name)
            report = translate_file(name, to, work, options, format=kind, progress=tell, key=work.key)
        if report.output is not None:
            typer.echo(f"{report.output}: {work.summary(report)}", err=True)


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
