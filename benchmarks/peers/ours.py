"""Termweave itself behind the protocol of problem.py: the same weights, the same sentences.

echo '{"batch": 32, "beam": 4, "length": 25, "rounds": 1, "seed": 5}' | python ours.py
echo '{"batch": 32, "constraints": 3}' | python ours.py                              # guaranteed by the search
echo '{"batch": 32, "constraints": 3}' | python ours.py --model copy --search beam   # given to the model alone
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from problem import (
    BEGIN,
    DIMENSION,
    END,
    FEED_FORWARD,
    HEADS,
    LAYERS,
    PADDING,
    VOCABULARY,
    Array,
    Decode,
    Decoded,
    Problem,
    Request,
    make_weights,
    serve,
)
from torch import Tensor

import termweave
from termweave.config import ModelConfig
from termweave.data.batches import ConstraintTensors, constraints_from_ids
from termweave.decoding.automaton import Automaton, Demands, Requirement, WordJoins
from termweave.decoding.batching import Early
from termweave.decoding.beam import BeamState, Marks, PlainSteps, SearchOptions, Steps, beam_search
from termweave.decoding.recorded import RecordedSteps
from termweave.decoding.tables import compile_tables
from termweave.model.transformer import Transformer, constraint_parameters

# No end mark, and the outputs cut at the limit: exactly `length` steps.
MARKS = Marks(BEGIN, END, never=(PADDING, BEGIN, END))
WORDS = WordJoins(np.zeros(VOCABULARY, dtype=np.bool_), np.zeros(VOCABULARY, dtype=np.bool_))

Pairs = list[list[tuple[list[int], list[int]]]]  # the constraints of each sentence, source and target ids
LaidOut = tuple[Tensor, ConstraintTensors | None, Automaton | None]  # a batch on the device

# Where the parts of a layer stand in the weights of problem.py, and in ours.
ENCODER = {"self_attn": "attention"}
DECODER = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}


def build_model(variant: str) -> Transformer:
    """`vanilla`, or `copy`: the same, with modules for constraints whose weights are fresh."""
    aware = variant == "copy"
    config = ModelConfig(
        dimension=DIMENSION,
        heads=HEADS,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        feed_forward=FEED_FORWARD,
        dropout=0.0,
        norm="post",
        attention=aware,
        output=aware,
        variant="copy",
    )
    torch.manual_seed(1)
    model = Transformer(config, VOCABULARY, PADDING)
    result = model.load_state_dict(our_weights(make_weights()), strict=False)
    own = constraint_parameters(model)
    if result.unexpected_keys or set(result.missing_keys) != own:
        raise RuntimeError(f"weights without a place: {result}")
    return model.eval()


def our_weights(weights: dict[str, Array]) -> dict[str, Tensor]:
    """From the names of MarianMTModel to ours."""
    theirs = {name: torch.from_numpy(value) for name, value in weights.items()}
    ours = {"embedding": theirs["model.shared.weight"]}
    for side, attentions in (("encoder", ENCODER), ("decoder", DECODER)):
        for layer in range(LAYERS):
            old, new = f"model.{side}.layers.{layer}", f"{side}.{layer}"
            for kind in ("weight", "bias"):
                for theirs_name, name in attentions.items():
                    parts = [theirs[f"{old}.{theirs_name}.{part}_proj.{kind}"] for part in "qkv"]
                    ours[f"{new}.{name}.input.{kind}"] = torch.cat(parts)
                    ours[f"{new}.{name}.output.{kind}"] = theirs[f"{old}.{theirs_name}.out_proj.{kind}"]
                    ours[f"{new}.{name}_residual.norm.{kind}"] = theirs[f"{old}.{theirs_name}_layer_norm.{kind}"]
                ours[f"{new}.feed_forward.inner.{kind}"] = theirs[f"{old}.fc1.{kind}"]
                ours[f"{new}.feed_forward.outer.{kind}"] = theirs[f"{old}.fc2.{kind}"]
                ours[f"{new}.feed_forward_residual.norm.{kind}"] = theirs[f"{old}.final_layer_norm.{kind}"]
    return ours


class CountedSteps:
    """Steps, and how many were taken."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.taken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.steps, name)

    def advance(self, state: BeamState, near_limit: bool) -> None:
        self.taken += 1
        self.steps.advance(state, near_limit)


