"""Encoder and decoder layers, post-norm, as in Vaswani et al. (2017), with room for constraints in the attention."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.config import ModelConfig
from termweave.model.attention import KeysValues, MultiHeadAttention
from termweave.model.vectors import Adaptation, ConstraintVectors, with_constraints


def sinusoidal_positions(length: int, dimension: int) -> Tensor:
    """(length, dimension): sines in the first half, cosines in the second."""
    rates = torch.exp(torch.arange(dimension // 2) * (-math.log(10000.0) / (dimension // 2)))
    angles = torch.arange(length).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.dimension, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.dimension)

    def forward(self, states: Tensor) -> Tensor:
        result: Tensor = self.outer(F.relu(self.inner(states)))
        return result


def _adaptation(config: ModelConfig) -> Adaptation | None:
    return Adaptation(config.dimension, released=config.variant == "released") if config.attention else None


class EncoderLayer(nn.Module):
    """Self-attention over [constraints; sentence], then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.dimension, config.heads)
        self.attention_norm = nn.LayerNorm(config.dimension)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.dimension)
        self.adaptation = _adaptation(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, mask: Tensor, constraints: ConstraintVectors | None) -> Tensor:
        """states (batch, length, d); mask (batch, 1, 1, constraint slots + length)."""
        memory = self.attention.project(states)
        if self.adaptation is not None and constraints is not None:
            memory = with_constraints(memory, self.adaptation(constraints, self.attention))
        states = self.attention_norm(states + self.dropout(self.attention(states, memory, mask)))
        result: Tensor = self.feed_forward_norm(states + self.dropout(self.feed_forward(states)))
        return result


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention over [constraints; encoder output], feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.dimension, config.heads)
        self.self_attention_norm = nn.LayerNorm(config.dimension)
        self.cross_attention = MultiHeadAttention(config.dimension, config.heads)
        self.cross_attention_norm = nn.LayerNorm(config.dimension)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.dimension)
        self.adaptation = _adaptation(config)
        self.dropout = nn.Dropout(config.dropout)

    def memory(self, encoded: Tensor, constraints: ConstraintVectors | None) -> KeysValues:
        """Keys and values of the cross-attention, which stay the same for all steps of a sentence."""
        memory = self.cross_attention.project(encoded)
        if self.adaptation is not None and constraints is not None:
            memory = with_constraints(memory, self.adaptation(constraints, self.cross_attention))
        return memory

    def forward(self, states: Tensor, encoded: Tensor, mask: Tensor, constraints: ConstraintVectors | None) -> Tensor:
        """All positions at once, for training. Padding stands on the right, so the causal order hides it."""
        attended = self.self_attention(states, self.self_attention.project(states), causal=True)
        return self._finish(states, attended, self.memory(encoded, constraints), mask)

    def step(
        self, states: Tensor, past: KeysValues | None, memory: KeysValues, mask: Tensor
    ) -> tuple[Tensor, KeysValues]:
        """One position of every hypothesis: states (batch, beam, d), past (batch · beam, heads, length, d / heads).

        The hypotheses of a sentence stand along the length of the cross-attention's queries, so that keys and values
        of the sentence need no copy per hypothesis.
        """
        batch, beam, dimension = states.shape
        rows = states.reshape(batch * beam, 1, dimension)
        own = self.self_attention.project(rows)
        if past is not None:
            own = KeysValues(torch.cat([past.keys, own.keys], dim=2), torch.cat([past.values, own.values], dim=2))
        attended = self.self_attention(rows, own).view(batch, beam, dimension)
        return self._finish(states, attended, memory, mask), own

    def _finish(self, states: Tensor, attended: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        states = self.self_attention_norm(states + self.dropout(attended))
        states = self.cross_attention_norm(states + self.dropout(self.cross_attention(states, memory, mask)))
        result: Tensor = self.feed_forward_norm(states + self.dropout(self.feed_forward(states)))
        return result
