"""Encoder and decoder layers with room for constraints in the attention."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.config import ModelConfig
from termweave.model.attention import KeysValues, MultiHeadAttention
from termweave.model.cache import SelfAttentionCache
from termweave.model.products import Linear
from termweave.model.vectors import with_constraints


def sinusoidal_positions(length: int, dimension: int) -> Tensor:
    """(length, dimension): sines in the first half, cosines in the second."""
    rates = torch.exp(torch.arange(dimension // 2) * (-math.log(10000.0) / (dimension // 2)))
    angles = torch.arange(length).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.dimension, config.feed_forward)
        self.outer = Linear(config.feed_forward, config.dimension)

    def forward(self, states: Tensor) -> Tensor:
        result: Tensor = self.outer(F.relu(self.inner(states)))
        return result


class Residual(nn.Module):
    """What stands around a sub-layer f: x + f(norm(x)) with `pre`, norm(x + f(x)) with `post`; dropout on f."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.dimension)
        self.dropout = nn.Dropout(config.dropout)
        self.first = config.norm == "pre"

    def enter(self, states: Tensor) -> Tensor:
        """What the sub-layer sees."""
        result: Tensor = self.norm(states) if self.first else states
        return result

    def leave(self, states: Tensor, change: Tensor) -> Tensor:
        """The stream after the sub-layer."""
        states = states + self.dropout(change)
        result: Tensor = states if self.first else self.norm(states)
        return result


class EncoderLayer(nn.Module):
    """Self-attention over [constraints; sentence], then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.dimension, config.heads)
        self.attention_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, states: Tensor, mask: Tensor, extra: KeysValues | None) -> Tensor:
        """states (batch, length, d); mask (batch, 1, 1, constraint slots + length); extra: of the constraints."""
        queries, own = self.attention.project_all(self.attention_residual.enter(states))
        attended = self.attention(queries, with_constraints(own, extra), mask)
        states = self.attention_residual.leave(states, attended)
        changed = self.feed_forward(self.feed_forward_residual.enter(states))
        return self.feed_forward_residual.leave(states, changed)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention over [constraints; encoder output], feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.dimension, config.heads)
        self.self_attention_residual = Residual(config)
        self.cross_attention = MultiHeadAttention(config.dimension, config.heads)
        self.cross_attention_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def memory(self, encoded: Tensor, extra: KeysValues | None) -> KeysValues:
        """Keys and values of the cross-attention, which stay the same for all steps of a sentence."""
        return with_constraints(self.cross_attention.project(encoded), extra)

    def forward(self, states: Tensor, encoded: Tensor, mask: Tensor, extra: KeysValues | None) -> Tensor:
        """All positions at once, for training. Padding stands on the right, so the causal order hides it."""
        queries, own = self.self_attention.project_all(self.self_attention_residual.enter(states))
        attended = self.self_attention(queries, own, causal=True)
        return self._finish(states, attended, self.memory(encoded, extra), mask)

    def step(self, states: Tensor, layer: int, cache: SelfAttentionCache, memory: KeysValues, mask: Tensor) -> Tensor:
        """One position of every hypothesis: states (batch, beam, d).

        The hypotheses of a sentence stand along the length of the queries, in both attentions, so that no keys and
        values need a copy per hypothesis.
        """
        queries, own = self.self_attention.project_all(self.self_attention_residual.enter(states))
        attended = self.self_attention(queries, cache.write(layer, own), cache.mask)
        return self._finish(states, attended, memory, mask)

    def _finish(self, states: Tensor, attended: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        states = self.self_attention_residual.leave(states, attended)
        queries = self.cross_attention.queries(self.cross_attention_residual.enter(states))
        states = self.cross_attention_residual.leave(states, self.cross_attention(queries, memory, mask))
        changed = self.feed_forward(self.feed_forward_residual.enter(states))
        return self.feed_forward_residual.leave(states, changed)
