"""Turns the JSON of `decode.py` and `decode_growth.py` into `docs/results/decoding.md`. Nothing there is typed by hand.

python benchmarks/render_decode.py
"""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

from termweave import storage

FOLDER = Path("docs/results/decoding")
PAGE = Path("docs/results/decoding.md")
QUANTITIES = ("batch", "beam", "length", "constraints")
# Ours, the other, what share of the other's speed ours must have; at which batch sizes.
CPU_BARS = (
    ("termweave, float32", "transformers, float32", 1.3),
    ("termweave, float32", "CTranslate2, float32", 0.85),
    ("termweave, float32, 3 constraints", "termweave, float32", 0.95),
)
GPU_BARS = tuple(
    bar
    for precision in ("float32", "bfloat16")
    for bar in (
        (f"termweave, {precision}", f"transformers, {precision}", 6.0),
        (f"termweave, {precision}, 3 constraints", f"termweave, {precision}", 0.85),
        (f"termweave `copy`, {precision}, 3 constraints, not guaranteed", f"termweave, {precision}", 0.93),
    )
)
GPU_BAR_BATCH = 128


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


def bars(report: dict[str, Any], wanted: tuple[tuple[str, str, float], ...], batches: list[int]) -> list[str]:
    names = {row["system"] for row in report["results"]}
    rows = []
    for ours, theirs, least in wanted:
        for batch in batches:
            if {ours, theirs} <= names:
                shares = of_each_round(find(report, ours, batch), find(report, theirs, batch))
                share = statistics.median(shares)
                rows.append(
                    [
                        f"{ours} over {theirs}, batch {batch}",
                        f"{least}",
                        f"{share:.2f}" if abs(share - least) > 0.005 else f"{share:.4f}",
                        f"{min(shares):.2f}–{max(shares):.2f}",
                        "yes" if share >= least else "no",
                    ]
                )
    return table(["share of speed", "at least", "measured", "rounds", "met"], rows)


def of_each_round(ours: dict[str, Any], theirs: dict[str, Any]) -> list[float]:
    """Speeds of the same round are compared: from one to the next, the whole machine may have become slower."""
    return [own / other for own, other in zip(ours["speeds"], theirs["speeds"], strict=True)]


def loops(report: dict[str, Any]) -> list[str]:
    rows = [[row["model"], row["precision"], str(row["batch"]), f"{row['ratio']:.2f}"] for row in report["rows"]]
    header = ["model", "precision", "batch", "times the speed of torch's operations alone"]
    return table(header, rows)


def growth(report: dict[str, Any]) -> list[str]:
    lines = []
    for varied in dict.fromkeys(row["varied"] for row in report["results"]):
        rows = [row for row in report["results"] if row["varied"] == varied]
        others = ", ".join(
            f"{name} {rows[0][name]}" for name in ("batch", "beam", "length", "constraints") if name != varied
        )
        lines += [f"By {varied} ({others}):", ""]
        header = [varied, *(str(row[varied]) for row in rows)]
        lines += table(header, [["ms a sentence", *(f"{row['milliseconds']:.3g}" for row in rows)]])
    return lines


def limits(report: dict[str, Any]) -> list[str]:
    """The steps against the ceilings, and what the time is spent on."""
    rows = []
    for row in report["results"]:
        spent = sum(row["microseconds"].values())
        kinds = ", ".join(f"{kind} {100 * time / spent:.0f} %" for kind, time in row["microseconds"].items())
        rows.append(
            [
                f"{row['system']}, {row['precision']}, batch {row['batch']}",
                f"{row['step_microseconds']:.0f}",
                f"{row['bytes'] / 2**20:.0f}",
                f"{100 * row['memory_share']:.0f} %",
                f"{row['operations'] / 1e9:.0f}",
                f"{100 * row['compute_share']:.0f} %",
                f"{row['kernels']}",
                f"{spent:.0f}",
                f"{row['idle']:.0f}",
                kinds,
            ]
        )
    ceilings = {
        row["precision"]: f"{row['bytes_per_second'] / 1e12:.2f} TB/s copied, "
        f"{row['operations_per_second'] / 1e12:.0f} Tflop/s multiplied"
        for row in report["results"]
    }
    header = ["step of", "µs", "MiB it must move", "of the ceiling", "Gflop", "of the ceiling", "kernels"]
    return [
        "Ceilings measured in the same run: " + "; ".join(f"{kind}: {text}" for kind, text in ceilings.items()) + ".",
        "A share says how much of the step's time the bare movement or computation would take at that ceiling.",
        "What follows the number of kernels is a profiler's record of one step; it stretches the gaps between them.",
        "",
        *table([*header, "µs in kernels", "between them", "spent on"], rows),
    ]


