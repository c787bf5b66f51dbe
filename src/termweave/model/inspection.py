"""What the model looked at while it produced an output: for alignments, for CDAlign, and for pictures.

The output is fed to the decoder once more, all of it at a time. Attention weights are worked out beside the model, from
what its attention layers are given, so that neither training nor search pays for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from termweave.data.batches import ConstraintTensors
from termweave.model.attention import KeysValues, MultiHeadAttention
from termweave.model.transformer import Transformer


@dataclass(frozen=True)
class Inspection:
    """Of a batch of outputs. Every row of [constraints, source] sums to 1 over both."""

    constraints: Tensor  # (batch, layers, heads, output, constraint slots) cross-attention to the constraints
    source: Tensor  # (batch, layers, heads, output, source)
    gates: Tensor  # (batch, output) how far the gate to the constraints was open; 0 where there are none


@torch.no_grad()
def inspect(
    model: Transformer, source: Tensor, target_input: Tensor, target: Tensor, constraints: ConstraintTensors | None
) -> Inspection:
    """source: (batch, length); target_input begins with the begin mark, target ends with the end mark."""
    encoded = model.encode(source, constraints)
    with _watching([layer.cross_attention for layer in model.decoder]) as weights:
        states = model.decode(target_input, encoded)
    attention = torch.stack(weights, dim=1)
    slots = attention.shape[-1] - source.shape[1]
    gates = states.new_zeros(target.shape, dtype=torch.float32)
    if model.output is not None and encoded.output is not None:
        open_gates = model.output.gates(states.float(), target, encoded.output, model.embedding)
        gates = torch.where(encoded.output.constrained[:, None], open_gates, gates)
    return Inspection(attention[..., :slots], attention[..., slots:], gates)


@contextmanager
def _watching(layers: list[MultiHeadAttention]) -> Iterator[list[Tensor]]:
    """The attention weights of each layer, in the order the layers are called."""
    weights: list[Tensor] = []

    def watch(layer: Any, arguments: tuple[Any, ...]) -> None:
        queries, memory, mask = arguments
        weights.append(_weights(queries, memory, mask))

    handles = [layer.register_forward_pre_hook(watch) for layer in layers]
    try:
        yield weights
    finally:
        for handle in handles:
            handle.remove()


def _weights(queries: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
    """(batch, heads, length, keys): what `scaled_dot_product_attention` weighs the values with."""
    scores = queries.float() @ memory.keys.float().mT * queries.shape[-1] ** -0.5
    weights: Tensor = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights
