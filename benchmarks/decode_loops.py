"""What the compiled loops of the model's steps gain on a CPU: the same search with them and with torch alone, in turns.

    python benchmarks/decode_loops.py
    python benchmarks/decode_loops.py --tiny

The random Transformer-base of decode.py, one thread: plain search, and `copy` with three guaranteed constraints. A
ratio above 1 says that the loops are faster; it is the median over pairs of searches that follow each other, for the
machine may be faster at one time than at another.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

from decode import processor
from decode_limits import Request, make_problem, ours
from termweave import storage
from termweave.model import attention_loops

OUTPUT = Path("docs/results/decoding/loops.json")
SYSTEMS = {"vanilla": ("beam", 0), "copy": ("vdba", 3)}  # search, constraints


def cpu_seconds(decode: ours.Decode, with_loops: bool) -> float:
    attention_loops.MOST_THREADS = torch.get_num_threads() if with_loops else 0
    started = time.process_time()
    decode()
    return time.process_time() - started


def measure(model: str, precision: str, batch: int, length: int, rounds: int) -> dict[str, object]:
    search, constraints = SYSTEMS[model]
    options = argparse.Namespace(device="cpu", precision=precision, model=model, search=search)
    request = Request(batch=batch, beam=4, length=length, rounds=1, seed=5, constraints=constraints)
    decode = ours.Engine(options).prepare(request, [make_problem(request, request.seed)])
    pairs = [(cpu_seconds(decode, True), cpu_seconds(decode, False)) for _ in range(rounds + 1)][1:]
    ratio = statistics.median(without / with_loops for with_loops, without in pairs)
    print(f"{model}, {precision}, batch {batch}: {ratio:.2f}", flush=True)
    return {"model": model, "precision": precision, "batch": batch, "ratio": ratio, "pairs": pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--precisions", nargs="+", default=["float32", "int8"])
    parser.add_argument("--length", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--tiny", action="store_true", help="does it run? nothing is written")
    options = parser.parse_args()
    if options.tiny:
        options.batches, options.length, options.rounds = [2], 8, 1
    torch.set_num_threads(1)
    rows = [
        measure(model, precision, batch, options.length, options.rounds)
        for model in SYSTEMS
        for precision in options.precisions
        for batch in options.batches
    ]
    if not options.tiny:
        storage.write_json(options.output, {"processor": processor(), "arguments": sys.argv[1:], "rows": rows})


if __name__ == "__main__":
    main()
