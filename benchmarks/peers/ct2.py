"""CTranslate2 as a peer, on the CPU, behind the protocol of problem.py.

    echo '{"batch": 32, "beam": 4, "length": 25, "rounds": 1, "seed": 5}' | python ct2.py --compute-type int8

The model is described with CTranslate2's own specification, in the layout its converter for Marian models produces, so
that neither transformers nor torch is needed. There is no constrained search; a request for constraints fails.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec
from problem import (
    BEGIN,
    DIMENSION,
    END,
    HEADS,
    LAYERS,
    UNKNOWN,
    VOCABULARY,
    Array,
    Decode,
    Decoded,
    Problem,
    Request,
    make_weights,
    serve,
    sinusoidal_positions,
)


class Specification:
    """The weights of problem.py as a CTranslate2 model."""

    def __init__(self) -> None:
        self.weights = make_weights()

    def build(self) -> TransformerSpec:
        result = TransformerSpec.from_config(LAYERS, HEADS, pre_norm=False)
        embedding = self.weights["model.shared.weight"]
        for part, embeddings in ((result.encoder, result.encoder.embeddings[0]), (result.decoder, None)):
            (embeddings or part.embeddings).weight = embedding
            part.scale_embeddings = float(DIMENSION) ** 0.5
            part.position_encodings.encodings = sinusoidal_positions()
        result.decoder.projection.weight = embedding
        for side, part in (("encoder", result.encoder), ("decoder", result.decoder)):
            for number, layer in enumerate(part.layer):
                self._set_layer(layer, f"model.{side}.layers.{number}", side == "decoder")
        self._set_vocabulary(result)
        return result

    def _set_layer(self, layer: Any, name: str, with_cross_attention: bool) -> None:
        own = f"{name}.self_attn"
        self._set_linear(layer.self_attention.linear[0], *(f"{own}.{part}_proj" for part in "qkv"))
        self._set_linear(layer.self_attention.linear[1], f"{own}.out_proj")
        self._set_norm(layer.self_attention.layer_norm, f"{own}_layer_norm")
        if with_cross_attention:
            cross = f"{name}.encoder_attn"
            self._set_linear(layer.attention.linear[0], f"{cross}.q_proj")
            self._set_linear(layer.attention.linear[1], f"{cross}.k_proj", f"{cross}.v_proj")
            self._set_linear(layer.attention.linear[2], f"{cross}.out_proj")
            self._set_norm(layer.attention.layer_norm, f"{cross}_layer_norm")
        self._set_linear(layer.ffn.linear_0, f"{name}.fc1")
        self._set_linear(layer.ffn.linear_1, f"{name}.fc2")
        self._set_norm(layer.ffn.layer_norm, f"{name}.final_layer_norm")

    def _set_linear(self, linear: Any, *names: str) -> None:
        linear.weight = self._joined(names, "weight")
        linear.bias = self._joined(names, "bias")

    def _joined(self, names: tuple[str, ...], kind: str) -> Array:
        return np.concatenate([self.weights[f"{name}.{kind}"] for name in names])

    def _set_norm(self, norm: Any, name: str) -> None:
        norm.gamma = self.weights[f"{name}.weight"]
        norm.beta = self.weights[f"{name}.bias"]

    def _set_vocabulary(self, specification: TransformerSpec) -> None:
        """CTranslate2 translates strings: every token is its number, written out."""
        tokens = [str(number) for number in range(VOCABULARY)]
        specification.register_source_vocabulary(tokens)
        specification.register_target_vocabulary(tokens)
        specification.config.bos_token = str(BEGIN)
        specification.config.decoder_start_token = str(BEGIN)
        specification.config.eos_token = str(END)
        specification.config.unk_token = str(UNKNOWN)
        specification.config.layer_norm_epsilon = 1e-5


def load(compute_type: str, threads: int) -> ctranslate2.Translator:
    specification = Specification().build()
    specification.validate()
    specification.optimize()
    with tempfile.TemporaryDirectory() as folder:
        specification.save(folder)
        return ctranslate2.Translator(
            folder, device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads
        )


class Engine:
    def __init__(self, compute_type: str, threads: int) -> None:
        self.translator = load(compute_type, threads)
        if self.translator.compute_type not in (compute_type, f"{compute_type}_float32"):
            raise RuntimeError(f"asked for {compute_type}, this processor has {self.translator.compute_type}")

    def prepare(self, request: Request, problems: list[Problem]) -> Decode:
        if request.constraints:
            raise ValueError("CTranslate2 has no constrained search")
        batches = [[[str(token) for token in source] for source in problem.sources] for problem in problems]

        def decode_one(sources: list[list[str]]) -> Decoded:
            results = self.translator.translate_batch(
                sources,
                beam_size=request.beam,
                min_decoding_length=request.length,  # no end mark before the limit, so that no sentence leaves early
                max_decoding_length=request.length,
            )
            outputs = [[int(token) for token in result.hypotheses[0]] for result in results]
            return Decoded(outputs, request.length)  # it does not say; the length it kept to is its number of steps

        return lambda: [decode_one(sources) for sources in batches]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compute-type", default="float32", choices=["float32", "int8"])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    engine = Engine(options.compute_type, options.threads)
    serve(f"ctranslate2 {ctranslate2.__version__}, {options.compute_type}", engine.prepare)


if __name__ == "__main__":
    main()
