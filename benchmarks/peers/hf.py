"""Hugging Face transformers as a peer: MarianMTModel and its `generate`, behind the protocol of problem.py.

    echo '{"batch": 32, "beam": 4, "length": 25, "constraints": 0, "rounds": 1, "seed": 5}' | python hf.py

`constraints` needs a version 4: version 5 has no constrained search any more. A call of `generate` takes one list of
constraints for all its sentences, so sentences with constraints of their own are decoded one by one; `"shared": true`
measures the batched search instead, with the same constraints for every sentence.
"""

from __future__ import annotations

import argparse

import torch
import transformers
from problem import (
    BEGIN,
    DIMENSION,
    END,
    FEED_FORWARD,
    HEADS,
    LAYERS,
    PADDING,
    POSITIONS,
    VOCABULARY,
    Decode,
    Decoded,
    Problem,
    Request,
    make_weights,
    serve,
    sinusoidal_positions,
)
from torch import Tensor
from transformers import GenerationConfig, MarianConfig, MarianMTModel

Group = tuple[Tensor, list[list[int]]]  # sentences, and the constraints all of them have


def build_model() -> MarianMTModel:
    """Transformer-base with shared embeddings and the weights of problem.py."""
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=DIMENSION,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=FEED_FORWARD,
        decoder_ffn_dim=FEED_FORWARD,
        activation_function="relu",
        max_position_embeddings=POSITIONS,
        scale_embedding=True,
        pad_token_id=PADDING,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)
    positions = torch.from_numpy(sinusoidal_positions())
    weights = {name: torch.from_numpy(value) for name, value in make_weights().items()}
    for name, parameter in model.named_parameters():
        parameter.data.copy_(positions if "embed_positions" in name else weights.pop(name))
    if weights:
        raise RuntimeError(f"{sorted(weights)[0]} has no place in the model")
    return model.eval()


def generation_config(request: Request) -> GenerationConfig:
    return GenerationConfig(
        num_beams=request.beam,
        min_new_tokens=request.length,  # no end mark before the limit, so that no sentence leaves early
        max_new_tokens=request.length,
        do_sample=False,
        pad_token_id=PADDING,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
    )


class Engine:
    """A model on its device, and how often its decoder was called."""

    def __init__(self, device: str, dtype: str) -> None:
        self.device = torch.device(device)
        self.model = build_model().to(device=self.device, dtype=getattr(torch, dtype))
        self.calls = 0
        self.model.model.decoder.register_forward_hook(self._count)

    def _count(self, *_: object) -> None:
        self.calls += 1

    def prepare(self, request: Request, problems: list[Problem]) -> Decode:
        config = generation_config(request)
        # Otherwise `generate` fills what the configuration leaves open with the model's own.
        self.model.generation_config = config
        batches = [self._groups(request, problem) for problem in problems]
        self.wait()

        def decode_one(groups: list[Group]) -> Decoded:
            self.calls = 0
            outputs = [row for source, phrases in groups for row in self._generate(source, phrases, config)]
            self.wait()
            return Decoded(outputs, self.calls // len(groups))

        return lambda: [decode_one(groups) for groups in batches]

    def _groups(self, request: Request, problem: Problem) -> list[Group]:
        """What one call of `generate` can take at a time."""
        sources = torch.tensor(problem.sources, device=self.device)
        if request.constraints and not request.shared:
            return list(zip(sources.split(1), problem.constraints, strict=True))
        return [(sources, problem.constraints[0])]

    def _generate(self, sources: Tensor, phrases: list[list[int]], config: GenerationConfig) -> list[list[int]]:
        """sources: (batch, length), none padded. The begin mark is taken off."""
        options: dict[str, object] = {}
        if phrases:
            from transformers import PhrasalConstraint

            options["constraints"] = [PhrasalConstraint(phrase) for phrase in phrases]
        mask = torch.ones_like(sources)
        with torch.inference_mode():
            output = self.model.generate(sources, attention_mask=mask, generation_config=config, **options)
        rows: list[list[int]] = output[:, 1:].tolist()
        return rows

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.device == "cuda":
        torch.set_float32_matmul_precision("high")
    transformers.logging.set_verbosity_error()
    serve(
        f"transformers {transformers.__version__}, torch {torch.__version__}",
        Engine(options.device, options.dtype).prepare,
    )


if __name__ == "__main__":
    main()
