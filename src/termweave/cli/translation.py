"""A trained model at work: `translate`, `evaluate`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from termweave.cli.application import Beam, Device, Precision, SearchName, app, told_if_interrupted, warn, write_lines
from termweave.cli.effects import Given
from termweave.cli.sharding import (
    ChunkLines,
    Corpus,
    EngineName,
    Pairs,
    RayAddress,
    RayCpus,
    RayGpus,
    Shards,
    Workers,
    make_engine,
    translate_in_shards,
)
from termweave.errors import ConfigError
from termweave.progress import share_of

if TYPE_CHECKING:
    from termweave.cli.text_work import TextWork
    from termweave.decoding.requests import Wanted
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
    bool,
    typer.Option("--no-protect", help="Do not see to it that addresses, placeholders, tags and file names are kept."),
]
Receipts = Annotated[
    Path | None,
    typer.Option(
        help="Write here, as JSON lines, what became of every term; - for standard error; with --shards a folder."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        help="File to write (--shards: folder), - for standard output; default: beside the input, as letter.en.txt."
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", help="Of the files, if their names do not tell: txt, md, html, po, …")
]
Column = Annotated[
    str | None,
    typer.Option(help="Column to translate: of .tsv by number or name (1), of .jsonl and .parquet by name."),
]
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


@app.command()
def translate(
    context: typer.Context,
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
    column: Column = None,
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
    precision: Precision = "auto",
    shards: Shards = False,
    pairs: Pairs = False,
    workers: Workers = 0,
    engine: EngineName = "processes",
    chunk_lines: ChunkLines = 1000,
    ray_address: RayAddress = None,
    ray_cpus: RayCpus = 1,
    ray_gpus: RayGpus = None,
) -> None:
    """Translate text and files, keeping to a glossary.

    The exit code is 3 if parts of a document had to stay as they were, for they would have broken; the rest is written.

    Examples:

    `termweave translate letter.de.txt --direction de-en --glossary terms.tsv`

    `echo 'der Lehrer kauft ein Haus' | termweave translate --model MODEL --term Haus=building`

    `termweave translate app.po --direction en-de --glossary terms.tbx --receipts receipts.jsonl`

    `termweave translate --model MODEL --set hard.jsonl --search beam --output hard.out`

    `termweave translate --shards corpus/*.de.gz --output translated --workers 4 --pairs`

    `termweave translate --shards corpus --output translated --engine ray --ray-address auto`
    """
    given, protect = Given(context), not no_protect and constraint_set is None
    options: dict[str, Any] = {"device": device, "precision": precision, "search": search, "beam": beam}
    options |= {"ordered": ordered, "batch_tokens": batch_tokens}
    with told_if_interrupted(lambda: "nothing was translated"):
        wanted = _wanted(glossary or [], term or [], forbid or [], inflection, protect, search)
        if shards:
            given.refuse_in_shards(engine, wanted)
            corpus = Corpus(files or [], output, receipts, column, pairs, chunk_lines)
            machines = make_engine(engine, workers, ray_address, ray_cpus, ray_gpus)
            translate_in_shards(corpus, machines, wanted, model, direction, **options)
            return
        table = TableOptions(format_name, column, append, retranslate)
        sentences = SentenceOptions(lines, constraint_set, not no_constraints, nbest, as_json)
        _translate_text(given, files or [], output, receipts, table, sentences, wanted, model, direction, **options)


@dataclass(frozen=True)
class TableOptions:
    """How documents are read."""

    format_name: str | None
    column: str | None
    append: bool
    retranslate: bool


@dataclass(frozen=True)
class SentenceOptions:
    """How text that is given sentence by sentence is read, and what is told of each."""

    lines: bool
    constraint_set: Path | None
    with_constraints: bool
    nbest: int
    as_json: bool

    @property
    def wanted(self) -> bool:
        return self.lines or self.as_json or self.nbest > 1 or self.constraint_set is not None


def _wanted(
    glossaries: list[Path], terms: list[str], forbidden: list[str], inflection: bool, protect: bool, search: str
) -> Wanted:
    from termweave.constraints.glossary import GlossaryEntry
    from termweave.decoding.requests import Wanted, parse_term

    if forbidden and search != "vdba":
        raise ConfigError("forbidden phrases need the search that keeps them out; use --search vdba")
    entries = [parse_term(text) for text in terms] + [GlossaryEntry("", (text,), "forbid") for text in forbidden]
    return Wanted(tuple(glossaries), tuple(entries), inflection, protect)


def _translate_text(
    given: Given,
    files: list[Path],
    output: Path | None,
    receipts: Path | None,
    table: TableOptions,
    sentences: SentenceOptions,
    wanted: Wanted,
    model: Path | None,
    direction: str | None,
    **options: Any,
) -> None:
    from termweave.cli.text_work import LEFT, TextWork

    names = [path for path in files if path != STREAM]
    if names and len(names) < len(files):
        raise ConfigError("give either files or - for standard input, not both")
    if sentences.wanted:
        given.refuse_in_lines(sentences.constraint_set is not None, wanted)
    else:
        given.refuse_in_documents({table.format_name or TextWork.format_of(name) for name in names}, wanted)
    _require_apart(names, output, receipts)
    if output is not None and output != STREAM and len(names) > 1:
        raise ConfigError("--output names one file, but there are several to translate; leave it out")
    with TextWork.open(wanted, model, direction, receipts, nbest=sentences.nbest, **options) as work:
        if sentences.wanted:
            _translate_lines(work, names, sentences, output)
        else:
            _translate_documents(work, names, table, output, receipts is None)
    for message in work.remarks():
        warn(message)
    if work.left:
        raise typer.Exit(LEFT)


def _require_apart(names: list[Path], output: Path | None, receipts: Path | None) -> None:
    """No file may be written over another that this run reads or writes."""
    written = [path for path in (output, receipts) if path is not None and path != STREAM]
    for index, path in enumerate(written):
        if path.resolve() in {other.resolve() for other in (*names, *written[:index])}:
            raise ConfigError(f"{path} would be overwritten; name another file for --output or --receipts")


def _translate_lines(work: TextWork, names: list[Path], asked: SentenceOptions, output: Path | None) -> None:
    from termweave.decoding.places import line_places
    from termweave.decoding.requests import as_lines, read_requests

    if len(names) > 1:
        raise ConfigError("give one file with --lines, --json or --nbest")
    name = names[0] if names else None
    sentences, wanted = read_requests(name, asked.constraint_set, asked.with_constraints)
    line = line_places(str(asked.constraint_set or name or "standard input"))
    work.place = lambda index, _: line(index)
    with told_if_interrupted(lambda: "nothing is kept; --shards translates a corpus so that it can be gone on with"):
        results = work.translations(sentences, wanted, progress=True)
    write_lines(as_lines(results, wanted, asked.as_json, asked.nbest), None if output == STREAM else output)


def _translate_documents(
    work: TextWork, names: list[Path], table: TableOptions, output: Path | None, resumable: bool
) -> None:
    from termweave.cli.text_work import shortened_quote
    from termweave.decoding.requests import read_standard_input
    from termweave.documents import translate_file, translate_text
    from termweave.storage import write_text

    options = work.document_options(table.column or "1", table.append, table.retranslate)
    if output is None:
        _require_own_outputs(names, options)
    if not names:
        work.place = lambda _, sentence: f"standard input, {shortened_quote(sentence)}"
        text = translate_text(read_standard_input(), work, options.source_language, work.terminology, work.settled)
        if output is None or output == STREAM:
            sys.stdout.write(text)
        else:
            write_text(output, text)
    for name in names:
        work.place_in(name)
        to = sys.stdout.buffer if output == STREAM else output
        kind = table.format_name or work.format_of(name)
        kept = partial(_kept, name, output, options, resumable)
        with told_if_interrupted(kept), share_of(name.name) as tell:
            report = translate_file(
                name,
                to,
                work,
                options,
                format=kind,
                progress=tell,
                key=work.key,
                terms=work.terminology,
                settled=work.settled,
            )
        work.left += report.unchanged
        if report.output is not None:
            typer.echo(f"{report.output}: {work.summary(report)}", err=True)


def _require_own_outputs(names: list[Path], options: Options) -> None:
    """Beside its input, no output may take the place of another, nor that of a file that is yet to be read."""
    from termweave.documents.files import output_beside

    read, written = {name.resolve(): name for name in names}, dict[Path, Path]()
    for name in read.values():
        output = output_beside(name, options)
        other = read.get(output.resolve()) or written.get(output.resolve())
        if other is not None:
            raise ConfigError(
                f"the translation of {name} would overwrite {output}, which belongs to {other}; "
                "translate them one by one, with --output"
            )
        written[output.resolve()] = name


def _kept(name: Path, output: Path | None, options: Options, resumable: bool) -> str:
    """What an interrupted translation of a document leaves behind."""
    from termweave.documents.files import output_beside
    from termweave.documents.journal import journal_path

    if not resumable or output == STREAM:
        return f"nothing of {name} is kept, for runs with --receipts or into a stream cannot be gone on with"
    journal = journal_path(output or output_beside(name, options))
    if not journal.exists():
        return f"nothing of {name} was translated yet"
    return f"finished sentences of {name} are kept in {journal}; the same command goes on from there"


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
