"""Constraints as vectors: eq. kv-attn (vectorise) and eqs. enc-adapt, dec-adapt (adapt per layer).

Two forms of the adaptation exist. `paper`: Linear–ReLU–Linear, put before the attention's own key and value
projections, as the equations say. `released`: the authors' code, a residual GELU network with layer normalisation
whose result stands beside the projected keys and values.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.data.batches import ConstraintSide, ConstraintTensors
from termweave.model.attention import KeysValues, MultiHeadAttention


class ConstraintVectors(NamedTuple):
    """K_c and V_c of a batch, flat: (constraint tokens, d) each, with the place of each token."""

    keys: Tensor
    values: Tensor
    side: ConstraintSide


class Vectorisation(nn.Module):
    """K_c = S, V_c = attn(S, T, T), each constraint for itself. One layer, shared by encoder and decoder."""

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(dimension, heads)

    def forward(self, source: Tensor, target: Tensor, constraints: ConstraintTensors) -> ConstraintVectors:
        """source, target: embedded constraint tokens with their positions, flat, (tokens, d)."""
        # Only tokens of the same constraint see each other. An empty slot belongs to constraint 0, as the empty
        # target slots do; should a row see nothing at all, it sees everything instead of dividing by zero.
        same = constraints.source.number.unsqueeze(2) == constraints.target.number.unsqueeze(1)
        same = same | ~same.any(dim=2, keepdim=True)
        attended = self.attention(
            constraints.source.pad(source),
            self.attention.project(constraints.target.pad(target)),
            mask=same.unsqueeze(1),
        )
        return ConstraintVectors(source, constraints.source.pack(attended), constraints.source)


class PaperAdapter(nn.Module):
    """adapt(·): two d×d transformations with a ReLU in between."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.inner = nn.Linear(dimension, dimension)
        self.outer = nn.Linear(dimension, dimension)

    def forward(self, vectors: Tensor) -> Tensor:
        result: Tensor = self.outer(F.relu(self.inner(vectors)))
        return result


class ReleasedAdapter(nn.Module):
    """The authors' released form: GELU inside, a residual connection and layer normalisation around it."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.inner = nn.Linear(dimension, dimension)
        self.outer = nn.Linear(dimension, dimension)
        self.norm = nn.LayerNorm(dimension)

    def forward(self, vectors: Tensor) -> Tensor:
        result: Tensor = self.norm(vectors + self.outer(F.gelu(self.inner(vectors))))
        return result


class Adaptation(nn.Module):
    """The constraint keys and values of one layer, ready to stand before the layer's own."""

    def __init__(self, dimension: int, released: bool) -> None:
        super().__init__()
        adapter = ReleasedAdapter if released else PaperAdapter
        self.keys = adapter(dimension)
        self.values = adapter(dimension)
        self.released = released

    def forward(self, vectors: ConstraintVectors, attention: MultiHeadAttention) -> KeysValues:
        keys, values = self.keys(vectors.keys), self.values(vectors.values)
        if not self.released:
            keys, values = attention.key(keys), attention.value(values)
        return KeysValues(attention.split(vectors.side.pad(keys)), attention.split(vectors.side.pad(values)))


def with_constraints(own: KeysValues, extra: KeysValues) -> KeysValues:
    """[constraints; original], along the length."""
    return KeysValues(
        torch.cat([extra.keys.to(own.keys.dtype), own.keys], dim=2),
        torch.cat([extra.values.to(own.values.dtype), own.values], dim=2),
    )
