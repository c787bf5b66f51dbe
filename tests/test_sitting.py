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
# Files say what is wrong: `lost.txt`, which steps need a model that never comes; `fails.txt`, that scoring fails once;
# `busy.txt`, that it waits and then takes a while; `long.txt`, which steps go on for good, whatever they are asked;
# `awaits.txt`, which steps wait until something is noted, and what.
STAND_IN = """#!/usr/bin/env bash
case "$*" in
*"experiment status"*) cat states.txt ;;
*"experiment run"*)
    title=$(basename "$5" .toml)
    steps=$(echo "$*" | grep -o -- '--only [^ ]*' | cut -d' ' -f2 | xargs echo)
    record=results/$title/records/$steps.json
    [ ! -e "$record" ] || echo "$steps has a record" >>calls.txt
    echo "$title begins $steps" >>order.txt
    if [ -e long.txt ] && [[ $steps == $(cat long.txt) ]]; then
        trap '' TERM
        sleep 300 &
        echo $$ $! >>processes.txt
        wait
    fi
    if [ -e awaits.txt ] && [[ $steps == $(head -n 1 awaits.txt) ]]; then
        for ((look = 0; look < 300; look++)); do
            ! grep -qs "$(tail -n 1 awaits.txt)" order.txt progress.txt || break
            sleep 0.2
        done
    fi
    [[ $steps != train.* ]] || { sleep 0.3; touch "$record"; }
    echo "$steps" >>calls.txt
    echo "$title ends $steps" >>order.txt
    [[ $steps == score.* ]] || exit 0
    [ ! -e fails.txt ] || { rm fails.txt; exit 1; }
    echo "train.lost: waiting for another run to do it"
    [ ! -e lost.txt ] || [[ $steps != $(cat lost.txt) ]] || sleep 60
    [ ! -e busy.txt ] || { sleep 0.3; echo "decode: begun"; sleep 3; echo scored >>calls.txt; }
    ;;
*experiment.json) [ ! -e systems.txt ] || cat systems.txt ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("peers"))
    for name in ("small", "other"):
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"\nplain = "vanilla"\n')
    stand_in = tmp_path / "python"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    for name in ("small", "other"):
        (tmp_path / "results" / name / "records").mkdir(parents=True)
    return tmp_path


def sit(place: Path, *states: str, **settings: str) -> list[str]:
    """What was asked for."""
    (place / "states.txt").write_text("".join(f"{state}\n" for state in states))
    own = {"PYTHON": str(place / "python"), "EXPERIMENTS": "small.toml", "PATIENCE": "0.2", "IDLE": "1", "GRACE": "1"}
    command = ["bash", "benchmarks/sitting.sh", "go"]
    subprocess.run(command, cwd=place, env=os.environ | own | settings, check=True, timeout=200)
    assert (place / "over").exists()
    return lines(place, "calls.txt")


def lines(place: Path, name: str) -> list[str]:
    return (place / name).read_text().splitlines() if (place / name).exists() else []


def have(place: Path, *models: str) -> None:
    """Models that are trained already."""
    for model in models:
        (place / f"results/small/records/train.{model}.json").touch()


def still_there(place: Path) -> list[str]:
    """Those of the processes that go on for good; a zombie is none."""
    processes = ",".join(lines(place, "processes.txt")).replace(" ", ",")
    listed = subprocess.run(["ps", "-o", "stat=", "-p", processes], check=False, capture_output=True, text=True)
    return [state for state in listed.stdout.split() if not state.startswith("Z")]


def test_only_what_the_experiment_has_in_the_order_of_the_models(place: Path):
    """What scores beside the training waits for a model that never comes, and is ended then."""
    (place / "systems.txt").write_text("vanilla vanilla main speed\nvanilla+vdba vanilla speed\ncopy copy speed\n")
    (place / "lost.txt").write_text("score.\\*.hard")
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
        *("score.vanilla.*.hard score.vanilla+vdba.*.hard", "score.vanilla.* score.vanilla+vdba.*"),
        "speed.vanilla speed.vanilla+vdba",
    ]


BOTH = "small.toml other.toml"
OF_EACH = ("to do  train.stage1", "to do  train.vanilla", "to do  score.vanilla.news.hard", "to do  speed.vanilla")


def test_an_experiment_is_whole_before_the_next_one_begins(place: Path):
    (place / "systems.txt").write_text("vanilla vanilla speed\n")
    sit(place, *OF_EACH, EXPERIMENTS=BOTH)
    steps = ("train.stage1", "train.vanilla", "score.vanilla.*.hard", "score.vanilla.*", "speed.vanilla")
    assert lines(place, "order.txt") == [
        f"{name} {verb} {step}" for name in ("small", "other") for step in steps for verb in ("begins", "ends")
    ]


def test_together_stages_1_come_first_and_training_goes_on_beside_scoring(place: Path):
    (place / "systems.txt").write_text("vanilla vanilla speed\n")
    (place / "awaits.txt").write_text("score.*\nother begins train.vanilla\n")
    sit(place, *OF_EACH, EXPERIMENTS=BOTH, TOGETHER="yes")
    order = lines(place, "order.txt")
    trained = [line for line in order if " begins train" in line]
    assert trained == [
        f"{name} begins {step}" for step in ("train.stage1", "train.vanilla") for name in ("small", "other")
    ]
    assert [line for line in order[-4:] if " begins " in line] == [
        f"{name} begins speed.vanilla" for name in ("small", "other")
    ]


def test_what_is_left_to_score_is_shared_out_by_models(place: Path):
    """What the claims need comes first."""
    names = ("vanilla", "vanilla+vdba", "copy", "paper", "lost")
    (place / "systems.txt").write_text("".join(f"{name} {name.partition('+')[0]}\n" for name in names))
    have(place, "vanilla", "copy", "paper")
    kinds = ("score.{}.news.hard", "score.{}.news.none", "score.{}.news.switched", "calibrate.{}.news")
    states = (f"to do  {kind.format(name)}" for name in names for kind in kinds)
    calls = sit(place, *states, "to do  attention", SCORERS="2")
    first = "score.{0}.*.hard score.{0}.*.switched calibrate.{0}.*"
    own = ("vanilla", "vanilla+vdba", "paper")
    assert sorted(calls, key=lambda call: "copy" in call) == [
        " ".join(first.format(name) for name in own),
        " ".join(f"score.{name}.*" for name in own) + " attention",
        first.format("copy"),
        "score.copy.*",
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
    have(place, "vanilla")
    calls = sit(place, "done   train.stage1", "to do  score.vanilla.news", SCORERS="1")
    assert calls == ["score.vanilla.*", "score.vanilla.*"]


def test_enough_begins_no_further_model(place: Path):
    (place / "enough").touch()
    assert sit(place, "done   train.stage1", "to do  train.vanilla", "to do  train.copy") == []


# Time: only what must be over before a moment comes has few seconds; what must be done after it has a minute.


def test_no_model_is_begun_when_its_time_is_up_but_the_last_one_may_end(place: Path):
    (place / "awaits.txt").write_text("train.*\ntime is up for further models\n")
    times = {"UNTIL": "125", "FOR_SCORES": "60", "FOR_SPEED": "60", "OVERTIME": "50"}
    calls = sit(place, *("to do  train.stage1", "to do  train.vanilla"), EXPERIMENTS=BOTH, **times)
    assert calls == ["train.stage1"]


def test_text_that_does_not_come_in_time_is_not_waited_for(place: Path):
    assert sit(place, "to do  train.stage1", PREPARED="later", UNTIL="122", FOR_SCORES="60", FOR_SPEED="60") == []


def test_models_that_take_too_long_are_ended_and_those_that_are_there_measured(place: Path):
    (place / "systems.txt").write_text("vanilla vanilla speed\ncopy copy speed\n")
    (place / "long.txt").write_text("train.*")
    have(place, "vanilla")
    calls = sit(
        place,
        *("to do  train.copy", "to do  score.vanilla.news.none", "to do  score.copy.news.none"),
        *("to do  speed.vanilla", "to do  speed.copy"),
        **{"UNTIL": "126", "FOR_SCORES": "60", "FOR_SPEED": "60", "OVERTIME": "2"},
    )
    assert calls == ["score.vanilla.*", "speed.vanilla"]
    assert lines(place, "processes.txt")
    assert not still_there(place)
    told = [line.partition(" ")[2] for line in lines(place, "progress.txt")]
    assert [line for line in told if "time" in line] == ["time is up for further models", "time is up for training"]


def test_scoring_that_takes_too_long_is_ended_and_speed_measured(place: Path):
    (place / "systems.txt").write_text("vanilla vanilla speed\n")
    (place / "long.txt").write_text("score.*")
    have(place, "vanilla")
    states = ("to do  score.vanilla.news.hard", "to do  score.vanilla.news.none", "to do  speed.vanilla")
    assert sit(place, *states, UNTIL="66", FOR_SCORES="1", FOR_SPEED="60") == ["speed.vanilla"]
    assert lines(place, "order.txt")[0] == "small begins score.vanilla.*.hard"
    assert len([line for line in lines(place, "order.txt") if "score" in line]) == 1
    assert not still_there(place)
    assert "time is up for scoring" in (place / "progress.txt").read_text()


def test_nothing_goes_on_when_all_time_is_up(place: Path):
    (place / "systems.txt").write_text("vanilla vanilla speed\n")
    (place / "long.txt").write_text("speed.*")
    have(place, "vanilla")
    assert sit(place, "to do  speed.vanilla", UNTIL="12", FOR_SCORES="1", FOR_SPEED="10") == []
    assert lines(place, "processes.txt")
    assert not still_there(place)
    assert lines(place, "progress.txt")[-2].endswith("time is up for everything")


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
