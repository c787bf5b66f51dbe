"""How far a step of the search is from what the machine can do: bytes and operations against measured ceilings.

    python benchmarks/decode_limits.py --device cuda --output docs/results/decoding/limits.json
    python benchmarks/decode_limits.py --tiny

A step is taken on its stage again and again. What it must move and compute is counted from its sizes; the ceilings are
the best that a large copy and a large product reach on the same machine in the same run. The profile says what kinds
of kernels the time is spent in.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from decode import PEERS, arguments, machine

sys.path.append(str(PEERS))
import ours
from problem import DIMENSION, FEED_FORWARD, LAYERS, VOCABULARY, Request, make_problem

from termweave.decoding.recorded import FixedSteps, RecordedSteps, Stage

SYSTEMS = {
    "plain": ("vanilla", "beam", 0),
    "3 constraints guaranteed": ("vanilla", "vdba", 3),
    "`copy`, 3 constraints": ("copy", "beam", 3),
    "`copy`, 3 constraints guaranteed": ("copy", "vdba", 3),
}
# Parts of kernels' names, the first that fits.
KINDS = {
    "attention": ("fmha", "flash", "attention", "_attend"),
    "products": ("gemm", "gemv", "cutlass", "nvjet", "xmma", "splitk", "mm_"),
    "the kernels of bank allocation": ("_choose", "_close"),
    "softmax over the vocabulary": ("softmax",),
    "normalisation": ("layer_norm", "_add_norm"),
    "selecting and sorting": ("topk", "sort", "radix", "gather", "scatter", "index", "reduce"),
}


def seconds_of(action: Callable[[], object], device: torch.device, repetitions: int) -> float:
    """The median over repetitions."""
    times = []
    for _ in range(repetitions):
        if device.type == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def ceilings(device: torch.device, precision: torch.dtype, tiny: bool) -> dict[str, float]:
    """Bytes moved a second by a copy, operations a second by a product."""
    numbers = torch.ones(2**22 if tiny else 2**29, device=device, dtype=precision)
    other = torch.empty_like(numbers)
    copying = seconds_of(lambda: other.copy_(numbers), device, 10)
    size = 256 if tiny else 8192
    left, right = (torch.randn(size, size, device=device).to(precision) for _ in range(2))
    multiplying = seconds_of(lambda: left @ right, device, 10)
    return {
        "bytes_per_second": 2 * numbers.numel() * numbers.element_size() / copying,
        "operations_per_second": 2 * size**3 / multiplying,
    }


def needs(stage: Stage, precision: torch.dtype) -> dict[str, float]:
    """The least a step can move and compute: every weight, key, value and score once."""
    state = stage.state
    rows = state.newest.numel()
    weights = LAYERS * (6 * DIMENSION**2 + 2 * DIMENSION * FEED_FORWARD) + VOCABULARY * DIMENSION
    keys = sum(part.numel() for past in (*state.cache.layers, *state.memory.layers) for part in past)
    attended = sum(past.keys.shape[2] for past in (*state.cache.layers, *state.memory.layers))
    size = torch.finfo(precision).bits // 8
    return {
        "bytes": size * (weights + keys) + 4 * 2 * rows * VOCABULARY,  # scores are written once and read once
        "operations": 2 * rows * (weights + 2 * attended * DIMENSION),
    }


def staged(system: str, precision: str, device: torch.device, request: dict[str, int]) -> tuple[FixedSteps, Stage]:
    """Some searches, so that everything is recorded; then the stage of the last steps."""
    model, search, constraints = SYSTEMS[system]
    options = argparse.Namespace(device=device.type, precision=precision, model=model, search=search)
    engine = ours.Engine(options)
    given = Request(**request, constraints=constraints)
    for seed in range(4):
        decode = engine.prepare(given, [make_problem(given, seed)])
        steps = next(iter(engine.steps.values())).steps
        if not isinstance(steps, FixedSteps):  # on a CPU steps are taken as they come; here they stay in their place
            found = next(iter(engine.steps.items()))
            engine.steps[found[0]].steps = steps = FixedSteps(engine.model, ours.MARKS, found[0])
        decode()
    stage = steps._stage
    assert stage is not None
    return steps, stage


def again(steps: FixedSteps, stage: Stage, repetitions: int) -> None:
    """A step of the middle, over and over; its results must not run out of the stage."""
    for _ in range(repetitions):
        stage.state.cache.position.fill_(stage.state.cache.capacity // 2)
        steps._perform(stage, near_limit=False)


def encoders(steps: FixedSteps) -> list[Callable[[], object]]:
    """The encoder's recording, on a GPU."""
    found = steps._encoders.values() if isinstance(steps, RecordedSteps) else ()
    return [encoder.graph.replay for encoder in found if encoder is not None]


