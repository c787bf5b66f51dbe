"""Turns the JSON records of the first run into `docs/results/first-run.md`. Nothing in that page is typed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from first_run_bars import aligners, bars, summary
from first_run_records import ORDER, TEST_SETS, Record, record, records, runs
from render_decode import table
from termweave import storage

GUARANTEED = tuple(f"{system}+vdba" for system in ORDER)
KINDS = {"none": "no constraints given", "all": "`all`", "hard": "`hard`"}


def quality(folder: Path) -> list[str]:
    scores = records(folder, "*.*.*.json")
    lines = []
    for name, title in TEST_SETS.items():
        rows = []
        for system in (*ORDER, *GUARANTEED):
            cells = [scores.get(f"{system}.{name}.{kind}") for kind in KINDS]
            if any(cells):
                rows.append([system, *(cell for score in cells for cell in quality_cells(score))])
        if not rows:
            continue
        header = ["system", *(part for kind in KINDS.values() for part in (f"BLEU, {kind}", "chrF", "CSR %"))]
        lines += [f"### {title}", "", *table(header, rows)]
    signatures = sorted({score["signature"].split("; ", 1)[1] for score in scores.values()})
    lines += ["Signatures:", "", *(f"- `{signature}`" for signature in shortened(signatures)), ""]
    return lines


def shortened(signatures: list[str]) -> list[str]:
    """The metrics' own part is the same everywhere; what differs stands in the tables."""
    return sorted({signature[signature.index("BLEU|") :] for signature in signatures if "BLEU|" in signature})


def quality_cells(score: dict[str, Any] | None) -> list[str]:
    if score is None:
        return ["–", "–", "–"]
    return [f"{score['bleu']:.1f}", f"{score['chrf']:.1f}", f"{score['csr_phrase_level']:.1f}"]


def sizes(folder: Path) -> list[str]:
    rows = []
    for name in TEST_SETS:
        for kind in ("all", "hard"):
            score = records(folder, f"vanilla.{name}.{kind}.json").get(f"vanilla.{name}.{kind}")
            if score:
                rows.append(
                    [
                        f"{name}.{kind}",
                        str(score["sentences"]),
                        str(score["constraints"]),
                        str(score["constraint_words"]),
                    ]
                )
    return table(["set", "sentences", "constraints", "words in them"], rows)


def training(folder: Path) -> list[str]:
    rows = []
    for name in ("stage1", *ORDER):
        record = records(folder, f"train.{name}.json").get(f"train.{name}")
        if record:
            rows.append(
                [
                    name,
                    f"{record['steps']:,}",
                    f"{record['target_tokens_per_second']:,}",
                    f"{record['steps_per_second']:.1f}",
                    f"{record['last_loss']:.3f}",
                    f"{record['wall_seconds']}",
                    f"{record['device']}, torch {record['torch']}",
                ]
            )
    header = ["system", "steps", "real target tokens/s", "steps/s", "last loss", "wall s", "machine"]
    return table(header, rows)


def preparation(folder: Path) -> list[str]:
    record = records(folder, "prepare.json").get("prepare")
    if record is None:
        return ["Not measured.", ""]
    rows = [
        [
            name,
            f"{step['cpu_seconds'] / 60:.1f}",
            f"{step['wall_seconds'] / 60:.1f}",
            f"{step['peak_memory'] / 2**20:,.0f}",
        ]
        for name, step in record["steps"].items()
    ]
    return table(["step", "CPU minutes", "wall minutes", "peak memory, MiB"], rows)


def alignment(rows: list[Record]) -> list[str]:
    cells = []
    for ours, theirs in aligners(rows):
        both = [
            (f"{each['error_rate']:.1f}", f"{each['cpu_seconds']:,.0f}") if each else ("–", "–")
            for each in (ours, theirs)
        ]
        share = f"{ours['cpu_seconds'] / theirs['cpu_seconds']:.2f}" if theirs else "–"
        errors, seconds = zip(*both, strict=True)
        cells.append([ours["text"], f"{ours['training_pairs']:,}", ours["system"], *errors, *seconds, share])
    header = ["corpus", "pairs", "ours", "AER, ours", "AER, eflomal", "CPU s, ours", "CPU s, eflomal", "share"]
    return table(header, cells)


