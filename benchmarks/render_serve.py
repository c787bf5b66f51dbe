"""Turns the JSON of `serve.py` into `docs/results/serving.md`. Nothing there is typed by hand.

python benchmarks/render_serve.py
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from render_decode import table
from termweave import storage

FOLDER = Path("docs/results/serving")
PAGE = Path("docs/results/serving.md")
TITLES = {
    "base": "A Transformer-base of random weights",
    "toy": "The toy model",
}
ABOUT = {
    "base": "Six layers and six, 512 wide, with a vocabulary learned from the text. Outputs go on to their limit, twice"
    " the source and more: the work of a real model on long sentences.",
    "toy": "Two layers and two, 128 wide, trained by `termweave toy`. Translating is cheap, so the server's own cost "
    "shows.",
}

Record = dict[str, Any]


def batching(records: list[Record]) -> list[str]:
    """Medians of the rounds, and the ratios: batching over one by one, and many clients over one."""
    rows, speeds = [], {}
    for kind in dict.fromkeys((record["kind"], record["clients"]) for record in records):
        own = [record for record in records if (record["kind"], record["clients"]) == kind]
        each = [record["a_second"] for record in own]
        speeds[kind] = statistics.median(each)
        rows.append(
            [
                *map(str, kind),
                f"{speeds[kind]:.2f} ({min(each):.2f}–{max(each):.2f})",
                f"{statistics.median(record['sentences_a_batch'] for record in own):.1f}",
                f"{statistics.median(record['p50'] for record in own):,.0f}",
                f"{statistics.median(record['p95'] for record in own):,.0f}",
            ]
        )
    many = max(clients for _, clients in speeds)
    together, single, alone = speeds["batching", many], speeds["one by one", many], speeds["batching", 1]
    return [
        f"With {many} clients, batching answers **{together / single:.1f} times** as many requests as one by one "
        f"(`--batch-tokens 1`), and {together / alone:.1f} times as many as with one client.",
        "",
        *table(["", "clients", "requests a second", "sentences a batch", "p50, ms", "p95, ms"], rows),
    ]


def counted(record: Record) -> list[str]:
    """What was sent, against what was answered."""
    lost = record["sent"] - record["answered"]
    errors = sum(record["socket_errors"].values())
    return [
        f"Sent {record['sent']:,}, answered {record['answered']:,}, lost {lost}, socket errors {errors}. Answers by "
        f"status, as the tool counts them: {told(record['statuses'])}; as the server does: "
        f"{told(record['server_statuses'])}.",
    ]


def told(statuses: dict[str, int]) -> str:
    return ", ".join(f"{count:,} × {status}" for status, count in sorted(statuses.items()))


def crowd(record: Record) -> list[str]:
    steady = record["mebibytes"][int(record["warm_up"]) :]
    halves = steady[: len(steady) // 2], steady[len(steady) // 2 :]
    return [
        f"{record['clients']} clients, {record['seconds']:g} seconds:",
        "",
        *counted(record),
        "",
        f"{record['a_second']:.1f} requests a second; p50 {record['p50']:,.0f} ms, p95 {record['p95']:,.0f} ms, "
        f"p99 {record['p99']:,.0f} ms, the longest {record['longest']:,.0f} ms.",
        "",
        f"Resident memory rises and falls with every batch. After {record['warm_up']:g} seconds, lowest and highest: "
        f"{min(halves[0]):,.0f} and {max(halves[0]):,.0f} MiB in the first half of the time, {min(halves[1]):,.0f} and "
        f"{max(halves[1]):,.0f} MiB in the second.",
        "",
    ]


def overload(record: Record) -> list[str]:
    after = record["after"]
    lines = [
        f"{record['clients']} clients before a queue of {record['queue_tokens']} subwords (`--queue-tokens`), "
        f"{record['seconds']:g} seconds; who is refused comes again when told:",
        "",
        *counted(record),
        f"Refusals without `Retry-After`: {record['without_retry_after']}.",
    ]
    if record["refusals_timed"]:
        lines.append(
            f"Another client was refused {record['refusals_timed']} times: p50 {record['refused_p50']:,.0f} ms, "
            f"p95 {record['refused_p95']:,.0f} ms. The server counts that client's requests too."
        )
    waiting = f"{after['queued']:.0f} requests waiting"
    lines.append(f"Afterwards: health {after['health']}, a translation {after['translation']}, {waiting}.")
    return [*lines, ""]


def section(name: str) -> list[str]:
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return [f"## {TITLES[name]}", "", "Not measured yet.", ""]
    report = json.loads(path.read_text(encoding="utf-8"))
    return [
        f"## {TITLES[name]}",
        "",
        ABOUT[name],
        "",
        "```",
        " ".join(["python", "benchmarks/serve.py", *report["arguments"]]),
        "```",
        "",
        f"On: {report['processor']}, {report['cores']} cores, with other work beside it (load average "
        f"{report['load_before']:.1f} before the start); {report['versions']}.",
        "",
        *batching(report["batching"]),
        *crowd(report["crowd"]),
        *overload(report["overload"]),
    ]


def main() -> None:
    lines = [
        "# The server under load",
        "",
        "Rendered by `python benchmarks/render_serve.py` from the JSON files in `serving/`; do not edit.",
        "",
        "`termweave serve` and the load tool (wrk) share the cores. Each request is one sentence of four to twelve",
        "words to `/v2/translate`. Rounds are interleaved: medians and ranges. After the given time nothing more is",
        "sent, and all that was sent is waited for: a request without an answer would be lost.",
        "",
        *(line for name in TITLES for line in section(name)),
    ]
    storage.write_text(PAGE, "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
