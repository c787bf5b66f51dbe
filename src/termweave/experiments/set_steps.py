"""Steps that make the constraint sets of a test set: its links, the plain model's output, `all`, `hard`, `switched`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from termweave.alignment import read_pharaoh
from termweave.constraints.evaluation_sets import ConstraintSetOptions, Link, make_constraint_set
from termweave.data.readers import read_together
from termweave.data.test_sets import learn_links
from termweave.errors import ConfigError
from termweave.experiments.context import Context
from termweave.experiments.graph import Result, Step
from termweave.experiments.plan import Experiment, Kind, TestSetPlan
from termweave.storage import read_json, write_json

CODE_SWITCH = 0.5  # the paper's share of target constraints that become their sources


def set_steps(experiment: Experiment, test_set: TestSetPlan) -> list[Step]:
    """The set `all` is always made: the plain model translates its sources to tell what is hard."""
    name, files = test_set.name, (test_set.source, test_set.target)
    steps, extent = [], {"sentences": test_set.sentences, "languages": test_set.languages}
    linked: tuple[str, ...] = ()
    if not test_set.links:
        settings = {"pairs": experiment.link_pairs, **extent}
        work = partial(_learn_links, test_set=test_set)
        steps.append(Step(f"links.{name}", work, ("prepare",), settings, files, "links.json"))
        linked = (f"links.{name}",)

    def make(kind: Kind, *needs: str) -> Step:
        work = partial(_make_set, test_set=test_set, kind=kind)
        read = (*files, test_set.links) if test_set.links else files
        settings = {"kind": kind, "seed": experiment.seed, **extent}
        return Step(f"set.{name}.{kind}", work, (*linked, *needs), settings, read, "set.jsonl")

    steps.append(make("all"))
    harder: list[Kind] = [kind for kind in test_set.kinds if kind in ("hard", "switched")]
    if harder:
        needs = (f"set.{name}.all", f"train.{experiment.plain}")
        steps.append(Step(f"greedy.{name}", partial(_translate_greedily, name=name), needs, {}, (), "greedy.json"))
        steps += [make(kind, f"greedy.{name}") for kind in harder]
    return steps


def _is_turned(test_set: TestSetPlan, context: Context) -> bool:
    """Do the files go the other way than the experiment translates?"""
    if test_set.languages in ("", context.direction):
        return False
    if test_set.languages == f"{context.target_language}-{context.source_language}":
        return True
    raise ConfigError(f"test_sets: {test_set.name}: {test_set.languages} does not go with {context.direction}")


def _lines(test_set: TestSetPlan, context: Context) -> list[tuple[str, str]]:
    files = Path(test_set.source), Path(test_set.target)
    pairs = [(line[0], line[1]) for line in read_together(*files)][: test_set.sentences or None]
    return [(second, first) for first, second in pairs] if _is_turned(test_set, context) else pairs


def _brought_links(test_set: TestSetPlan, context: Context) -> list[list[Link]]:
    rows = [sorted(row.possible) for row in read_pharaoh(Path(test_set.links))][: test_set.sentences or None]
    if _is_turned(test_set, context):
        return [sorted((second, first) for first, second in row) for row in rows]
    return rows


def _learn_links(context: Context, *, test_set: TestSetPlan) -> Result:
    languages = context.source_language, context.target_language
    rows = learn_links(_lines(test_set, context), context.home("prepare"), languages, context.experiment.link_pairs)
    write_json(context.product(f"links.{test_set.name}"), rows)
    return {"sentences": len(rows), "links": sum(map(len, rows))}


def _translate_greedily(context: Context, *, name: str) -> Result:
    sources = [sentence.source for sentence in context.sentences(name, "all")]
    translator = context.translator(context.experiment.plain)
    outputs = translator.translate(sources, beam=1, batch_tokens=context.experiment.batch_tokens)
    write_json(context.product(f"greedy.{name}"), [output.text for output in outputs])
    return {"sentences": len(outputs)}


def _make_set(context: Context, *, test_set: TestSetPlan, kind: Kind) -> Result:
    lines = _lines(test_set, context)
    links: list[list[Link]]
    if test_set.links:
        links = _brought_links(test_set, context)
    else:
        links = [[(row[0], row[1]) for row in rows] for rows in read_json(context.product(f"links.{test_set.name}"))]
    summary = make_constraint_set(
        context.product(f"set.{test_set.name}.{kind}"),
        [line[0] for line in lines],
        [line[1] for line in lines],
        links,
        ConstraintSetOptions(
            context.source_language,
            context.target_language,
            seed=context.experiment.seed,
            code_switch=CODE_SWITCH if kind == "switched" else 0.0,
        ),
        tokenised=bool(test_set.links),
        hard_against=None if kind == "all" else read_json(context.product(f"greedy.{test_set.name}")),
    )
    return {
        "sentences": summary.sentences,
        "constrained_sentences": summary.constrained_sentences,
        "constraints": summary.constraints,
    }
