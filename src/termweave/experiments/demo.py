"""`termweave toy`: the whole path on a corpus of our own, from two text files to a model that honours constraints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from termweave import storage
from termweave.config import load_config
from termweave.constraints.evaluation_sets import (
    ConstrainedSentence,
    ConstraintSetOptions,
    read_constraint_set,
)
from termweave.data.prepare import prepare
from termweave.data.test_sets import make_test_constraints
from termweave.decoding.translator import Translator
from termweave.evaluation.scores import Scores, evaluate
from termweave.experiments.toy import SOURCE_LANGUAGE, TARGET_LANGUAGE, ToyCorpus, write_toy_corpus
from termweave.progress import console
from termweave.training.stages import train

EXAMPLES = 5
SYSTEMS = ("vanilla", "constrained, plain search", "constrained, guaranteed", "constrained, none given")
SENTENCES = 8000


@dataclass(frozen=True)
class DemoResult:
    """Scores on the set `hard`: the plain model, then the constraint-aware one."""

    plain: Scores
    constrained: Scores  # constraints left to the model
    guaranteed: Scores  # the same with the search that guarantees them
    unconstrained: Scores  # no constraints given


def run_demo(folder: Path, seed: int = 1, sentences: int = SENTENCES, settings: tuple[str, ...] = ()) -> DemoResult:
    """Make the corpus, prepare, train both stages, translate, compare. Finished parts are not done again."""
    corpus = write_toy_corpus(folder, sentences=sentences, seed=seed)
    config = load_config(corpus.config, settings)
    console.print(f"1/4 a toy corpus of {sentences:,} sentence pairs in {folder}", highlight=False)
    prepare(config)
    console.print("2/4 prepared: cleaned, encoded, aligned, phrase pairs extracted", highlight=False)
    result = train(config, device="cpu")
    if result.model is None:
        console.print("stopped early; the same command goes on from here")
        raise SystemExit(1)
    console.print("3/4 trained: stage 1 (plain), stage 2 (with constraints)", highlight=False)
    models = Path(config.training.folder)
    demo = compare(corpus, models / "stage1" / "final", models / "stage2" / "final", seed)
    console.print("4/4 translated and scored", highlight=False)
    return demo


def compare(corpus: ToyCorpus, plain_model: Path, constrained_model: Path, seed: int) -> DemoResult:
    """Both models on the test set; its constraints are those the plain model does not meet by itself."""
    plain, aware = Translator.load(plain_model, "cpu"), Translator.load(constrained_model, "cpu")
    sources = [row.source for row in read_constraint_set(corpus.test_set)]
    greedy = corpus.folder / "test.greedy"
    storage.write_text(greedy, "".join(f"{output}\n" for output in plain.translate(sources, beam=1)))
    hard = corpus.folder / "test.hard.jsonl"
    options = ConstraintSetOptions(SOURCE_LANGUAGE, TARGET_LANGUAGE, seed=seed)
    make_test_constraints(*corpus.test_tokens, hard, options, links=corpus.test_links, hard_against=greedy)
    rows = read_constraint_set(hard)
    constraints = [row.constraints for row in rows]
    outputs = [
        [output.text for output in plain.translate(sources)],
        [output.text for output in aware.translate(sources, constraints, search="beam")],
        [output.text for output in aware.translate(sources, constraints)],
        [output.text for output in aware.translate(sources)],
    ]
    scores = [evaluate(output, rows, TARGET_LANGUAGE) for output in outputs]
    _show(rows, outputs, scores, constrained_model)
    return DemoResult(*scores)


def _show(rows: list[ConstrainedSentence], outputs: list[list[str]], scores: list[Scores], model: Path) -> None:
    screen = Console(highlight=False)
    examples = [index for index, row in enumerate(rows) if len(row.constraints) >= 2][:EXAMPLES]
    for index in examples:
        row = rows[index]
        wanted = ", ".join(f"{item.source} → {item.target}" for item in row.constraints)
        screen.print(f"\nsource       {row.source}\nconstraints  {wanted}", markup=False, soft_wrap=True)
        screen.print(
            f"vanilla      {outputs[0][index]}\nconstrained  {outputs[2][index]}", markup=False, soft_wrap=True
        )
    table = Table("system", "BLEU", "CSR, phrase-level", title="constraints the vanilla model does not meet by itself")
    for name, score in zip(SYSTEMS, scores, strict=True):
        success = score.success
        table.add_row(
            name, f"{score.bleu.value:.1f}", f"{success.phrase_level:.1f} % ({success.met} of {success.total})"
        )
    screen.print(table)
    screen.print(
        "Try it: echo 'Der Lehrer hat ein Haus gekauft.' | "
        f".venv/bin/termweave translate --model {model} --term Haus=building",
        soft_wrap=True,
    )
    screen.print(
        f"Or on a page: .venv/bin/termweave serve --model {model}, then open http://127.0.0.1:8080", soft_wrap=True
    )
