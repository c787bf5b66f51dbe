"""`benchmarks/sitting.sh` with a stand-in for Python that notes what it is asked for: which steps, in which order."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="a script for bash")

# It prints the states it was given, notes the steps it is asked for and whether a record was there, and "trains".
STAND_IN = """#!/usr/bin/env bash
case "$*" in
*"experiment status"*) cat states.txt ;;
*"experiment run"*)
    steps=$(echo "$*" | grep -o -- '--only [^ ]*' | cut -d' ' -f2 | xargs echo)
    record=results/small/records/$steps.json
    [ ! -e "$record" ] || echo "$steps has a record" >>calls.txt
    [[ $steps != train.* ]] || { sleep 0.3; touch "$record"; }
    echo "$steps" >>calls.txt
    [[ "$*" != *--leave* ]] || [ ! -e fails.txt ] || { rm fails.txt; exit 1; }
    [[ "$*" != *--leave* ]] || {
        echo "train.lost: waiting for another run to do it"
        [ ! -e busy.txt ] || { sleep 0.3; echo "decode: begun"; sleep 3; echo scored >>calls.txt; exit; }
        sleep 20
    }
    ;;
*experiment.json) [ ! -e systems.txt ] || cat systems.txt ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("peers"))
    (tmp_path / "small.toml").write_text('name = "small"\nplain = "vanilla"\n')
    stand_in = tmp_path / "python"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    for name in ("small", "other"):
        (tmp_path / "results" / name / "records").mkdir(parents=True)
    return tmp_path


def sit(place: Path, *states: str, **settings: str) -> list[str]:
    """What was asked for."""
    (place / "states.txt").write_text("".join(f"{state}\n" for state in states))
    own = {"PYTHON": str(place / "python"), "EXPERIMENTS": "small.toml", "PATIENCE": "0.2", "IDLE": "1"}
    command = ["bash", "benchmarks/sitting.sh", "go"]
    subprocess.run(command, cwd=place, env=os.environ | own | settings, check=True, timeout=60)
    assert (place / "over").exists()
    calls = place / "calls.txt"
    return calls.read_text().splitlines() if calls.exists() else []


def test_only_what_the_experiment_has_in_the_order_of_the_models(place: Path):
    """What scores beside the training waits for a model that never comes, and is ended then."""
    (place / "systems.txt").write_text("vanilla vanilla main speed\nvanilla+vdba vanilla speed\ncopy copy speed\n")
    calls = sit(
        place,
        *("to do  encode", "to do  prepare", "to do  train.stage1", "to do  train.paper", "to do  train.vanilla"),
        *("to do  set.news.hard", "to do  score.vanilla.news.hard", "to do  score.vanilla+vdba.news.hard"),
        *("to do  speed.vanilla", "to do  speed.vanilla+vdba", "to do  compare.news.hard"),
        BESIDE="score.*.hard",
    )
    for beside in ("prepare", "score.*.hard"):
        calls.remove(beside)
    assert calls == [
        *("train.stage1", "train.vanilla", "train.paper"),
        "score.vanilla.* score.vanilla+vdba.*",
        "speed.vanilla speed.vanilla+vdba",
    ]


def test_stages_1_of_all_experiments_come_first(place: Path):
    (place / "other.toml").write_text('name = "other"\n')
    calls = sit(
        place,
        *("to do  train.stage1", "to do  train.vanilla", "to do  train.copy"),
        EXPERIMENTS="small.toml other.toml",
        MODELS="vanilla copy",
    )
    trained = [call for call in calls if not call.endswith("has a record")]  # the stand-in knows one folder only
    assert trained == ["train.stage1", "train.stage1", *2 * ["train.vanilla", "train.copy"]]


def test_what_is_left_to_score_is_shared_out_by_models(place: Path):
    (place / "systems.txt").write_text("vanilla vanilla\nvanilla+vdba vanilla\ncopy copy\npaper paper\n")
    names = ("vanilla", "vanilla+vdba", "copy", "paper")
    states = (f"to do  {step}.{name}.news" for name in names for step in ("score", "calibrate"))
    calls = sit(place, *states, "to do  attention", SCORERS="2")
    assert sorted(calls) == [
        "score.copy.* calibrate.copy.*",
        "score.vanilla.* calibrate.vanilla.* score.vanilla+vdba.* calibrate.vanilla+vdba.* "
        "score.paper.* calibrate.paper.* attention",
    ]


def test_what_is_done_is_left_alone_and_what_is_lost_is_forgotten(place: Path):
    records = place / "results/small/records"
    for name in ("encode", "prepare", "train.stage1", "train.vanilla", "train.copy"):
        (records / f"{name}.json").touch()
    calls = sit(
        place,
        *("again, its files are gone encode", "again, its files are gone prepare"),
        *("again, its files are gone train.stage1", "done   train.vanilla", "done   train.copy"),
        *("again, what it read was made anew train.paper", "done   set.news.hard"),
    )
    assert not [call for call in calls if call.endswith("has a record")]
    assert sorted(calls) == ["prepare", "train.paper", "train.stage1"]
    assert calls.index("train.stage1") < calls.index("train.paper")


def test_what_is_being_scored_when_all_is_trained_is_waited_for(place: Path):
    (place / "busy.txt").touch()
    calls = sit(
        place, "done   train.stage1", "to do  train.vanilla", "to do  score.vanilla.news.hard", BESIDE="score.*"
    )
    assert calls[-1] == "scored"


def test_scoring_that_fails_is_tried_again(place: Path):
    """As where a GPU has no memory left."""
    (place / "systems.txt").write_text("vanilla vanilla\n")
    (place / "fails.txt").touch()
    calls = sit(place, "done   train.stage1", "to do  score.vanilla.news", SCORERS="1")
    assert calls == ["score.vanilla.*", "score.vanilla.*"]


def test_enough_begins_no_further_model(place: Path):
    (place / "enough").touch()
    assert sit(place, "done   train.stage1", "to do  train.vanilla", "to do  train.copy") == []


def test_text_that_comes_later_is_not_prepared(place: Path):
    text = place / "results/small/work/encode.0123"
    text.mkdir(parents=True)
    for mark in ("encoded", "prepared"):
        (text / mark).touch()
    record = place / "results/small/records/prepare.json"
    record.touch()
    calls = sit(
        place, "again, its files are gone prepare", "to do  train.stage1", "to do  train.copy", PREPARED="later"
    )
    assert calls == ["train.stage1", "train.copy"]
    assert record.exists()


def test_models_in_several_archives_are_all_unpacked(place: Path):
    for number, model in enumerate(("stage1", "vanilla"), 1):
        folder = place / "carry" / f"work-{number}"
        folder.mkdir(parents=True)
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            archive.addfile(tarfile.TarInfo(f"results/small/records/train.{model}.json"))
        (folder / f"{model}.part.00").write_bytes(data.getvalue())
    sit(place, "done   encode", "done   prepare", "done   train.stage1", "done   train.vanilla")
    assert sorted(path.name for path in (place / "results/small/records").iterdir()) == [
        "train.stage1.json",
        "train.vanilla.json",
    ]
