"""Multi-head attention with keys and values that can be computed apart from the queries.

Keys and values of the encoder output and of the constraints depend on the sentence alone, so decoding computes them
once; that is why projecting and attending are two methods here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn


class KeysValues(NamedTuple):
    """Projected keys and values, each (batch, heads, length, d / heads)."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """attn(Q, K, V) of Vaswani et al. (2017)."""

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dimension, dimension)
        self.key = nn.Linear(dimension, dimension)
        self.value = nn.Linear(dimension, dimension)
        self.output = nn.Linear(dimension, dimension)

    def split(self, states: Tensor) -> Tensor:
        """(batch, length, d) → (batch, heads, length, d / heads)."""
        batch, length, dimension = states.shape
        return states.view(batch, length, self.heads, dimension // self.heads).transpose(1, 2)

    def project(self, states: Tensor) -> KeysValues:
        """Keys and values of `states` (batch, length, d)."""
        return KeysValues(self.split(self.key(states)), self.split(self.value(states)))

    def forward(self, queries: Tensor, memory: KeysValues, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Attend from `queries` (batch, length, d); mask (batch, 1, 1 or length, keys) is True for visible keys."""
        attended = F.scaled_dot_product_attention(
            self.split(self.query(queries)), memory.keys, memory.values, attn_mask=mask, is_causal=causal
        )
        result: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return result
