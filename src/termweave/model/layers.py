"""Encoder and decoder layers with room for constraints in the attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.accelerators import has_kernels, may_use_kernels
from termweave.config import ModelConfig
from termweave.model.attention import KeysValues, MultiHeadAttention, Visible, attend_few
from termweave.model.cache import SelfAttentionCache
from termweave.model.products import Linear
from termweave.model.quantised import QuantisedLinear
from termweave.model.vectors import Extra, attend_with_constraints, with_constraints


def sinusoidal_positions(length: int, dimension: int) -> Tensor:
    """(length, dimension): sines in the first half, cosines in the second."""
    # Worked out in double precision: rounded angles of far positions would be off by more than their sines show. On the
    # CPU even where a model is built without memory: torch would load its compiler for that, two seconds long.
    halves = torch.arange(dimension // 2, dtype=torch.double, device="cpu")
    rates = torch.exp(halves * (-math.log(10000.0) / (dimension // 2)))
    angles = torch.arange(length, device="cpu").unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "swish": F.silu, "gelu": F.gelu}


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = _ACTIVATIONS[config.activation]
        self.inner = Linear(config.dimension, config.feed_forward)
        self.outer = Linear(config.feed_forward, config.dimension)

    def forward(self, states: Tensor) -> Tensor:
        result: Tensor = self.outer(self._activated(states))
        return result

    def _activated(self, states: Tensor) -> Tensor:
        product: nn.Module = self.inner
        if self.activation is F.relu and isinstance(product, Linear) and may_use_kernels(states.device):
            # A GPU's library applies it along with the product, without a pass of its own.
            activated = torch._addmm_activation(product.bias, states.flatten(0, -2), product.weight.t())
            return activated.view(*states.shape[:-1], -1)
        if self.activation is F.relu and isinstance(product, QuantisedLinear):
            return product.relu(states)
        if self.activation is F.relu and not torch.is_grad_enabled():
            return F.relu(product(states), inplace=True)  # of many megabytes, nobody wants the product any more
        return self.activation(product(states))


class Stream(NamedTuple):
    """The states between two sub-layers of a decoding step, and what the second sees of them, (batch, beam, d) each."""

    states: Tensor
    seen: Tensor


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
        if not self.first and not self.training and may_use_kernels(states.device):
            from termweave.model import attention_kernels

            return attention_kernels.add_norm(states, change, self.norm, keep=False)[1]
        states = states + self.dropout(change)
        result: Tensor = states if self.first else self.norm(states)
        return result

    def pass_on(self, states: Tensor, change: Tensor, following: nn.Module) -> Stream:
        """Leave the sub-layer and enter the next, in a decoding step; following: its norm, which only `pre` asks."""
        norm = following if self.first else self.norm
        if has_kernels(states.device) and isinstance(norm, nn.LayerNorm):
            from termweave.model import attention_kernels

            return Stream(*attention_kernels.add_norm(states, change, norm, keep=self.first))
        states = self.leave(states, change)
        return Stream(states, following(states) if self.first else states)


class EncoderLayer(nn.Module):
    """Self-attention over [constraints; sentence], then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.dimension, config.heads)
        self.attention_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, states: Tensor, mask: Tensor, extra: Extra | None) -> Tensor:
        """states (batch, length, d); mask (batch, 1, 1, constraint slots + length); extra: of the constraints."""
        queries, own = self.attention.project_all(self.attention_residual.enter(states))
        attended = self.attention.output(attend_with_constraints(queries, own, extra, mask))
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

    def memory(self, encoded: Tensor, extra: Extra | None) -> KeysValues:
        """Keys and values of the cross-attention, which stay the same for all steps of a sentence."""
        return with_constraints(self.cross_attention.project(encoded), extra)

    def forward(self, states: Tensor, encoded: Tensor, mask: Tensor, extra: Extra | None) -> Tensor:
        """All positions at once, for training. Padding stands on the right, so the causal order hides it."""
        states, queries = self._look_back(states)
        return self._look_over(states, queries, self.memory(encoded, extra), mask)

    def _look_back(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The self-attention of all positions; returns the states and the queries of the cross-attention."""
        queries, own = self.self_attention.project_all(self.self_attention_residual.enter(states))
        attended = self.self_attention(queries, own, causal=True)
        states = self.self_attention_residual.leave(states, attended)
        return states, self.cross_attention.queries(self.cross_attention_residual.enter(states))

    def _look_over(self, states: Tensor, queries: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        """The cross-attention and the feed-forward block of all positions."""
        attended = self.cross_attention(queries, memory, mask)
        states = self.cross_attention_residual.leave(states, attended)
        changed = self.feed_forward(self.feed_forward_residual.enter(states))
        return self.feed_forward_residual.leave(states, changed)

    def step(
        self,
        stream: Stream,
        layer: int,
        cache: SelfAttentionCache,
        memory: KeysValues,
        visible: Visible,
        following: nn.Module,
    ) -> Stream:
        """One position of every hypothesis; following: the norm behind this layer, as in `Residual.pass_on`.

        The hypotheses of a sentence stand along the length of the queries, in both attentions, so that no keys and
        values need a copy per hypothesis.
        """
        stream, queries = self._step_back(stream, layer, cache)
        return self._step_over(stream, queries, memory, visible, following)

    def _step_back(self, stream: Stream, layer: int, cache: SelfAttentionCache) -> tuple[Stream, Tensor]:
        """`_look_back` for one position of every hypothesis."""
        queries, own = self.self_attention.project_all(stream.seen)
        attended = self.self_attention.output(cache.attend(layer, queries, own))
        stream = self.self_attention_residual.pass_on(stream.states, attended, self.cross_attention_residual.norm)
        return stream, self.cross_attention.queries(stream.seen)

    def _step_over(
        self, stream: Stream, queries: Tensor, memory: KeysValues, visible: Visible, following: nn.Module
    ) -> Stream:
        """`_look_over` for one position of every hypothesis."""
        attended = self.cross_attention.output(attend_few(queries, memory, visible))
        stream = self.cross_attention_residual.pass_on(stream.states, attended, self.feed_forward_residual.norm)
        return self.feed_forward_residual.pass_on(stream.states, self.feed_forward(stream.seen), following)