def interruptions(measured: Record | None) -> list[str]:
    if measured is None:
        return ["Not measured.", ""]
    killed, processes = measured["killed"], measured["processes"]
    losses = [
        [stage, str(step), *(f"{loss:.7f}" for loss in (alone, again, one, two))]
        for (stage, step, alone, again), (_, _, one, two) in zip(killed["losses"], processes["losses"], strict=True)
    ]
    same = "the same bytes" if all(killed["same_weights"].values()) else "other bytes"
    compared = [
        ["left alone, killed", *differences(killed), same],
        ["one process, two processes", *differences(processes), "not compared"],
    ]
    return [
        *how_interrupted(measured),
        *table(["stage", "step", "left alone", "killed", "one process", "two processes"], losses),
        *table(["compared", "losses", "largest difference", "relative to the loss", "final weights"], compared),
    ]


def differences(comparison: Record) -> list[str]:
    largest = [comparison["largest_difference"], comparison["largest_relative_difference"]]
    return [str(comparison["losses_compared"]), *(f"{difference:.2g}" for difference in largest)]


def how_interrupted(measured: Record) -> list[str]:
    kills = [
        f"in {kill['stage'].replace('stage', 'stage ')} after step {kill['killed_after_step']}, to go on from the "
        f"checkpoint of step {kill['resumed_after_step']}"
        for kill in measured["kills"]
    ]
    return [
        f"`termweave train` on the corpus of `termweave toy`, {measured['sentence_pairs']:,} pairs: both stages, "
        f"{measured['steps']} steps each,",
        f"a checkpoint every {measured['checkpoint_every']}, every loss in the log; {measured['processor']}, torch "
        f"{measured['torch']}, one thread a process:",
        "",
        "```",
        f"{measured['command']}   # {measured['cpu_seconds']} CPU seconds, {measured['wall_seconds']} s",
        "```",
        "",
        "- left alone: from the first step to the last",
        f"- killed: SIGKILL {'; again '.join(kills)}",
        "- one process: two micro-batches a step, no dropout, whose draws differ between processes",
        "- two processes: the same by torchrun, with gloo, one micro-batch each",
        "",
    ]


def text(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def render_run(folder: Path) -> list[str]:
    commands = text(folder / "commands.txt")
    return [
        f"## Run `{folder.name}`",
        "",
        *text(folder / "about.txt"),
        "",
        *(["```", *commands, "```", ""] if commands else []),
        "### What was asked, and what came out",
        "",
        *bars(folder),
        "### Training",
        "",
        *training(folder),
        *quality(folder),
        *sizes(folder),
    ]


def render(folder: Path, alignment_file: Path, output: Path) -> None:
    aligned = storage.read_json(alignment_file)
    lines = [
        "# First run: German → English, Europarl",
        "",
        "Rendered by `python benchmarks/first_run.py render` from `first-run/` and `align.json`; do not edit.",
        "",
        "## What was asked, and where it stands",
        "",
        *summary(folder, aligned),
        "## Preparation of 900,000 sentence pairs",
        "",
        "`termweave prepare configs/de-en.toml`, two cores:",
        "",
        *preparation(folder),
        "## The aligner beside eflomal",
        "",
        *alignment(aligned),
        "From `align.json`; the commands, and what to mind in reading it: [alignment](../alignment.md#measured).",
        "",
        "## Training that is killed, and training by two processes",
        "",
        *interruptions(record(folder, "interruptions")),
    ]
    for run in runs(folder):
        lines += render_run(run)
    lines += [
        "## How to read the tables",
        "",
        "`vanilla` is stage 1 continued for as many steps as the others' stage 2. Speeds are medians over the windows",
        "of the log; tokens are real target tokens, padding not counted. Beam 4. `all`: constraints sampled from all",
        "phrase pairs; `hard`: only those that the vanilla model's greedy output does not contain. CSR: phrase level,",
        "whole words, case-sensitive; with no constraints given it counts those of `all` that are met by chance.",
    ]
    storage.write_text(output, "\n".join(lines).rstrip() + "\n")
