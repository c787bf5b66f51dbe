"""Turns the JSON records of the first run into `docs/results/first-run.md`. Nothing in that page is typed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from termweave import storage

ORDER = ("vanilla", "paper", "released", "copy")
KINDS = {"none": "no constraints given", "all": "`all`", "hard": "`hard`"}
TEST_SETS = {"rwth508": "test.rwth508 (508 sentences, silver links)", "europarl": "dev.europarl (2,000 sentences)"}


def records(folder: Path, pattern: str) -> dict[str, Any]:
    return {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in sorted(folder.glob(pattern))}


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def quality(folder: Path) -> list[str]:
    scores = records(folder, "*.*.*.json")
    lines = []
    for name, title in TEST_SETS.items():
        rows = []
        for system in ORDER:
            cells = [scores.get(f"{system}.{name}.{kind}") for kind in KINDS]
            if any(cells):
                rows.append([system, *(cell for score in cells for cell in quality_cells(score))])
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


def commands(folder: Path) -> list[str]:
    path = folder / "commands.txt"
    return ["```", *path.read_text().splitlines(), "```", ""] if path.exists() else []


def render(folder: Path, output: Path) -> None:
    lines = [
        "# First run: German → English, Europarl",
        "",
        "Rendered by `python benchmarks/first_run.py render` from the JSON files in `first-run/`; do not edit.",
        "",
        "## Commands",
        "",
        *commands(folder),
        "## Preparation of 900,000 sentence pairs",
        "",
        *preparation(folder),
        "## Training",
        "",
        *training(folder),
        "Speeds are medians over the windows of the log; tokens are real target tokens, padding not counted.",
        "`vanilla` is stage 1 continued for as many steps as the others' stage 2.",
        "",
        "## Quality, beam 4",
        "",
        *quality(folder),
        "`all`: constraints sampled from all phrase pairs; `hard`: only those the vanilla model's greedy output does",
        'not contain. CSR is phrase-level, whole words, case-sensitive. Under "no constraints given" the CSR counts the',
        "constraints of `all` that the output meets by itself.",
        "",
        *sizes(folder),
    ]
    storage.write_text(output, "\n".join(lines).rstrip() + "\n")