def profile(action: Callable[[], object], device: torch.device) -> dict[str, Any]:
    """Microseconds by kind of kernel, and how long the device had nothing to do between them."""
    kind = torch.profiler.ProfilerActivity.CUDA if device.type == "cuda" else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[kind]) as seen:
        action()
        if device.type == "cuda":
            torch.cuda.synchronize()
    times: Counter[str] = Counter()
    names: Counter[str] = Counter()
    kernels, idle, until = 0, 0.0, None
    for event in sorted(seen.events(), key=lambda event: event.time_range.start):
        spent = event.device_time if device.type == "cuda" else event.self_cpu_time_total
        if spent <= 0:
            continue
        kernels += 1
        idle += max(event.time_range.start - until, 0) if until is not None else 0
        until = max(event.time_range.end, until or 0)
        name = event.name.lower()
        found = (kind for kind, parts in KINDS.items() if any(part in name for part in parts))
        times[next(found, "other small operations")] += spent
        names[event.name[:80]] += spent
    largest = dict(names.most_common(16))
    return {"kernels": kernels, "idle": idle, "microseconds": dict(times.most_common()), "largest": largest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 128])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    parser.add_argument("--tiny", action="store_true", help="does it run?")
    options = parser.parse_args()
    if options.tiny:
        options.batches, options.precisions = [2], ["float32"]
    if options.device == "cuda":
        torch.set_float32_matmul_precision("high")
    device, rows = torch.device(options.device), []
    with torch.inference_mode():
        for precision in options.precisions:
            kind = getattr(torch, precision)
            limits = ceilings(device, kind, options.tiny)
            for batch in options.batches:
                request = {"batch": batch, "beam": 4, "length": 18 if options.tiny else 30}
                for system in SYSTEMS:
                    steps, stage = staged(system, precision, device, request)
                    again(steps, stage, 3)
                    count = 2 if options.tiny else 50
                    taken = seconds_of(lambda s=steps, t=stage, n=count: again(s, t, n), device, 3) / count
                    least = needs(stage, kind)
                    row = {
                        "system": system,
                        "precision": precision,
                        "batch": batch,
                        "step_microseconds": 1e6 * taken,
                        "memory_share": least["bytes"] / limits["bytes_per_second"] / taken,
                        "compute_share": least["operations"] / limits["operations_per_second"] / taken,
                        **least,
                        **limits,
                        **profile(lambda s=steps, t=stage: again(s, t, 1), device),
                        "encoder": [profile(action, device) for action in encoders(steps)],
                    }
                    rows.append(row)
                    shares = f"memory {100 * row['memory_share']:.1f} %, compute {100 * row['compute_share']:.1f} %"
                    print(f"{precision} batch {batch} {system}: {1e6 * taken:.0f} µs a step, {shares}", flush=True)
                    for part in (row, *row["encoder"]):
                        print(
                            f"  {part['kernels']} kernels, µs idle {part['idle']:.0f}, {part['microseconds']}",
                            flush=True,
                        )
    if options.output:
        report = {"arguments": arguments(options.output), "processor": machine(options.device), "results": rows}
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
