"""How much the builder of batches gets in the way of the training thread.

    python benchmarks/feed.py configs/de-en.toml   # a configuration whose corpus is prepared

A training thread hands thousands of small pieces of work to the GPU in every step, and needs the interpreter's lock for
each. Here many tiny operations on the CPU stand for them: so many that a step takes `--step` milliseconds of processor
time. "late" is what a step takes beyond its own processor time, waiting for the next batch included, in the median;
without a feed it shows what else the machine is doing. "build" is the processor time of one batch, in whichever thread.
Before that it says how well the batches of the first epoch are filled, which needs no quiet machine (`--rounds 0`).
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from termweave.config import load_config
from termweave.data.corpus import PreparedCorpus
from termweave.data.stream import BatchStream, Weighting

QUEUE = 8  # batches that are ready before the first step


def open_streams(path: Path, tokens: int) -> dict[str, BatchStream]:
    config = load_config(path)
    corpus = PreparedCorpus.open(Path(config.data.folder))
    return {
        name: BatchStream(
            corpus.directions,
            corpus.subwords,
            batch_tokens=tokens or config.training.batch_tokens,
            seed=1,
            sampling=config.sampling,
            weighting=Weighting(constraints=constraints),
        )
        for name, constraints in (("stage 1", False), ("stage 2", True))
    }


def filling(stream: BatchStream) -> str:
    """How many target tokens a batch has, and what share of all places of both languages is no padding."""
    batches = target = real = places = 0
    for epoch, plan in itertools.takewhile(lambda planned: planned[0] == 0, stream.planned(0)):
        batch = stream.build(plan, epoch)
        batches += 1
        target += batch.tokens
        real += batch.tokens + int((batch.source != stream.subwords.pad).sum())
        places += batch.target.numel() + batch.source.numel()
    return f"{batches} batches an epoch, {target / batches:,.0f} target tokens each; {real / places:.1%} is no padding"


def build_time(stream: BatchStream, batches: int) -> float:
    """Milliseconds of processor time a batch, after a first round that brings the corpus into memory."""
    planned = list(itertools.islice(stream.planned(0), batches))
    for _ in range(2):
        started = time.thread_time()
        for epoch, plan in planned:
            stream.build(plan, epoch)
    return 1000 * (time.thread_time() - started) / batches


def work(seconds: float) -> None:
    """Tiny operations until this thread has had so much processor time."""
    value = torch.zeros(4)
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(20):
            value = value + 1


def late(feed: Iterator[object], steps: int, seconds: float) -> list[float]:
    """For each step, milliseconds beyond the processor time of this thread."""
    time.sleep(0.5)  # the queue fills up
    result = []
    for _ in range(steps + QUEUE):
        started, used = time.perf_counter(), time.thread_time()
        next(feed)
        work(seconds)
        result.append(1000 * (time.perf_counter() - started - (time.thread_time() - used)))
    return result[QUEUE:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--tokens", type=int, default=0, help="tokens a batch; 0: as in the configuration")
    parser.add_argument("--step", type=float, default=45.0, help="milliseconds of work a step")
    parser.add_argument("--steps", type=int, default=20, help="steps a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    streams = open_streams(options.config, options.tokens)
    print(filling(streams["stage 1"]))
    if not options.rounds:
        return
    built = {name: build_time(stream, 100) for name, stream in streams.items()}
    feeds: dict[str, Iterator[object]] = {"none": itertools.repeat(None)}
    feeds |= {name: stream.batches(0) for name, stream in streams.items()}
    measured: dict[str, list[float]] = {name: [] for name in feeds}
    for _ in range(options.rounds):  # interleaved, so that a slow moment hits all alike
        for name, feed in feeds.items():
            measured[name] += late(feed, options.steps, options.step / 1000)
    print(f"{'feed':8} {'build ms':>9} {'late ms':>8} {'late %':>7}")
    for name, values in measured.items():
        median = statistics.median(values)
        print(f"{name:8} {built.get(name, 0.0):9.2f} {median:8.2f} {100 * median / options.step:7.1f}")


if __name__ == "__main__":
    main()
