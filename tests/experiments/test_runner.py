"""The runner on a graph of steps that write a word each: what is done again when something is lost, or made anew."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from termweave.errors import ConfigError
from termweave.experiments import runner
from termweave.experiments.context import Context
from termweave.experiments.graph import Graph, Result, Step
from termweave.experiments.plan import Experiment, ModelPlan, SystemPlan, TestSetPlan
from termweave.experiments.records import Results
from termweave.experiments.runner import experiment_status, run_experiment
from termweave.storage import locked, write_text

CONFIG = """
[data]
folder = "prepared"
directions = ["de-en"]

[[corpora]]
source = "text.de"
target = "text.en"
languages = "de-en"

[training]
folder = "model"
"""
NEEDS = {"train": (), "other": ("train",), "greedy": ("train",), "set": ("greedy",), "decode": ("other", "set")}


class Words:
    """What each step writes into its file the next time it is done; a word of its own unless said otherwise."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def step(self, name: str, *needs: str, product: str = "word.txt") -> Step:
        def work(context: Context) -> Result:
            if product:
                write_text(context.product(name), self.said.get(name, name))
            return {"word": self.said.get(name, name)}

        return Step(name, work, needs, product=product)

    def graph(self) -> Graph:
        steps = [self.step(name, *needs) for name, needs in NEEDS.items()]
        return Graph([*steps, self.step("score", "decode", product="")], {})


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Words]:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text(CONFIG)
    found = Words()
    monkeypatch.setattr(runner, "make_graph", lambda _: found.graph())
    monkeypatch.setattr(runner, "PATIENCE", 0.01)
    yield found


EXPERIMENT = Experiment(
    "words",
    "config.toml",
    "train",
    (ModelPlan("train", stage="1"),),
    (SystemPlan("train", "train"),),
    (TestSetPlan("test", "test.de", "test.en"),),
)
ALL = (*NEEDS, "score")


def run(*only: str) -> tuple[str, ...]:
    progress = run_experiment(EXPERIMENT, only=only, device="cpu")
    assert progress.left == ()
    return progress.finished


def lose(*steps: str) -> None:
    for step in steps:
        for path in Path("results/words/work").glob(f"{step}.*"):
            shutil.rmtree(path)


def forget(*steps: str) -> None:
    for step in steps:
        Path(f"results/words/records/{step}.json").unlink()


def test_everything_once(words: Words):
    assert run() == ALL
    assert run() == ()


def test_what_is_made_again_and_is_the_same_changes_nothing(words: Words):
    run()
    lose("train", "greedy")
    forget("other")
    assert run() == ("train", "other")


def test_what_is_made_again_and_is_another_is_read_again(words: Words):
    """As a model that is trained twice on a GPU; scores beside it must not stay those of the first."""
    run()
    lose(*NEEDS)
    forget("other")
    words.said = dict.fromkeys(("train", "other", "decode"), "otherwise")
    assert run("other") == ("train", "other")
    assert set(Results.open(Path("results/words")).records) == {"train", "other"}  # nothing else holds any more
    states = dict(experiment_status(EXPERIMENT))
    assert states["train"] == "done"
    assert states["score"] == "again, what it read was made anew"
    # Made again: greedy and set, since they are read, and say the same; then what is read of the other model.
    assert run("score") == ("greedy", "set", "decode", "score")
    assert len(Results.open(Path("results/words")).records) == len(ALL)
    assert run() == ()


def test_what_is_outdated_is_not_gone_on_with(words: Words):
    run()
    forget("train")
    words.said["train"] = "trained otherwise"
    begun = next(Path("results/words/work").glob("other.*")) / "checkpoint"
    begun.touch()  # of a training that began with what is no longer there
    assert run("train", "other") == ("train", "other")
    assert not begun.exists()


