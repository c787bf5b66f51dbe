"""Does the search give on this GPU what it gives on the CPU? Recorded steps and our kernels against plain operations.

    python benchmarks/decode_agree.py --device cuda

The weights are random, so the best scores lie close together and rounding alone may turn a sentence; more than a few
sentences that differ mean a mistake. Products are exact float32 here, not TF32.
"""

from __future__ import annotations

import argparse
import sys

import torch

from decode import PEERS

sys.path.append(str(PEERS))
import ours
from problem import Request, make_problem

from decode_limits import SYSTEMS

BEAM = 4


def outputs(device: str, model: str, search: str, request: Request) -> list[list[int]]:
    engine = ours.Engine(argparse.Namespace(device=device, precision="float32", model=model, search=search))
    decode = engine.prepare(request, [make_problem(request, request.seed)])
    decode()  # a GPU records its steps
    return decode()[0].outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=20)
    options = parser.parse_args()
    for name, (model, search, constraints) in SYSTEMS.items():
        request = Request(options.batch, BEAM, options.length, constraints, seed=7)
        expected = outputs("cpu", model, search, request)
        found = outputs(options.device, model, search, request)
        same = sum(a == b for a, b in zip(expected, found, strict=True))
        print(f"{name}: {same} of {options.batch} sentences the same", flush=True)


if __name__ == "__main__":
    torch.set_float32_matmul_precision("highest")
    main()
