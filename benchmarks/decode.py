"""Beam search against other engines: sentences per CPU second on the same weights and sentences.

    python benchmarks/decode.py --hf environments/hf/bin/python --ct2 environments/ct2/bin/python --output decode.json
    python benchmarks/decode.py --tiny

Every system is a process behind the protocol of peers/problem.py. They take turns, one request each, so that whatever
else the machine does meets all of them alike. An engine whose interpreter is not given is left out. In float32 all
must produce the same tokens, and the table says how many sentences were the same; with constraints, how many were met.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent / "peers"
RESULTS = "docs/results/decoding"
ALONE = 8  # batches of a round where a single one is too short to measure: of one sentence, or on a GPU

Answer = dict[str, Any]


@dataclass
class System:
    """One engine in one setting, as a process that answers requests."""

    name: str
    command: list[str]
    exact: bool  # float32: must produce what ours produces
    settings: dict[str, object] = field(default_factory=dict)  # what it adds to every request
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """All of them load their models at the same time, before the first is asked anything."""
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, request: dict[str, object]) -> Answer:
        if self.process is None:
            self.start()
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps({**request, **self.settings}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self.process.wait()}; its message stands above")
        answer: Answer = json.loads(line)
        return answer

    def close(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()


def systems(options: argparse.Namespace) -> list[System]:
    """Ours first; the others where their interpreter is given."""
    found = []
    for precision in options.precisions:
        found += our_systems(options, precision, with_constraints=options.device == "cuda" or precision == "float32")
    if options.hf:
        found += hf_systems(options)
    if options.ct2 and options.device == "cpu":
        for kind in ("float32", "int8"):
            peer = [options.ct2, str(PEERS / "ct2.py"), "--threads", str(options.threads), "--compute-type", kind]
            found.append(System(f"CTranslate2, {kind}", peer, kind == "float32"))
    return [entry for entry in found if options.only in entry.name]


def our_systems(options: argparse.Namespace, precision: str, with_constraints: bool) -> list[System]:
    ours = [sys.executable, str(PEERS / "ours.py"), "--threads", str(options.threads), "--device", options.device]
    ours += ["--precision", precision]
    found = [System(f"termweave, {precision}", ours, precision == "float32")]
    if not with_constraints or not options.constraints:
        return found
    given: dict[str, object] = {"constraints": options.constraints}
    number, copy = f"{options.constraints} constraints", f"termweave `copy`, {precision}"
    told = [*ours, "--model", "copy", "--search", "beam"]
    return [
        *found,
        System(f"termweave, {precision}, {number}", ours, False, given),
        System(f"{copy}, {number}, not guaranteed", told, False, given),
        System(f"{copy}, 0 to {number}, not guaranteed", told, False, {**given, "up_to": True}),
        System(f"{copy}, {number}", [*ours, "--model", "copy"], False, given),
    ]


def hf_systems(options: argparse.Namespace) -> list[System]:
    peer = [options.hf, str(PEERS / "hf.py"), "--threads", str(options.threads), "--device", options.device]
    if options.device == "cuda":
        kinds = [kind for kind in options.precisions if kind != "int8"]
        return [System(f"transformers, {kind}", [*peer, "--dtype", kind], kind == "float32") for kind in kinds]
    found = [System("transformers, float32", peer, True)]
    if options.constraints:
        name = f"transformers, float32, {options.constraints} constraints"
        found.append(System(name, peer, False, {"constraints": options.constraints}))
    return found


@dataclass
class Measured:
    """All rounds of one system at one batch size."""

    system: str
    batch: int
    version: str = ""
    speeds: list[float] = field(default_factory=list)  # sentences per CPU second, or per second on a GPU
    same: int = 0  # sentences with the tokens of our float32
    compared: int = 0
    kept: int = 0  # constraints in the outputs
    constraints: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.speeds)


def measure(entries: list[System], batch: int, options: argparse.Namespace) -> list[Measured]:
    """Interleaved rounds. The first answers of a process are slower and thrown away: on a GPU, steps are recorded."""
    request = {"batch": batch, "beam": options.beam, "length": options.length, "show": True}
    on_gpu = options.device == "cuda"
    request["rounds"] = options.alone if batch == 1 or on_gpu else 1
    results = [Measured(entry.name, batch) for entry in entries]
    for entry in entries:
        entry.ask({**request, "rounds": 8 if on_gpu else 1, "seed": 1})
    clock = "wall_seconds" if on_gpu else "cpu_seconds"
    for number in range(options.rounds):
        reference: list[list[int]] | None = None
        for entry, result in zip(entries, results, strict=True):
            answer = entry.ask({**request, "seed": 1000 * (number + 1)})
            result.version = str(answer["version"])
            result.speeds.append(answer["sentences"] / answer[clock])
            reference = answer["outputs"] if reference is None else reference
            result.compared += len(reference)
            result.same += sum(a == b for a, b in zip(answer["outputs"], reference, strict=True))
            result.kept += answer["constraints_kept"]
            result.constraints += answer["constraints"]
        speeds = ", ".join(f"{result.system} {result.speeds[-1]:.2f}" for result in results)
        print(f"batch {batch}, round {number + 1}: {speeds}", file=sys.stderr, flush=True)
    return results


def table(results: list[list[Measured]], options: argparse.Namespace) -> str:
    """A row for each system; each batch size has speed, its range, ours over theirs, and equal outputs."""
    unit = "CPU second" if options.device == "cpu" else "second"
    lines = [
        f"Sentences per {unit}, median (range) of {options.rounds} interleaved rounds; beam {options.beam}, "
        f"{options.length} tokens, {options.threads} thread(s); {processor()}",
        "",
        "| system |" + "".join(f" batch {rows[0].batch} | share of the first | outputs |" for rows in results),
        "|---|" + "---|---|---|" * len(results),
    ]
    for row in zip(*results, strict=True):
        cells = [row[0].system]
        for result, of_batch in zip(row, results, strict=True):
            cells += [
                f"{result.median:.2f} ({min(result.speeds):.2f}–{max(result.speeds):.2f})",
                f"{result.median / of_batch[0].median:.2f}",
                outputs(result),
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def outputs(result: Measured) -> str:
    if result.constraints:
        return f"{result.kept} of {result.constraints} constraints met"
    return f"{result.same} of {result.compared} the same"


def arguments(output: Path) -> list[str]:
    """As they were given, but with the place where the results belong, wherever they were written first."""
    return [f"{RESULTS}/{output.name}" if part == str(output) else part for part in sys.argv[1:]]


def machine(device: str) -> str:
    if device == "cuda":
        import torch

        return f"{torch.cuda.get_device_name()}; {processor()}"
    return processor()


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def check(entries: list[System], results: list[list[Measured]]) -> None:
    """A system that computes something else has not been measured on the same problem."""
    for rows in results:
        for entry, result in zip(entries, rows, strict=True):
            if entry.exact and result.same < result.compared:
                different = result.compared - result.same
                print(f"warning: {entry.name}, batch {result.batch}: {different} outputs differ", file=sys.stderr)


def main() -> None:
    options = parse_options()
    entries = systems(options)
    results: list[list[Measured]] = []
    try:
        for entry in entries:
            entry.start()
        for batch in options.batches:
            results.append(measure(entries, batch, options))
            write(results, options)
    finally:
        for entry in entries:
            entry.close()
    check(entries, results)
    print(table(results, options))


def write(results: list[list[Measured]], options: argparse.Namespace) -> None:
    """After every batch size: a run that is cut short keeps what it has measured."""
    if options.output:
        rows = [{**vars(result), "median": result.median} for batch in results for result in batch]
        report = {"arguments": arguments(options.output), "processor": machine(options.device), "results": rows}
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hf", help="the interpreter of an environment with transformers")
    parser.add_argument("--ct2", help="the interpreter of an environment with CTranslate2")
    parser.add_argument("--precisions", nargs="+", help="of ours; default: float32 and int8, on a GPU and bfloat16")
    parser.add_argument("--only", default="", help="only systems whose name contains this, for example float32")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--constraints", type=int, default=3, help="for each sentence, in the systems that take them")
    parser.add_argument("--length", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--output", type=Path, help="write all rounds as JSON")
    parser.add_argument("--tiny", action="store_true", help="does it run? two tiny rounds")
    options = parser.parse_args()
    options.alone = ALONE
    options.precisions = options.precisions or ["float32", "int8" if options.device == "cpu" else "bfloat16"]
    if options.tiny:
        options.batches, options.length, options.rounds, options.alone, options.constraints = [1, 2], 4, 2, 1, 1
    return options


if __name__ == "__main__":
    main()
