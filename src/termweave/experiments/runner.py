"""`termweave experiment run` and `status`: do what is not done yet, one step after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from termweave.accelerators import choose_device
from termweave.errors import BusyError, ConfigError
from termweave.experiments.context import WORK, Context
from termweave.experiments.graph import Result, Step
from termweave.experiments.plan import Experiment
from termweave.experiments.records import Records, provenance, write_experiment
from termweave.experiments.steps import make_graph
from termweave.progress import console
from termweave.storage import locked, remove

PATIENCE = 1.0  # seconds between two looks at what other visits are doing


@dataclass(frozen=True)
class Progress:
    """How far an experiment has come."""

    finished: tuple[str, ...]  # steps done in this visit
    left: tuple[str, ...]  # steps that were wanted and are not done


class _Outcome(Enum):
    DONE = auto()
    STOPPED = auto()  # it can go on later
    BUSY = auto()  # another visit is at work on it


@dataclass(frozen=True)
class _Visit:
    """One run over an experiment."""

    context: Context
    records: Records
    common: Result
    wanted: Sequence[str]
    left: frozenset[str]  # steps that are left to other visits
    finished: list[str] = field(default_factory=list)

    def due(self) -> list[Step]:
        done = self.records.done()
        return self.context.graph.due(self.wanted, done.__contains__, self.context.has_product)

    def attempt(self, step: Step, waited: bool) -> _Outcome:
        """Two visits may work on different steps at the same time, never on the same one.

        waited: it was said that nothing could be done, so that something is must be said too.
        """
        started = time.monotonic()
        try:
            with locked(self.context.experiment.root / WORK / "locks" / step.name, "termweave experiment run"):
                due = self.due()
                if step not in due:
                    return _Outcome.DONE  # the other visit has just finished it
                self._forget_outdated(step)
                if waited:
                    console.print(f"{step.name}: begun", highlight=False, markup=False)
                result = step.work(self.context)
                if result is None:
                    return _Outcome.STOPPED
                seconds = time.monotonic() - started
                self.records.write(step.name, result, self.context.made(step.name), seconds, self.common)
        except BusyError:
            return _Outcome.BUSY
        assert step.name not in self.finished, f"{step.name} is done and yet due"
        self.finished.append(step.name)
        total = len(self.finished) + len(due) - 1
        console.print(f"{len(self.finished)}/{total} {step.name}: {seconds:.1f} s", highlight=False, markup=False)
        return _Outcome.DONE

    def _forget_outdated(self, step: Step) -> None:
        """What was made from something that is no longer there must not be taken for finished, nor gone on with."""
        if self.records.exists(step.name) and step.name not in self.records.done():
            if not step.home:
                remove(self.context.home(step.name))
            remove(self.records.path(step.name))  # last: a visit that is killed here begins anew

    def attempt_any(self, due: Sequence[Step], waited: bool) -> _Outcome:
        """The first that no other visit is at work on, or will be."""
        names = {step.name for step in due}
        for step in due:
            if step.name not in self.left and names.isdisjoint(step.needs):
                outcome = self.attempt(step, waited)
                if outcome is not _Outcome.BUSY:
                    return outcome
        return _Outcome.BUSY


def run_experiment(
    experiment: Experiment,
    *,
    only: Sequence[str] = (),
    leave: Sequence[str] = (),
    max_seconds: float | None = None,
    device: str = "auto",
) -> Progress:
    """Do the steps that are wanted and not done, and those they need; stop cleanly when the time is over.

    leave: patterns of steps that other visits do. What needs them waits until they have.
    """
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    graph = make_graph(experiment)
    context = Context(experiment, graph, device, deadline)
    write_experiment(experiment, graph)
    common = provenance(experiment, choose_device(device))
    wanted, left = graph.matching(only), frozenset(graph.matching(leave) if leave else ())
    if left.issuperset(wanted):
        raise ConfigError("all steps that are wanted are left to other commands; leave fewer, or ask for more")
    visit = _Visit(context, Records(experiment.root, graph), common, wanted, left)
    waited = False
    # What is due is asked anew after every step: what is made again may be something else, and other visits work too.
    while (due := visit.due()) and not context.is_over:
        outcome = visit.attempt_any(due, waited)
        if outcome is _Outcome.STOPPED:
            break
        if outcome is _Outcome.BUSY:
            if not waited:
                console.print(f"{due[0].name}: waiting for another run to do it", highlight=False)
            time.sleep(PATIENCE)
        waited = outcome is _Outcome.BUSY
    return Progress(tuple(visit.finished), tuple(step.name for step in due))


def experiment_status(experiment: Experiment) -> list[tuple[str, str]]:
    """Each step with its state: done, due, or due again and why."""
    graph = make_graph(experiment)
    context, records = Context(experiment, graph, "cpu", None), Records(experiment.root, graph)
    done = records.done()
    due = {step.name for step in graph.due(list(graph.steps), done.__contains__, context.has_product)}
    return [(name, _state(name, context, records, name in done) if name in due else "done") for name in graph.steps]


def _state(step: str, context: Context, records: Records, done: bool) -> str:
    """Of a step that is due."""
    if done:
        return "again, its files are gone"
    if records.exists(step):
        return "again, what it read was made anew"
    shared = bool(context.graph.steps[step].home)  # then the folder tells nothing of this step
    return "begun" if not shared and context.home(step).exists() else "to do"
