"""Turns the JSON of `decode.py` and `decode_growth.py` into `docs/results/decoding.md`. Nothing there is typed by hand.

python benchmarks/render_decode.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from termweave import storage

FOLDER = Path("docs/results/decoding")
PAGE = Path("docs/results/decoding.md")
QUANTITIES = ("batch", "beam", "length", "constraints")
# Ours, the other, what share of the other's speed ours must have.
BARS = (
    ("termweave, float32", "transformers, float32", 1.3),
    ("termweave, float32", "CTranslate2, float32", 0.85),
    ("termweave, float32, 3 constraints", "termweave, float32", 0.95),
)


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def speeds(report: dict[str, Any], unit: str) -> list[str]:
    batches = sorted({row["batch"] for row in report["results"]})
    rows = []
    for system in dict.fromkeys(row["system"] for row in report["results"]):
        cells = [system]
        for batch in batches:
            row = find(report, system, batch)
            met = f"{row['kept']} of {row['constraints']}" if row["constraints"] else ""
            cells += [f"{row['median']:.2f} ({min(row['speeds']):.2f}–{max(row['speeds']):.2f})", met]
        rows.append([*cells, find(report, system, batches[0])["version"]])
    header = [part for batch in batches for part in (f"sentences per {unit}, batch {batch}", "constraints met")]
    return table(["system", *header, "version"], rows)


def find(report: dict[str, Any], system: str, batch: int) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in report["results"] if (row["system"], row["batch"]) == (system, batch))
    return found


def bars(report: dict[str, Any]) -> list[str]:
    names = {row["system"] for row in report["results"]}
    rows = []
    for ours, theirs, least in BARS:
        for batch in sorted({row["batch"] for row in report["results"]}):
            if {ours, theirs} <= names:
                share = find(report, ours, batch)["median"] / find(report, theirs, batch)["median"]
                met = "yes" if share >= least else "no"
                rows.append([f"{ours} over {theirs}, batch {batch}", f"{least}", f"{share:.2f}", met])
    return table(["share of speed", "at least", "measured", "met"], rows)


def growth(report: dict[str, Any]) -> list[str]:
    lines = []
    for varied in dict.fromkeys(row["varied"] for row in report["results"]):
        rows = [row for row in report["results"] if row["varied"] == varied]
        others = ", ".join(
            f"{name} {rows[0][name]}" for name in ("batch", "beam", "length", "constraints") if name != varied
        )
        lines += [f"By {varied} ({others}):", ""]
        header = [varied, *(str(row[varied]) for row in rows)]
        lines += table(header, [["ms a sentence", *(f"{row['milliseconds']:.1f}" for row in rows)]])
    return lines


def load(name: str) -> dict[str, Any] | None:
    path = FOLDER / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def section(title: str, name: str, script: str) -> list[str]:
    report = load(name)
    if report is None:
        return [f"## {title}", "", "Not measured yet.", ""]
    command = " ".join(["python", f"benchmarks/{script}", *report["arguments"]])
    return [f"## {title}", "", "```", command, "```", "", f"On: {report['processor']}.", ""]


def main() -> None:
    lines = [
        "# Decoding speed",
        "",
        "Rendered by `python benchmarks/render_decode.py` from the JSON files in `decoding/`; do not edit.",
        "",
        "One random Transformer-base (512, 6 + 6 layers, vocabulary of 32,000), the same weights and sentences for all",
        "engines, outputs of fixed length, beam 4, rounds interleaved: medians and ranges. How the others are run:",
        "[peers](../../benchmarks/peers/README.md).",
        "",
        *section("One CPU thread", "cpu.json", "decode.py"),
    ]
    if (report := load("cpu.json")) is not None:
        lines += [*bars(report), *speeds(report, "CPU second")]
    lines += section("One GPU", "gpu.json", "decode.py")
    if (report := load("gpu.json")) is not None:
        lines += speeds(report, "second")
    lines += section("Growth, one CPU thread", "growth.json", "decode_growth.py")
    if (report := load("growth.json")) is not None:
        lines += growth(report)
    storage.write_text(PAGE, "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
