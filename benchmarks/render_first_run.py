"""Turns the JSON records of the first run into `docs/results/first-run.md`. Nothing in that page is typed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from termweave import storage

ORDER = ("vanilla", "paper", "released", "copy")
GUARANTEED = tuple(f"{system}+vdba" for system in ORDER)
KINDS = {"none": "no constraints given", "all": "`all`", "hard": "`hard`"}
TEST_SETS = {
    "rwth508": "test.rwth508 (508 sentences, silver links)",
    "europarl": "dev.europarl (2,000 sentences)",
    "bicici100": "gold.bicici100 (100 sentences, lower-cased, human links)",
}


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


def bars(folder: Path) -> list[str]:
    """What the run was to show, and whether it did."""
    scores, rows = records(folder, "*.*.*.json"), []
    for name in ("rwth508", "europarl"):
        hard = {system: scores[f"{system}.{name}.hard"] for system in ORDER if f"{system}.{name}.hard" in scores}
        if "vanilla" not in hard or len(hard) < 2:
            continue
        rates = {system: score["csr_phrase_level"] for system, score in hard.items()}
        best = max((system for system in hard if system != "vanilla"), key=lambda system: rates[system])
        plain = scores[f"{best}.{name}.none"]["bleu"] - scores[f"vanilla.{name}.none"]["bleu"]
        gain = hard[best]["bleu"] - hard["vanilla"]["bleu"]
        rows += [
            bar(f"{name}, `hard`: CSR of vanilla below 35 %", rates["vanilla"], rates["vanilla"] < 35),
            bar(f"{name}, `hard`: CSR of {best} above 93 %", rates[best], rates[best] > 93),
            bar(f"{name}, `hard`: BLEU of {best} at least 2 above vanilla", gain, gain >= 2),
            bar(f"{name}, no constraints: BLEU of {best} within 0.5 of vanilla", plain, plain >= -0.5),
        ]
    rows += guarantees(scores)
    runs = records(folder, "train.*.json")
    first = runs.get("train.stage1", {}).get("target_tokens_per_second")
    if first:
        rows.append(bar("stage 1: at least 450,000 real target tokens/s", first, first >= 450_000))
        for system in ORDER[1:]:
            if f"train.{system}" in runs:
                share = 100 * runs[f"train.{system}"]["target_tokens_per_second"] / first
                rows.append(bar(f"stage 2, {system}: at least 75 % of stage 1", share, share >= 75))
    missing = [system for system in ORDER if f"train.{system}" not in runs]
    if missing:
        rows.append([f"all systems trained: {', '.join(missing)} missing", "", "no"])
    return table(["bar", "measured", "met"], rows)


def guarantees(scores: dict[str, Any]) -> list[list[str]]:
    """The search that guarantees constraints, beside plain beam search on the same model."""
    rows = []
    for name in TEST_SETS:
        for kind in ("all", "hard"):
            plain, sure = scores.get(f"copy.{name}.{kind}"), scores.get(f"copy+vdba.{name}.{kind}")
            if plain and sure:
                rate, change = sure["csr_phrase_level"], sure["bleu"] - plain["bleu"]
                rows.append(bar(f"{name}, `{kind}`, guaranteed: CSR of copy 100 %", rate, rate == 100))
                rows.append(bar(f"{name}, `{kind}`, guaranteed: BLEU at most 0.5 below plain", change, change >= -0.5))
    return rows


def bar(what: str, value: float, met: bool) -> list[str]:
    return [what, f"{value:,.0f}" if value > 1000 else f"{value:.1f}", "yes" if met else "no"]


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


def render(folder: Path, output: Path) -> None:
    lines = [
        "# First run: German → English, Europarl",
        "",
        "Rendered by `python benchmarks/first_run.py render` from the JSON files in `first-run/`; do not edit.",
        "",
        "## Preparation of 900,000 sentence pairs",
        "",
        "`termweave prepare configs/de-en.toml`, two cores:",
        "",
        *preparation(folder),
        "The aligner beside eflomal, same text: [alignment](../alignment.md).",
        "",
    ]
    for run in sorted(path for path in folder.iterdir() if path.is_dir()):
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
