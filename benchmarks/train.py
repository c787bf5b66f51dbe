"""Trainer speed: milliseconds per step and target tokens per second of every system, beside torch's own Transformer.

    python benchmarks/train.py                     # on a GPU: Transformer-base, batches of 32,768 tokens
    python benchmarks/train.py --tiny --device cpu # the same code at a size for a CPU
    python benchmarks/train.py --profile copy      # where the time of one system goes
    python benchmarks/train.py --config configs/de-en.toml         # batches of a prepared corpus
    python benchmarks/train.py --config configs/de-en.toml --live  # and built, copied and clipped as in training

Batches are random but shaped as real ones are: five widths, 88 % of the target tokens real, about four constraint
tokens a sentence. With `--config` they are real ones, the first `REAL_BATCHES` of an epoch, which wait on the device;
`--live` takes them from the stream that training uses, and clips gradients. So the three ways tell apart what real
shapes and ids cost, and what feeding them costs. "host" is the time until all work of a step has been handed to the
GPU; where it is close to the whole, the processor is what limits speed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from termweave import storage
from termweave.config import ModelConfig, load_config
from termweave.data.batches import Batch, lay_out_constraints
from termweave.data.corpus import PreparedCorpus
from termweave.data.stream import BatchStream, Weighting
from termweave.model.transformer import Transformer
from termweave.training.objective import Objective

SYSTEMS: dict[str, dict[str, object]] = {
    "vanilla": {"attention": False, "output": False},
    "paper": {"variant": "paper"},
    "released": {"variant": "released"},
    "copy": {"variant": "copy"},
}
WIDTHS = (16, 24, 32, 40, 64)
REAL_SHARE = 0.88
REAL_BATCHES = 60
PADDING, FIRST_WORD = 0, 10


def make_batch(width: int, tokens: int, vocabulary: int, constrained: bool, random: np.random.Generator) -> Batch:
    rows = max(tokens // width, 1)
    lengths = random.integers(int(width * (2 * REAL_SHARE - 1)), width + 1, rows)
    target = random.integers(FIRST_WORD, vocabulary, (rows, width))
    target[np.arange(width) >= lengths[:, None]] = PADDING
    source = random.integers(FIRST_WORD, vocabulary, (rows, width))
    weights = (target != PADDING).astype(np.float32)
    constraints = None
    if constrained:
        per_sentence = random.integers(0, 4, rows)
        sides = []
        for _ in range(2):
            sizes = random.integers(1, 5, int(per_sentence.sum()))
            sides.append((random.integers(FIRST_WORD, vocabulary, int(sizes.sum())), sizes))
        constraints = lay_out_constraints(sides[0], sides[1], per_sentence, PADDING)
    return Batch(
        source=torch.from_numpy(source),
        target_input=torch.from_numpy(np.roll(target, 1, axis=1)),
        target=torch.from_numpy(target),
        weights=torch.from_numpy(weights),
        constraints=constraints,
        tokens=int(weights.sum()),
        weight=float(weights.sum()),
    )


def open_stream(options: argparse.Namespace, constrained: bool) -> BatchStream:
    config = load_config(options.config)
    corpus = PreparedCorpus.open(Path(config.data.folder))
    weighting = Weighting(constraints=constrained)
    return BatchStream(
        corpus.directions,
        corpus.subwords,
        batch_tokens=options.tokens,
        seed=1,
        sampling=config.sampling,
        weighting=weighting,
    )


class Peer(nn.Module):
    """torch.nn.Transformer with shared embeddings and the same loss: what one would write without a toolkit."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.dimension)
        self.transformer = nn.Transformer(
            config.dimension,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.feed_forward,
            config.dropout,
            batch_first=True,
        )

    def compile_parts(self) -> None:
        for layer in (*self.transformer.encoder.layers, *self.transformer.decoder.layers):
            layer.compile(dynamic=True)

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        causal = nn.Transformer.generate_square_subsequent_mask(batch.target.shape[1], device=batch.target.device)
        states = self.transformer(
            self.embedding(batch.source),
            self.embedding(batch.target_input),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=batch.source == PADDING,
            memory_key_padding_mask=batch.source == PADDING,
        )
        logits = nn.functional.linear(states, self.embedding.weight).flatten(0, 1)
        losses = nn.functional.cross_entropy(
            logits.float(), batch.target.flatten(), label_smoothing=0.1, reduction="none"
        )
        loss = (losses * batch.weights.flatten()).sum()
        return loss, loss.detach()


