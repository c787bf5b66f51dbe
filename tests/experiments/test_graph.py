"""Which steps are done again, and which are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from termweave.errors import ConfigError, DataError
from termweave.experiments.graph import FORMATS, Graph, Step, hash_files

HASHES = {"text.de": "aa", "test.de": "bb"}


def work(_: object) -> dict[str, object]:
    return {}


def graph(stage2_steps: int = 5, text: str = "aa", test: str = "bb", sets: str = "test.de") -> Graph:
    """prepare → train → decode ← set; score reads decode."""
    steps = [
        Step("prepare", work, files=("text.de",), product="prepared"),
        Step("train", work, ("prepare",), {"steps": stage2_steps}, product="model"),
        Step("set", work, files=(sets,), product="set.jsonl"),
        Step("decode", work, ("train", "set"), product="outputs"),
        Step("score", work, ("decode",)),
    ]
    return Graph(steps, {"text.de": text, sets: test})


def changed(other: Graph) -> set[str]:
    return {name for name, key in graph().keys.items() if other.keys[name] != key}


def test_keys_change_with_what_a_step_rests_on_and_with_nothing_else():
    assert changed(graph()) == set()
    assert changed(graph(stage2_steps=6)) == {"train", "decode", "score"}
    assert changed(graph(test="cc")) == {"set", "decode", "score"}
    assert changed(graph(text="cc")) == {"prepare", "train", "decode", "score"}
    assert changed(graph(sets="elsewhere/test.de")) == set()


def test_a_kind_of_step_that_makes_something_else_now_is_done_again(monkeypatch: pytest.MonkeyPatch):
    before = graph()
    for number in (1, 2):
        monkeypatch.setitem(FORMATS, "decode", number)
        now = graph()
        assert {name for name in now.keys if now.keys[name] != before.keys[name]} == {"decode", "score"}
        before = now


def test_keys_of_records_that_exist_stay():
    """A key written down once: if it changes, everything that anyone has measured is done again."""
    assert graph().keys["prepare"] == "7b740dc8b1542688"


@pytest.mark.parametrize(
    ("wanted", "done", "lost", "due"),
    [
        ("score", "", "", "prepare train set decode score"),
        ("score", "prepare train", "", "set decode score"),
        ("score", "prepare train set decode score", "prepared model outputs", ""),
        ("score", "prepare train set decode", "prepared model", "score"),  # nobody reads the model any more
        ("score", "prepare train set decode", "outputs", "decode score"),
        ("score", "prepare train set decode", "outputs model", "train decode score"),
        ("score", "prepare train set decode", "outputs model prepared", "prepare train decode score"),
        ("train", "prepare", "", "train"),
        ("set", "", "", "set"),
    ],
)
def test_what_is_due(wanted: str, done: str, lost: str, due: str):
    own = graph()
    found = own.due(
        [wanted], lambda name: name in done.split(), lambda name: own.steps[name].product not in lost.split()
    )
    assert [step.name for step in found] == due.split()


def test_patterns():
    own = graph()
    assert own.matching([]) == list(own.steps)
    assert own.matching(["s*"]) == ["set", "score"]
    assert own.matching(["decode", "train"]) == ["train", "decode"]
    with pytest.raises(ConfigError, match="no such step"):
        own.matching(["decoed"])


def test_data_of_a_step_is_that_of_all_before_it():
    assert graph().data_of("train") == {"text.de": "aa"}
    assert graph().data_of("score") == {"test.de": "bb", "text.de": "aa"}


def test_hashes_are_remembered_where_the_data_is_not(tmp_path: Path):
    text = tmp_path / "text.de"
    text.write_text("abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # SHA-256 of "abc", FIPS 180-2
    assert hash_files([str(text)], tmp_path / "results") == {str(text): known}
    text.unlink()
    assert hash_files([str(text)], tmp_path / "results") == {str(text): known}
    with pytest.raises(DataError, match=r"other\.de does not exist"):
        hash_files([str(tmp_path / "other.de")], tmp_path / "results")
    text.write_text("abd")
    assert hash_files([str(text)], tmp_path / "results") != {str(text): known}
