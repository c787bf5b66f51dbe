"""Steps of a single system: translating a set, scores, calibration, speed."""

from __future__ import annotations

import time
from functools import partial

from termweave.decoding.translator import Translation, Translator
from termweave.evaluation.calibration import judge, measure_calibration
from termweave.evaluation.scores import evaluate
from termweave.experiments.context import OUTPUTS, Context
from termweave.experiments.graph import Result, Step
from termweave.experiments.plan import Experiment, Kind, SystemPlan, TestSetPlan
from termweave.model.transformer import POSITIONS

_MOST_BATCHES = 30  # when speed is measured: sentences one by one would take long otherwise


def decoding_steps(experiment: Experiment, system: SystemPlan, test_set: TestSetPlan) -> list[Step]:
    """Translations of a test set with each kind of constraints, and their scores."""
    steps = []
    for kind in experiment.kinds_of(system, test_set):
        place = f"{system.name}.{test_set.name}.{kind}"
        needs = (f"train.{model_of(system, kind)}", f"set.{test_set.name}.{'all' if kind == 'none' else kind}")
        settings = {"search": system.search, "beam": experiment.beam, "constraints": kind != "none"}
        decode = partial(_decode, system=system, test_set=test_set.name, kind=kind)
        score = partial(_score, system=system, test_set=test_set.name, kind=kind)
        steps.append(Step(f"decode.{place}", decode, needs, settings, product=OUTPUTS))
        steps.append(Step(f"score.{place}", score, (f"decode.{place}", needs[1])))
        if kind == "hard" and "calibration" in system.tables:
            calibrate = partial(_calibrate, system=system, test_set=test_set.name)
            steps.append(
                Step(f"calibrate.{system.name}.{test_set.name}", calibrate, (f"decode.{place}", needs[0], needs[1]))
            )
    return steps


def speed_step(experiment: Experiment, system: SystemPlan) -> Step:
    first = experiment.test_sets[0].name
    needs = (f"train.{system.model}", f"set.{first}.hard")
    settings = {
        "search": system.search,
        "beam": experiment.beam,
        "batches": list(experiment.speed.batches),
        "sentences": experiment.speed.sentences,
    }
    return Step(f"speed.{system.name}", partial(_measure_speed, system=system, test_set=first), needs, settings)


def model_of(system: SystemPlan, kind: Kind) -> str:
    return system.switched if kind == "switched" and system.switched else system.model


def _is_told(translator: Translator, system: SystemPlan, kind: Kind) -> bool:
    """A plain model under plain search can be given no constraints; the other searches see to them themselves."""
    return kind != "none" and (translator.takes_constraints or system.search != "beam")


def _decode(context: Context, *, system: SystemPlan, test_set: str, kind: Kind) -> Result:
    translator, sentences = context.translator(model_of(system, kind)), context.sentences(test_set, kind)
    told = _is_told(translator, system, kind)
    started = time.perf_counter()
    outputs = translator.translate(
        [sentence.source for sentence in sentences],
        [sentence.constraints if told else () for sentence in sentences],
        search=system.search,
        beam=context.experiment.beam,
        batch_tokens=context.experiment.batch_tokens,
    )
    seconds = time.perf_counter() - started
    context.write_outputs(f"decode.{system.name}.{test_set}.{kind}", outputs)
    return {"sentences": len(outputs), "constraints_given": told, "translating_seconds": round(seconds, 2)}


def _score(context: Context, *, system: SystemPlan, test_set: str, kind: Kind) -> Result:
    place = f"{system.name}.{test_set}.{kind}"
    texts = [output.text for output in context.outputs(f"decode.{place}")]
    about = {
        "system": system.name,
        "model": f"{model_of(system, kind)}-{context.graph.keys[f'train.{model_of(system, kind)}'][:8]}",
        "set": f"{test_set}.{kind}",
        "search": system.search,
        "beam": str(context.experiment.beam),
        "seed": str(context.experiment.seed),
    }
    return evaluate(texts, context.sentences(test_set, kind), context.target_language, about).to_json()


def _calibrate(context: Context, *, system: SystemPlan, test_set: str) -> Result:
    """Measured on the translations that were scored, token by token as the search produced them."""
    translator, sentences = context.translator(system.model), context.sentences(test_set, "hard")
    told = _is_told(translator, system, "hard")
    scored = translator.token_probabilities(
        [sentence.source for sentence in sentences],
        context.outputs(f"decode.{system.name}.{test_set}.hard"),
        [sentence.constraints if told else () for sentence in sentences],
        batch_tokens=context.experiment.batch_tokens,
    )
    judged = [
        judge(output, sentence.target, sentence.constraints, context.target_language, translator.subwords)
        for output, sentence in zip(scored, sentences, strict=True)
    ]
    return measure_calibration(judged, f"system:{system.name}; set:{test_set}.hard; ECE|tokens:subwords").to_json()


def _measure_speed(context: Context, *, system: SystemPlan, test_set: str) -> Result:
    translator = context.translator(system.model)
    sentences = context.sentences(test_set, "hard")
    told = _is_told(translator, system, "hard")

    def translate(first: int, size: int) -> list[Translation]:
        rows = sentences[first : first + size]
        return translator.translate(
            [row.source for row in rows],
            [row.constraints if told else () for row in rows],
            search=system.search,
            beam=context.experiment.beam,
            batch_tokens=size * (POSITIONS + 2),  # one batch, whatever its length
        )

    measured = []
    for size in context.experiment.speed.batches:
        count = min(context.experiment.speed.sentences, len(sentences), size * _MOST_BATCHES)
        starts = range(0, count, size)
        # What is compiled on first use is not part of the speed; on a GPU, steps are recorded for every shape.
        for first in starts if translator.model.embedding.device.type == "cuda" else starts[:1]:
            translate(first, min(size, count - first))
        started = time.perf_counter()
        outputs = [output for first in starts for output in translate(first, min(size, count - first))]
        seconds = time.perf_counter() - started
        tokens = sum(len(output.tokens) for output in outputs)
        measured.append(
            {
                "batch": size,
                "sentences": count,
                "tokens": tokens,
                "translating_seconds": round(seconds, 3),
                "sentences_per_second": count / seconds,
            }
        )
    return {"batches": measured, "constraints_given": told}