class Engine:
    """A model on its device, and the steps of its search, which a GPU keeps from one request to the next."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = torch.device(options.device)
        self.guaranteed = options.search == "vdba"
        self.aware = options.model == "copy"
        self.model = build_model(options.model).to(self.device)
        self.model.use_precision(options.precision)
        self.steps: dict[SearchOptions, CountedSteps] = {}

    def prepare(self, request: Request, problems: list[Problem]) -> Decode:
        """Outside the clock: source ids become a tensor, as with all engines, and phrases get the source side that a
        user gives along with them. All that is made of constraints is timed. As `Searcher` does, the next batch is laid
        out while the device is at work on the one before."""
        limits = torch.full((request.batch,), request.length)
        # One guaranteed search; `Translator` spares itself that where a plain one meets everything already.
        options = SearchOptions(request.beam, max_length=request.length, aware=self.aware, cut=True)
        steps = self.steps_for(options)
        spare = steps.width(request.length) - request.length
        sources = [F.pad(torch.tensor(own.sources, device=self.device), (0, spare), value=PADDING) for own in problems]
        pairs = [self.pairs(problem) for problem in problems]
        self.wait()

        def lay_out(number: int) -> LaidOut:
            told = self.told(pairs[number], alike=steps.multiple > 1)
            demands = self.demands(problems[number])
            return sources[number], told, self.automaton(demands, steps.multiple) if demands else None

        def decode_one(batch: LaidOut, meanwhile: Callable[[], None]) -> Decoded:
            steps.taken = 0
            source, told, automaton = batch
            memory = steps.encode(source, told)
            given = (memory, limits, MARKS, options, automaton, steps)
            found = beam_search(self.model, *given, meanwhile=meanwhile)
            return Decoded([list(hypotheses[0].tokens) for hypotheses in found], steps.taken)

        @torch.inference_mode()
        def decode() -> list[Decoded]:
            batches = Early(lay_out(number) for number in range(len(problems)))
            decoded = [decode_one(batch, batches.make) for batch in batches]
            self.wait()
            return decoded

        return decode

    def steps_for(self, options: SearchOptions) -> CountedSteps:
        if options not in self.steps:
            kind = RecordedSteps if self.device.type == "cuda" else PlainSteps
            self.steps = {options: CountedSteps(kind(self.model, MARKS, options))}
        return self.steps[options]

    def pairs(self, problem: Problem) -> Pairs:
        """What the model is told: each phrase stands for the first tokens of the source."""
        if not self.aware:
            return []
        rows = zip(problem.sources, problem.constraints, strict=True)
        return [[(source[: len(phrase)], phrase) for phrase in own] for source, own in rows]

    def told(self, pairs: Pairs, alike: bool) -> ConstraintTensors | None:
        return constraints_from_ids(pairs, PADDING, alike, self.device)

    def demands(self, problem: Problem) -> list[Demands]:
        """What the search guarantees. Every token is a word."""
        if not self.guaranteed or not any(problem.constraints):
            return []
        return [Demands(tuple([Requirement((tuple(phrase),)) for phrase in own])) for own in problem.constraints]

    def automaton(self, demands: list[Demands], multiple: int) -> Automaton:
        return compile_tables(demands, WORDS, multiple, pinned=self.device.type == "cuda").on(self.device)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16", "int8"])
    parser.add_argument("--model", default="vanilla", choices=["vanilla", "copy"])
    parser.add_argument("--search", default="vdba", choices=["vdba", "beam"])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.device == "cuda":
        torch.set_float32_matmul_precision("high")
    version = f"termweave {termweave.__version__}, torch {torch.__version__}, {options.precision}"
    serve(version, Engine(options).prepare)


if __name__ == "__main__":
    main()
