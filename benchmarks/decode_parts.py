"""Where the time of one batch's search goes: what comes before the steps, the steps, and what comes after them.

    python benchmarks/decode_parts.py --device cuda
    python benchmarks/decode_parts.py --tiny

Batches are searched twice: once as they come, for the time of the whole, and once with a wait for the device before and
after every part. Parts that overlap otherwise are apart then, so together they take longer than the whole.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from decode_limits import SYSTEMS, Request, make_problem, ours, seconds_of
from termweave.decoding import beam
from termweave.decoding.beam import Steps
from termweave.decoding.recorded import RecordedSteps

PARTS = ("told", "demands", "automaton", "encode", "_start", "enter", "advance", "_select", "_emit")


class Clock:
    """Seconds and calls of every part."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    @contextmanager
    def on(self, *owners: object) -> Iterator[None]:
        """Every part that one of these has is timed meanwhile."""
        found = [(owner, name, getattr(owner, name)) for owner in owners for name in PARTS if hasattr(owner, name)]
        for owner, name, part in found:
            vars(owner)[name] = self.timed(name, part)  # some of them are frozen
        try:
            yield
        finally:
            for owner, name, part in found:
                vars(owner)[name] = part

    def timed(self, name: str, part: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            results: list[Any] = []
            self.seconds[name] += seconds_of(lambda: results.append(part(*arguments, **named)), self.device, 1)
            self.calls[name] += 1
            return results[0]

        return run


def recordings(steps: Steps) -> set[int]:
    """All graphs there are."""
    if not isinstance(steps, RecordedSteps):
        return set()
    graphs: list[object] = [graph for stage in steps._stages.values() for graph in stage.recordings.values()]
    graphs += [encoder.graph for encoder in steps._encoders.values() if encoder is not None]
    return {id(graph) for graph in graphs if graph is not None}


def measure(system: str, options: argparse.Namespace, request: dict[str, int]) -> None:
    model, search, constraints = SYSTEMS[system]
    given = Request(**request, constraints=constraints)
    options = argparse.Namespace(**vars(options), model=model, search=search)
    engine = ours.Engine(options)
    for seed in range(options.warm_up):
        engine.prepare(given, [make_problem(given, seed)])()
    [steps] = engine.steps.values()
    before = recordings(steps.steps)
    clock, whole, apart = Clock(engine.device), [], []
    for seed in range(1000, 1000 + options.rounds):
        decode = engine.prepare(given, [make_problem(given, seed)])
        whole.append(seconds_of(decode, engine.device, 1))
        with clock.on(engine, steps.steps, beam):
            apart.append(seconds_of(decode, engine.device, 1))
    after = recordings(steps.steps)
    taken = f"{1e3 * statistics.median(whole):.2f} ms ({1e3 * min(whole):.2f}–{1e3 * max(whole):.2f})"
    print(f"{system}: {taken} a batch; graphs: {len(before)}, and {len(after - before)} since", flush=True)
    spent = {part: 1e3 * clock.seconds[part] / options.rounds for part in PARTS if clock.calls[part]}
    spent["between them"] = 1e3 * sum(apart) / options.rounds - sum(spent.values())
    for part, milliseconds in spent.items():
        print(f"  {part:<12} {milliseconds:8.3f} ms, {clock.calls[part] / options.rounds:.1f} calls", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--warm-up", type=int, default=6, help="batches before the first that is measured")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tiny", action="store_true", help="does it run?")
    options = parser.parse_args()
    if options.tiny:
        options.batch, options.warm_up, options.rounds = 2, 1, 1
    if options.device == "cuda":
        torch.set_float32_matmul_precision("high")
    for system in SYSTEMS:
        measure(system, options, {"batch": options.batch, "beam": 4, "length": 18 if options.tiny else 30})


if __name__ == "__main__":
    main()
