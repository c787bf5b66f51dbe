"""Steps that look at several systems together: significance, overlap with training, case study; and the heat map."""

from __future__ import annotations

from functools import partial

from termweave.data.corpus import PreparedCorpus
from termweave.evaluation.bleu import corpus_bleu
from termweave.evaluation.csr import constraints_met
from termweave.evaluation.overlap import measure_overlap
from termweave.evaluation.significance import compare
from termweave.experiments.context import Context
from termweave.experiments.graph import Result, Step
from termweave.experiments.plan import Experiment, Kind, SystemPlan, TestSetPlan

CASE_CONSTRAINTS, CASE_WORDS = 2, 25
CASE_RULE = (
    f"the first sentences of the set `hard` that have at least {CASE_CONSTRAINTS} constraints and at most {CASE_WORDS} "
    "words in the source, whatever the systems made of them"
)


def comparison_step(experiment: Experiment, test_set: TestSetPlan, kind: Kind) -> Step | None:
    """Every system of a table against the one with the best BLEU in it."""
    table = "switched" if kind == "switched" else "main"
    systems = [
        system
        for system in experiment.systems
        if table in system.tables and kind in experiment.kinds_of(system, test_set)
    ]
    if len(systems) < 2:
        return None
    needs = [f"decode.{system.name}.{test_set.name}.{kind}" for system in systems]
    needs.append(f"set.{test_set.name}.{'all' if kind == 'none' else kind}")
    return Step(
        f"compare.{test_set.name}.{kind}",
        partial(_compare, systems=systems, test_set=test_set.name, kind=kind),
        tuple(needs),
        {"samples": experiment.samples, "seed": experiment.seed, "systems": [system.name for system in systems]},
    )


def _compare(context: Context, *, systems: list[SystemPlan], test_set: str, kind: Kind) -> Result:
    sentences = context.sentences(test_set, kind)
    references = [sentence.target for sentence in sentences]
    texts = {
        system.name: [output.text for output in context.outputs(f"decode.{system.name}.{test_set}.{kind}")]
        for system in systems
    }
    scores = {name: corpus_bleu(own, references, context.target_language).value for name, own in texts.items()}
    best = max(scores, key=lambda name: scores[name])
    against = {}
    for name, own in texts.items():
        if name != best:
            found = compare(
                own,
                texts[best],
                sentences,
                context.target_language,
                samples=context.experiment.samples,
                seed=context.experiment.seed,
                signature=f"a:{name}; b:{best}; set:{test_set}.{kind}",
            )
            against[name] = found.to_json()
    return {"best": best, "against_best": against}


def overlap_step(experiment: Experiment, test_set: TestSetPlan) -> Step:
    """Which constraints training has seen, and how well each system meets either kind."""
    systems = [
        system.name
        for system in experiment.systems
        if "main" in system.tables and "hard" in experiment.kinds_of(system, test_set)
    ]
    needs = ("prepare", f"set.{test_set.name}.hard", *(f"decode.{name}.{test_set.name}.hard" for name in systems))
    work = partial(_measure_overlap, systems=systems, test_set=test_set.name)
    return Step(f"overlap.{test_set.name}", work, needs, {"systems": systems})


def _measure_overlap(context: Context, *, systems: list[str], test_set: str) -> Result:
    sentences = context.sentences(test_set, "hard")
    corpus = PreparedCorpus.open(context.home("prepare"))
    overlap = measure_overlap(sentences, corpus, context.direction)
    split = {}
    for name in systems:
        texts = [output.text for output in context.outputs(f"decode.{name}.{test_set}.hard")]
        split[name] = overlap.split(texts, sentences, context.target_language).to_json()
    return {**overlap.to_json(), "systems": split}


def case_step(experiment: Experiment, test_set: TestSetPlan) -> Step:
    """Sentences, constraints and what each system of the main table made of them."""
    systems = [system.name for system in experiment.systems if "main" in system.tables]
    needs = (f"set.{test_set.name}.hard", *(f"decode.{name}.{test_set.name}.hard" for name in systems))
    return Step(
        "cases",
        partial(_choose_cases, systems=systems, test_set=test_set.name),
        needs,
        {"rule": CASE_RULE, "cases": experiment.cases, "systems": systems},
    )


def _case_numbers(context: Context, test_set: str) -> list[int]:
    """Which sentences of the set are shown, counted from 0."""
    found = [
        number
        for number, sentence in enumerate(context.sentences(test_set, "hard"))
        if len(sentence.constraints) >= CASE_CONSTRAINTS and len(sentence.source.split()) <= CASE_WORDS
    ]
    return found[: context.experiment.cases]


def _choose_cases(context: Context, *, systems: list[str], test_set: str) -> Result:
    sentences = context.sentences(test_set, "hard")
    outputs = {name: context.outputs(f"decode.{name}.{test_set}.hard") for name in systems}
    cases = []
    for number in _case_numbers(context, test_set):
        sentence = sentences[number]
        made = {name: outputs[name][number].text for name in systems}
        cases.append(
            {
                "number": number + 1,
                "source": sentence.source,
                "reference": sentence.target,
                "constraints": [[item.source, item.target] for item in sentence.constraints],
                "outputs": made,
                "met": {
                    name: sum(constraints_met(text, sentence.constraints, context.target_language))
                    for name, text in made.items()
                },
            }
        )
    return {"test_set": test_set, "cases": cases}


def attention_step(experiment: Experiment, test_set: TestSetPlan) -> Step | None:
    """The heat map of the case study: apart from it, since it needs one model, and the cases all translations."""
    systems = (system for system in experiment.systems if "main" in system.tables)
    # Of the first system whose model takes constraints, which only its checkpoint knows.
    shown = next((system for system in systems if system.paper.startswith("Ours")), None)
    if shown is None:
        return None
    needs = (f"train.{shown.model}", f"set.{test_set.name}.hard", f"decode.{shown.name}.{test_set.name}.hard")
    work = partial(_show_attention, system=shown, test_set=test_set.name)
    return Step("attention", work, needs, {"rule": CASE_RULE, "system": shown.name})


def _show_attention(context: Context, *, system: SystemPlan, test_set: str) -> Result:
    """How much each output token attended to each constraint's source: the mean over heads of the last layer."""
    numbers = _case_numbers(context, test_set)
    if not numbers:
        return {"system": system.name, "output": [], "constraints": [], "weights": []}
    sentence = context.sentences(test_set, "hard")[numbers[0]]
    output = context.outputs(f"decode.{system.name}.{test_set}.hard")[numbers[0]]
    seen = context.translator(system.model).inspect(sentence.source, output.text, sentence.constraints)
    weights = seen.constraints[-1].mean(dim=0)
    return {
        "system": system.name,
        "output": list(seen.output_pieces),
        "constraints": list(seen.constraint_pieces),
        "weights": [[round(value, 4) for value in row] for row in weights.tolist()],
    }
