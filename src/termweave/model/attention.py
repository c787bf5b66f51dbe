"""Multi-head attention with keys and values that can be computed apart from the queries.

Keys and values of the encoder output and of the constraints depend on the sentence alone, so decoding computes them
once; that is why projecting and attending are separate methods here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from termweave.model.products import Linear


class KeysValues(NamedTuple):
    """Projected keys and values, each (batch, heads, length, d / heads)."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """attn(Q, K, V) of Vaswani et al. (2017). The three input projections are one matrix: fewer, larger products."""

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        self.dimension = dimension
        self.heads = heads
        self.input = Linear(dimension, 3 * dimension)  # rows: queries, keys, values
        self.output = Linear(dimension, dimension)

    def initialise(self) -> None:
        """Xavier for each of the three projections by itself, as if they were three matrices."""
        for part in (*self.input.weight.data.chunk(3), self.output.weight.data):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.input.bias)
        nn.init.zeros_(self.output.bias)

    def split(self, states: Tensor) -> Tensor:
        """(batch, length, d) → (batch, heads, length, d / heads)."""
        batch, length, dimension = states.shape
        return states.view(batch, length, self.heads, dimension // self.heads).transpose(1, 2)

    def queries(self, states: Tensor) -> Tensor:
        return self.split(self.input.part(states, 0, self.dimension))

    def project(self, states: Tensor) -> KeysValues:
        """Keys and values of `states` (batch, length, d)."""
        both = self.input.part(states, self.dimension, 3 * self.dimension)
        keys, values = both.chunk(2, dim=-1)
        return KeysValues(self.split(keys), self.split(values))

    def project_all(self, states: Tensor) -> tuple[Tensor, KeysValues]:
        """Queries, keys and values of the same states, for self-attention."""
        queries, keys, values = self.input(states).chunk(3, dim=-1)
        return self.split(queries), KeysValues(self.split(keys), self.split(values))

    def forward(self, queries: Tensor, memory: KeysValues, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Attend from projected queries; mask (batch, 1, 1 or length, keys) is True for visible keys."""
        attended = F.scaled_dot_product_attention(queries, memory.keys, memory.values, attn_mask=mask, is_causal=causal)
        result: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return result
