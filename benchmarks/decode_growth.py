"""How the time of our search grows: with the batch, the beam, the constraints and the length.

    python benchmarks/decode_growth.py --output docs/results/decoding/growth.json
    python benchmarks/decode_growth.py --device cuda

One quantity changes, the others stay; CPU seconds, or seconds on a GPU, per sentence. Constraints are guaranteed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from decode import PEERS, System, arguments, machine

USUAL = {"batch": 16, "beam": 4, "length": 25, "constraints": 0}
VARIED = {
    "batch": [1, 4, 16, 64, 256],
    "beam": [1, 2, 4, 8, 16],
    "length": [10, 25, 50, 100],
    "constraints": [0, 1, 2, 4, 8],
}
ROOM = 50  # length of the outputs where constraints vary: eight of them have up to 24 tokens


def points(smallest: bool) -> list[dict[str, int]]:
    found = []
    for name, values in VARIED.items():
        usual = {**USUAL, "length": ROOM} if name == "constraints" else USUAL
        found += [{**usual, name: value, "varied": list(VARIED).index(name)} for value in values]
    if smallest:
        return [{**point, "batch": 2, "length": 30} for point in found[:: len(found) // 3]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16", "int8"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    parser.add_argument("--tiny", action="store_true", help="does it run?")
    options = parser.parse_args()
    command = [sys.executable, str(PEERS / "ours.py"), "--device", options.device, "--precision", options.precision]
    ours = System("termweave", command, exact=False)
    clock = "cpu_seconds" if options.device == "cpu" else "wall_seconds"
    rows = []
    ours.ask({**USUAL, "constraints": 1})  # the first answer of a process is slow
    for point in points(options.tiny):
        request = {name: point[name] for name in USUAL}
        times = []
        if options.device == "cuda":  # the steps of these sizes are recorded
            ours.ask({**request, "rounds": 4})
        for number in range(options.rounds):
            answer = ours.ask({**request, "seed": number + 1})
            if answer["constraints_kept"] != answer["constraints"]:
                raise SystemExit(f"a constraint was not met: {request}")
            times.append(1000 * answer[clock] / answer["sentences"])
        varied = list(VARIED)[point["varied"]]
        rows.append({**request, "varied": varied, "milliseconds": round(statistics.median(times), 2), "all": times})
        print(f"{varied} {request[varied]}: {rows[-1]['milliseconds']} ms a sentence", flush=True)
    ours.close()
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        report = {"arguments": arguments(options.output), "processor": machine(options.device), "clock": clock}
        report["results"] = rows
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
