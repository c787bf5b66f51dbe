"""The page of the first run: it is what the records give, and bars that are missed or not measured say so."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    """Imports a module of benchmarks/, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def write_scores(run: Path, system: str, rate: float, hard: float, none: float) -> None:
    run.mkdir(exist_ok=True)
    for test_set in ("rwth508", "europarl"):
        for kind, bleu in (("hard", hard), ("none", none)):
            record = {"bleu": bleu, "csr_phrase_level": rate, "constraints": 7}
            (run / f"{system}.{test_set}.{kind}.json").write_text(json.dumps(record))


def write_speed(run: Path, system: str, tokens: float) -> None:
    run.mkdir(exist_ok=True)
    (run / f"train.{system}.json").write_text(json.dumps({"target_tokens_per_second": tokens}))


def summarised(load, folder: Path, alignment: list[dict[str, object]]) -> dict[str, list[str]]:
    """What was measured, where, and whether that is enough, by what was asked."""
    lines = load("first_run_bars").summary(folder, alignment)
    start = lines.index("|---|---|---|---|") + 1
    rows = [line.strip("| ").split(" | ") for line in lines[start : lines.index("", start)]]
    return {row[0]: row[1:] for row in rows}


def test_the_page_is_what_the_records_give(benchmark, tmp_path):
    page = tmp_path / "page.md"
    benchmark("render_first_run").render(RESULTS / "first-run", RESULTS / "align.json", page)
    assert page.read_text() == (RESULTS / "first-run.md").read_text(), "python benchmarks/first_run.py render"


def test_the_newest_run_counts_and_copied_records_belong_to_the_first(benchmark, tmp_path):
    for number in ("2-old", "10-new"):  # by number, not by letters
        write_scores(tmp_path / number, "vanilla", 7, 30, 30)
        write_speed(tmp_path / number, "stage1", 500_000)
    write_scores(tmp_path / "2-old", "copy", 99, 40, 30)
    write_scores(tmp_path / "10-new", "copy", 94, 31.5, 29.4)
    write_speed(tmp_path / "2-old", "released", 350_000)
    rows = summarised(benchmark, tmp_path, [])
    old, new = "[2-old](#run-2-old)", "[10-new](#run-10-new)"
    assert rows["rwth508, `hard`: CSR of vanilla below 35 %"] == ["7.0", old, "yes"]
    assert rows["rwth508, `hard`: CSR of copy above 93 %"] == ["94.0", new, "yes"]
    both = f"{new}; vanilla: {old}"
    assert rows["europarl, `hard`: BLEU of copy at least 2 above vanilla"] == ["1.5", both, "no"]
    assert rows["europarl, no constraints: BLEU of copy within 0.5 of vanilla"] == ["-0.6", both, "no"]
    assert rows["stage 1: at least 450,000 real target tokens/s"] == ["500,000", old, "yes"]
    assert rows["stage 2, released: at least 75 % of stage 1"] == ["70.0", old, "no"]


def test_what_was_not_measured_is_not_met(benchmark, tmp_path):
    rows = summarised(benchmark, tmp_path, [])
    assert len(rows) == 10
    assert {(row[0], row[-1]) for row in rows.values()} == {("not measured", "no")}


@pytest.mark.parametrize(
    ("error_rate", "seconds", "met"), [(22, 50, ("yes", "yes")), (22.1, 50, ("no", "yes")), (20, 51, ("yes", "no"))]
)
def test_the_aligner_is_held_against_eflomal_on_the_same_text(benchmark, tmp_path, error_rate, seconds, met):
    alignment = [
        {"text": "a", "system": "builtin", "error_rate": error_rate, "cpu_seconds": seconds},
        {"text": "a", "system": "eflomal", "error_rate": 20, "cpu_seconds": 100},
        {"text": "b", "system": "builtin", "error_rate": 99, "cpu_seconds": 999},
    ]
    rows = {what: row for what, row in summarised(benchmark, tmp_path, alignment).items() if "aligner" in what}
    assert tuple(row[-1] for row in rows.values()) == met


@pytest.mark.parametrize(
    ("difference", "same", "relative", "processes", "met"),
    [
        (0.0, True, 1e-7, [1, 2], ["yes", "yes"]),
        (1e-9, True, 1e-7, [1, 2], ["no", "yes"]),
        (0.0, False, 1e-7, [1, 2], ["no", "yes"]),
        (0.0, True, 1e-3, [1, 2], ["yes", "no"]),
        (0.0, True, 0.0, [1, 1], ["yes", "no"]),
    ],
)
def test_a_killed_run_must_have_the_very_same_losses(benchmark, difference, same, relative, processes, met):
    record = {
        "killed": {"largest_difference": difference, "same_weights": {"stage1": True, "stage2": same}},
        "processes": {"largest_relative_difference": relative, "tolerance": 1e-5, "processes": processes},
    }
    assert [bar.verdict for bar in benchmark("first_run_bars").interruption_bars(record)] == met


def test_losses_are_compared_at_every_step(benchmark):
    interruptions = benchmark("interruptions")
    first = {("stage1", step): 4.0 for step in range(1, 21)}
    second = first | {("stage1", 7): 4.5}
    compared = interruptions.compare(first, second)
    assert compared["losses_compared"] == 20
    assert compared["largest_difference"] == 0.5
    assert compared["largest_relative_difference"] == 0.125
    assert [row[1] for row in compared["losses"]] == [1, 10, 20]
    with pytest.raises(SystemExit, match="different steps"):
        interruptions.compare(first, {("stage2", 1): 4.0})


def test_where_a_run_went_on_is_read_from_what_it_told(benchmark, tmp_path):
    interruptions = benchmark("interruptions")
    told = tmp_path / "told.txt"
    steps = [("stage1", step) for step in (1, 2, 3, 2, 3, 4)] + [("stage2", step) for step in (1, 2, 3, 4)]
    told.write_text("".join(f"{stage} step {step}: loss 4\n" for stage, step in steps))
    assert interruptions.resumed_after(told, "stage1") == 1
    with pytest.raises(SystemExit, match="stage2 went on 0 times"):
        interruptions.resumed_after(told, "stage2")
