"""Termweave itself behind the protocol of problem.py: the same weights, the same sentences.

    echo '{"batch": 32, "beam": 4, "length": 25, "rounds": 1, "seed": 5}' | python ours.py

The plain Transformer and the plain search: constraints are refused.
"""

from __future__ import annotations

import argparse

import torch
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
from termweave.decoding.beam import Marks, SearchOptions, beam_search
from termweave.model.transformer import Transformer

# Where the parts of a layer stand in the weights of problem.py, and in ours.
ENCODER = {"self_attn": "attention"}
DECODER = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}


def build_model() -> Transformer:
    config = ModelConfig(
        dimension=DIMENSION,
        heads=HEADS,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        feed_forward=FEED_FORWARD,
        dropout=0.0,
        norm="post",
        attention=False,
        output=False,
    )
    with torch.device("meta"):  # no time for random weights that are thrown away
        names = Transformer(config, VOCABULARY, PADDING).state_dict().keys()
    model = Transformer(config, VOCABULARY, PADDING)
    weights = our_weights(make_weights())
    if weights.keys() != names:
        raise RuntimeError(f"weights without a place: {sorted(weights.keys() ^ names)[:3]}")
    model.load_state_dict(weights)
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


class Engine:
    """A model on its device, and how often its decoder was called."""

    def __init__(self, device: str, precision: str) -> None:
        self.device = torch.device(device)
        self.model = build_model().to(self.device)
        self.model.use_precision(precision)
        self.calls = 0
        self._step = self.model.step
        self.model.step = self._count  # type: ignore[method-assign]

    def _count(self, *arguments: object) -> Tensor:
        self.calls += 1
        return self._step(*arguments)  # type: ignore[arg-type]

    def prepare(self, request: Request, problem: Problem) -> Decode:
        if request.constraints:
            raise ValueError("the plain search takes no constraints")
        sources = torch.tensor(problem.sources, device=self.device)
        limits = torch.full((request.batch,), request.length, device=self.device)
        # No end mark, and the outputs cut at the limit: exactly `length` steps.
        marks = Marks(BEGIN, END, never=(PADDING, BEGIN, END))
        options = SearchOptions(request.beam, max_length=request.length, cut=True)
        self.wait()

        @torch.inference_mode()
        def decode() -> Decoded:
            self.calls = 0
            memory = self.model.decoder_memory(self.model.encode(sources))
            found = beam_search(self.model, memory, limits, marks, options)
            self.wait()
            return Decoded([list(hypotheses[0].tokens) for hypotheses in found], self.calls)

        return decode

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16", "int8"])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.device == "cuda":
        torch.set_float32_matmul_precision("high")
    version = f"termweave {termweave.__version__}, torch {torch.__version__}, {options.precision}"
    serve(version, Engine(options.device, options.precision).prepare)


if __name__ == "__main__":
    main()