def plot(report: dict[str, Any], path: Path) -> list[str]:
    """Sentences per second against the batch size, both axes logarithmic."""
    systems = list(dict.fromkeys(row["system"] for row in report["results"]))
    batches = sorted({row["batch"] for row in report["results"]})
    if len(batches) < 3:
        return []
    speeds = [row["median"] for row in report["results"]]
    low, high = math.log10(min(speeds)) - 0.1, math.log10(max(speeds)) + 0.1
    first, last = math.log2(batches[0]), math.log2(batches[-1])

    def at(batch: int, speed: float) -> str:
        across = 70 + 480 * (math.log2(batch) - first) / (last - first)
        return f"{across:.1f},{350 - 320 * (math.log10(speed) - low) / (high - low):.1f}"

    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 400" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="980" height="400" fill="white"/>')
    parts += ['<path d="M70 30V350H550" stroke="black" fill="none"/>', '<text x="260" y="390">batch size</text>']
    parts.append('<text x="10" y="20">sentences per second</text>')
    for batch in batches:
        across = at(batch, 10**low).split(",")[0]
        parts.append(f'<text x="{across}" y="367" text-anchor="middle">{batch}</text>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        up = at(batches[0], 10.0**power).split(",")[1]
        parts.append(
            f'<path d="M65 {up}H550" stroke="#ccc"/><text x="60" y="{up}" text-anchor="end">{10**power}</text>'
        )
    for index, system in enumerate(systems):
        points = " ".join(at(batch, find(report, system, batch)["median"]) for batch in batches)
        colour = f"hsl({360 * index // len(systems)},70%,40%)"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="570" y="{45 + 22 * index}" fill="{colour}">{system.replace("`", "")}</text>')
    storage.write_text(path, "\n".join([*parts, "</svg>"]) + "\n")
    return [f"![sentences per second against batch size]({path.relative_to(PAGE.parent)})", ""]


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
        "engines, outputs of fixed length, beam 4, rounds interleaved: medians and ranges. A share of speed is the",
        "median of its shares in each round. How the others are run:",
        "[peers](../../benchmarks/peers/README.md). Source ids are tensors before the clock starts, in all engines;",
        "whatever constraints need is made while it runs. On a GPU, and at batch 1, a round is eight batches one after",
        "the other; ours lays out the next one while the device is at work. Garbage collection is off meanwhile,",
        "for all of them.",
        "",
        *section("One CPU thread", "cpu.json", "decode.py"),
    ]
    if (report := load("cpu.json")) is not None:
        batches = sorted({row["batch"] for row in report["results"]})
        lines += [*bars(report, CPU_BARS, batches), *speeds(report, "CPU second")]
    lines += section("Compiled loops, one CPU thread", "loops.json", "decode_loops.py")
    if (report := load("loops.json")) is not None:
        lines += loops(report)
    lines += section("One GPU", "gpu.json", "decode.py")
    if (report := load("gpu.json")) is not None:
        lines += [*bars(report, GPU_BARS, [GPU_BAR_BATCH]), *speeds(report, "second")]
        lines += plot(report, FOLDER / "gpu.svg")
    lines += section("Distance to the GPU's limits", "limits.json", "decode_limits.py")
    if (report := load("limits.json")) is not None:
        lines += limits(report)
    for title, name in (("Growth, one CPU thread", "growth.json"), ("Growth, one GPU", "growth-gpu.json")):
        lines += section(title, name, "decode_growth.py")
        if (report := load(name)) is not None:
            lines += growth(report)
    storage.write_text(PAGE, "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