class Runner:
    """One system with its optimiser and batches."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        sizes = {"dimension": 64, "heads": 2, "encoder_layers": 2, "decoder_layers": 2, "feed_forward": 128}
        settings = {**(sizes if options.tiny else {}), **SYSTEMS.get(name, SYSTEMS["vanilla"])}
        config = ModelConfig(**settings)  # type: ignore[arg-type]
        constrained = name in SYSTEMS and name != "vanilla"
        stream = open_stream(options, constrained) if options.config else None
        vocabulary = stream.subwords.size if stream else 1000 if options.tiny else 32000
        padding = stream.subwords.pad if stream else PADDING
        self.device = torch.device(options.device)
        self.module: Peer | Objective
        if name == "torch.nn":
            self.module = Peer(config, vocabulary).to(self.device)
        else:
            self.module = Objective(Transformer(config, vocabulary, padding).to(self.device), 0.1)
        if options.compile:
            self.module.compile_parts()
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=1e-5, fused=self.device.type == "cuda")
        self.parameters = list(self.module.parameters())
        self.clips = options.live
        self.feed: Iterator[Batch]
        if stream and options.live:
            self.feed = stream.batches(0, pinned=self.device.type == "cuda")
            return
        random = np.random.default_rng(1)
        batches = (make_batch(width, options.tokens, vocabulary, constrained, random) for width in WIDTHS)
        if stream:
            planned = itertools.islice(stream.planned(0), REAL_BATCHES)
            batches = (stream.build(plan, epoch) for epoch, plan in planned)
        self.feed = itertools.cycle([batch.to(self.device) for batch in batches])

    def step(self) -> int:
        batch = next(self.feed).to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            loss, _ = self.module(batch)
        (loss / batch.weight).backward()
        if self.clips:
            nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return batch.tokens

    def round(self, steps: int) -> tuple[float, float, int]:
        """Seconds in all, seconds of the host, tokens."""
        self.wait()
        started = time.perf_counter()
        tokens = sum(self.step() for _ in range(steps))
        handed_over = time.perf_counter() - started
        self.wait()
        return time.perf_counter() - started, handed_over, tokens

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def measure(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    runners = {name: Runner(name, options) for name in options.systems}
    for runner in runners.values():
        runner.round(2 * len(WIDTHS))  # compilation, allocator, caches
    rounds: dict[str, list[tuple[float, float, int]]] = {name: [] for name in runners}
    for _ in range(options.rounds):  # interleaved, so that a slow moment hits all alike
        for name, runner in runners.items():
            rounds[name].append(runner.round(options.steps))
    result = {}
    for name, measured in rounds.items():
        seconds, host, tokens = sorted(measured)[len(measured) // 2]
        result[name] = {
            "ms_per_step": round(1000 * seconds / options.steps, 2),
            "host_ms_per_step": round(1000 * host / options.steps, 2),
            "tokens_per_second": round(tokens / seconds),
        }
    base = result[options.systems[0]]["tokens_per_second"]
    for entry in result.values():
        entry["ratio"] = round(entry["tokens_per_second"] / base, 3)
    return result


def profile(name: str, options: argparse.Namespace) -> None:
    runner = Runner(name, options)
    runner.round(2 * len(WIDTHS))
    with torch.profiler.profile() as recorded:
        runner.round(len(WIDTHS))
    key = "self_cuda_time_total" if runner.device.type == "cuda" else "self_cpu_time_total"
    print(recorded.key_averages().table(sort_by=key, row_limit=30, max_name_column_width=60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*SYSTEMS, "torch.nn"]
    parser.add_argument("--systems", nargs="+", default=names, choices=names)
    parser.add_argument("--tokens", type=int, default=32768, help="target tokens a batch, padding included")
    parser.add_argument("--steps", type=int, default=20, help="steps a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--tiny", action="store_true", help="small model and vocabulary, for a CPU")
    parser.add_argument("--config", type=Path, help="a configuration whose prepared corpus gives the batches")
    parser.add_argument("--live", action="store_true", help="with --config: build, copy and clip as training does")
    parser.add_argument("--profile", metavar="SYSTEM")
    parser.add_argument("--output", type=Path, help="write the table as JSON too")
    options = parser.parse_args()
    if options.live and not options.config:
        parser.error("--live needs --config")
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(False)
    if options.profile:
        profile(options.profile, options)
        return
    result = measure(options)
    print(f"{'system':10} {'ms/step':>9} {'host ms':>9} {'tokens/s':>10} {'ratio':>6}")
    for name, row in result.items():
        print(
            f"{name:10} {row['ms_per_step']:9.2f} {row['host_ms_per_step']:9.2f} "
            f"{row['tokens_per_second']:10,.0f} {row['ratio']:6.3f}"
        )
    if options.output:
        storage.write_json(options.output, {"tokens": options.tokens, "device": options.device, "systems": result})


if __name__ == "__main__":
    main()