def test_an_outdated_step_that_was_begun_anew_goes_on(words: Words, monkeypatch: pytest.MonkeyPatch):
    run()
    forget("train")
    words.said["train"] = "trained otherwise"
    plain = Words.step

    def stopping(self: Words, name: str, *needs: str, product: str = "word.txt") -> Step:
        step = plain(self, name, *needs, product=product)

        def work(context: Context) -> Result | None:
            write_text(context.home(name) / "checkpoint", "half")
            return None

        return Step(name, work, needs, product=product) if name == "other" else step

    with monkeypatch.context() as patch:
        patch.setattr(Words, "step", stopping)
        progress = run_experiment(EXPERIMENT, only=["train", "other"], device="cpu")
        assert (progress.finished, progress.left) == (("train",), ("other",))
    assert dict(experiment_status(EXPERIMENT))["other"] == "begun"
    assert run("other") == ("other",)
    assert (next(Path("results/words/work").glob("other.*")) / "checkpoint").exists()


def test_records_without_hashes_hold_until_something_is_made_again(words: Words):
    """As versions before this one have left them."""
    run()
    for path in Path("results/words/records").iterdir():
        record = json.loads(path.read_text())
        del record["made"], record["read"]
        path.write_text(json.dumps(record))
    assert run() == ()
    forget("greedy")
    assert run() == ("greedy", "set", "decode", "score")


def meanwhile(step: str, what: Callable[[], None]) -> Iterator[None]:
    """Another visit is at work on a step; it does `what`, then ends."""
    begun, over = threading.Event(), threading.Event()

    def visit() -> None:
        with locked(Path("results/words/work/locks") / step, "termweave experiment run"):
            begun.set()
            over.wait(10)
            what()

    thread = threading.Thread(target=visit)
    thread.start()
    assert begun.wait(10)
    yield
    over.set()
    thread.join()


def test_visits_share_the_work(words: Words, monkeypatch: pytest.MonkeyPatch):
    """While another visit is at work on `other`, this one does what it can, waits, and does not do `other` again."""
    run("other")
    record = Path("results/words/records/other.json")
    finished = record.read_text()
    record.unlink()
    visit = meanwhile("other", lambda: record.write_text(finished) and None)
    next(visit)
    monkeypatch.setattr(runner.time, "sleep", lambda _: next(visit, None))  # nothing else is left to do
    assert run() == ("greedy", "set", "decode", "score")


def test_what_is_left_to_others_is_waited_for(words: Words, monkeypatch: pytest.MonkeyPatch):
    """`other` is nobody's work yet: this visit does what it can without it, and goes on as soon as it is done."""
    run("other")
    record = Path("results/words/records/other.json")
    finished = record.read_text()
    record.unlink()
    slept = []

    def sleep(_: float) -> None:
        slept.append(1)
        if len(slept) == 3:
            record.write_text(finished)

    said: list[str] = []
    monkeypatch.setattr(runner.time, "sleep", sleep)
    monkeypatch.setattr(runner.console, "print", lambda text, **_: said.append(text))
    progress = run_experiment(EXPERIMENT, leave=["oth*"], device="cpu")
    assert (progress.finished, progress.left) == (("greedy", "set", "decode", "score"), ())
    assert len(slept) == 3
    assert [line for line in said if "waiting" in line or "begun" in line] == [
        "other: waiting for another run to do it",
        "decode: begun",
    ]  # whoever watches knows it is at work


def test_to_leave_all_that_is_wanted_would_wait_for_ever(words: Words):
    with pytest.raises(ConfigError, match="all steps that are wanted are left"):
        run_experiment(EXPERIMENT, only=["train"], leave=["tr*"], device="cpu")


def test_a_pattern_without_a_step_is_an_error(words: Words):
    for wrong in ({"only": ["tran.*"]}, {"leave": ["tran.*"]}):
        with pytest.raises(ConfigError, match=r"tran\.\*: no such step"):
            run_experiment(EXPERIMENT, device="cpu", **wrong)


def test_a_visit_does_not_wait_beyond_its_time(words: Words, monkeypatch: pytest.MonkeyPatch):
    visit = meanwhile("train", lambda: None)
    next(visit)
    monkeypatch.setattr(runner.time, "sleep", lambda _: monkeypatch.setattr(Context, "seconds_left", 0.0))
    progress = run_experiment(EXPERIMENT, max_seconds=1000, device="cpu")
    assert (progress.finished, progress.left) == ((), ALL)
    next(visit, None)
