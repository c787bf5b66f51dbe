"""Marian's Transformer and beam search once more, as plainly as they can be written: one sentence, no cache, doubles.

It shares nothing with the code under test but torch, and works on a checkpoint's own names and files.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda states: states.clamp(min=0),
    "swish": lambda states: states / (1 + (-states).exp()),
    "gelu": lambda states: states * (1 + torch.erf(states / math.sqrt(2))) / 2,
}


class Reference:
    def __init__(self, settings: dict[str, Any], weights: dict[str, Tensor]) -> None:
        self.settings = settings
        self.weights = {name: tensor.double() for name, tensor in weights.items()}

    def linear(self, name: str, states: Tensor) -> Tensor:
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, states: Tensor) -> Tensor:
        centred = states - states.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, name: str, states: Tensor, others: Tensor, causal: bool) -> Tensor:
        queries, keys, values = (
            self.linear(f"{name}.{part}_proj", seen) for part, seen in (("q", states), ("k", others), ("v", others))
        )
        width = states.shape[-1] // self.settings["encoder_attention_heads"]
        heads = []
        for start in range(0, states.shape[-1], width):
            part = slice(start, start + width)
            scores = queries[:, part] @ keys[:, part].T / math.sqrt(width)
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
            heads.append(scores.softmax(-1) @ values[:, part])
        return self.linear(f"{name}.out_proj", torch.cat(heads, -1))

    def feed_forward(self, name: str, states: Tensor) -> Tensor:
        inner = ACTIVATIONS[self.settings["activation_function"]](self.linear(f"{name}.fc1", states))
        return self.norm(f"{name}.final_layer_norm", states + self.linear(f"{name}.fc2", inner))

    def embedding(self, side: str) -> Tensor:
        shared = self.weights.get("model.shared.weight")
        return self.weights[f"model.{side}.embed_tokens.weight"] if shared is None else shared

    def embed(self, side: str, ids: list[int]) -> Tensor:
        dimension = self.settings["d_model"]
        scale = math.sqrt(dimension) if self.settings["scale_embedding"] else 1.0
        half = dimension // 2
        positions = [
            [math.sin(place / 10000 ** (2 * i / dimension)) for i in range(half)]
            + [math.cos(place / 10000 ** (2 * i / dimension)) for i in range(half)]
            for place in range(len(ids))
        ]
        return self.embedding(side)[ids] * scale + torch.tensor(positions).double()

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """(length, vocabulary) after each token of the target, which begins with the start token."""
        seen = self.embed("encoder", source)
        for layer in range(self.settings["encoder_layers"]):
            name = f"model.encoder.layers.{layer}"
            attended = self.attention(f"{name}.self_attn", seen, seen, causal=False)
            seen = self.feed_forward(name, self.norm(f"{name}.self_attn_layer_norm", seen + attended))
        states = self.embed("decoder", target)
        for layer in range(self.settings["decoder_layers"]):
            name = f"model.decoder.layers.{layer}"
            attended = self.attention(f"{name}.self_attn", states, states, causal=True)
            states = self.norm(f"{name}.self_attn_layer_norm", states + attended)
            attended = self.attention(f"{name}.encoder_attn", states, seen, causal=False)
            states = self.norm(f"{name}.encoder_attn_layer_norm", states + attended)
            states = self.feed_forward(name, states)
        return states @ self.embedding("decoder").T + self.weights["final_logits_bias"]

    def beam_search(self, source: list[int], beam: int, limit: int) -> list[tuple[list[int], float]]:
        """Finished outputs, best first, with their log P per token; padding is never produced.

        It ends when `beam` outputs are finished and the best open one, were it to end now, would not be among them.
        """
        end, begin = self.settings["eos_token_id"], self.settings["decoder_start_token_id"]
        opened: list[tuple[list[int], float]] = [([], 0.0)]
        finished: list[tuple[list[int], float]] = []
        for length in range(1, limit + 1):
            found = []
            for tokens, score in opened:
                logs = self.logits(source, [begin, *tokens])[-1].log_softmax(-1)
                logs[self.settings["pad_token_id"]] = -math.inf
                found += [([*tokens, token], score + log) for token, log in enumerate(logs.tolist())]
            found = sorted(found, key=lambda item: -item[1])[: 2 * beam]
            finished += [(tokens[:-1], score / length) for tokens, score in found[:beam] if tokens[-1] == end]
            finished = sorted(finished, key=lambda item: -item[1])[:beam]
            opened = [item for item in found if item[0][-1] != end][:beam]
            if len(finished) == beam and finished[-1][1] >= opened[0][1] / (length + 1):
                return finished
        raise AssertionError("outputs run to the limit; give the end mark a larger bias")
