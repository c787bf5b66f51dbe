"""An experiment as a graph of steps."""

from __future__ import annotations

from termweave.experiments.graph import Graph, Step, hash_files
from termweave.experiments.joint_steps import attention_step, case_step, comparison_step, overlap_step
from termweave.experiments.plan import Experiment
from termweave.experiments.set_steps import set_steps
from termweave.experiments.system_steps import decoding_steps, speed_step
from termweave.experiments.training_steps import preparation_steps, training_step


def make_graph(experiment: Experiment) -> Graph:
    """All steps, in an order in which they can be done; keys take the hashes of the data files."""
    steps = make_steps(experiment)
    files = [file for step in steps for file in step.files]
    return Graph(steps, hash_files(files, experiment.root))


def make_steps(experiment: Experiment) -> list[Step]:
    steps = preparation_steps(experiment)
    steps += [training_step(experiment, model) for model in experiment.models]
    steps += [step for test_set in experiment.test_sets for step in set_steps(experiment, test_set)]
    for system in experiment.systems:  # all work of one model together: it is loaded once
        steps += [step for test_set in experiment.test_sets for step in decoding_steps(experiment, system, test_set)]
    hard = [test_set for test_set in experiment.test_sets if "hard" in test_set.kinds]
    for test_set in experiment.test_sets:
        found = [comparison_step(experiment, test_set, kind) for kind in test_set.kinds]
        steps += [step for step in found if step is not None]
    steps += [overlap_step(experiment, test_set) for test_set in hard]
    if hard:
        steps.append(case_step(experiment, hard[0]))
        steps += [step for step in [attention_step(experiment, hard[0])] if step is not None]
    if hard[:1] == list(experiment.test_sets[:1]):
        steps += [speed_step(experiment, system) for system in experiment.systems if "speed" in system.tables]
    return steps
