"""`termweave experiment run` and `status`: do what is not done yet, one step after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from termweave.accelerators import choose_device
from termweave.experiments.context import WORK, Context
from termweave.experiments.plan import Experiment
from termweave.experiments.records import Records, provenance, write_experiment
from termweave.experiments.steps import make_graph
from termweave.progress import console
from termweave.storage import locked


@dataclass(frozen=True)
class Progress:
    """How far an experiment has come."""

    finished: tuple[str, ...]  # steps done in this visit
    left: tuple[str, ...]  # steps that were wanted and are not done


def run_experiment(
    experiment: Experiment, *, only: Sequence[str] = (), max_seconds: float | None = None, device: str = "auto"
) -> Progress:
    """Do the steps that are wanted and not done, and those they need; stop cleanly when the time is over."""
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    graph = make_graph(experiment)
    context = Context(experiment, graph, device, deadline)
    records = Records(experiment.root, graph)
    write_experiment(experiment, graph)
    common = provenance(experiment, choose_device(device))
    due = graph.due(graph.matching(only), records.done, context.has_product)
    finished: list[str] = []
    for step in due:
        if context.seconds_left is not None and context.seconds_left <= 0:
            break
        started = time.monotonic()
        # Two visits may work on different steps at the same time, never on the same one.
        with locked(experiment.root / WORK / "locks" / step.name, "termweave experiment run"):
            result = step.work(context)
        if result is None:
            break
        seconds = time.monotonic() - started
        records.write(step.name, result, seconds, common)
        finished.append(step.name)
        console.print(f"{len(finished)}/{len(due)} {step.name}: {seconds:.1f} s", highlight=False, markup=False)
    return Progress(tuple(finished), tuple(step.name for step in due[len(finished) :]))


def experiment_status(experiment: Experiment) -> list[tuple[str, str]]:
    """Each step with its state: done, due, or due again because the files it left are gone and another needs them."""
    graph = make_graph(experiment)
    context, records = Context(experiment, graph, "cpu", None), Records(experiment.root, graph)
    due = {step.name for step in graph.due(list(graph.steps), records.done, context.has_product)}
    return [(name, _state(name, name in due, context, records)) for name in graph.steps]


def _state(step: str, due: bool, context: Context, records: Records) -> str:
    if not due:
        return "done"
    if records.done(step):
        return "again, its files are gone"
    shared = bool(context.graph.steps[step].home)  # then the folder tells nothing of this step
    return "begun" if not shared and context.home(step).exists() else "to do"
