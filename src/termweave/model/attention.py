"""Multi-head attention with keys and values that can be computed apart from the queries.

Keys and values of the encoder output and of the constraints depend on the sentence alone, so decoding computes them
once; that is why projecting and attending are separate methods here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.accelerators import has_kernels
from termweave.model import attention_loops
from termweave.model.products import Linear


class KeysValues(NamedTuple):
    """Projected keys and values, each (batch, heads, length, d / heads)."""

    keys: Tensor
    values: Tensor

    def select(self, rows: Tensor) -> KeysValues:
        """Of some sentences. On a CPU this takes a third of the time that an index in brackets does."""
        return KeysValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))


def attend(queries: Tensor, memory: KeysValues, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """The heads side by side, (batch, length, d)."""
    attended = F.scaled_dot_product_attention(queries, memory.keys, memory.values, attn_mask=mask, is_causal=causal)
    return attended.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class Visible:
    """Which keys of a memory the steps of a search can see. Made once, as what they need, not anew in every layer."""

    mask: Tensor  # (batch, 1, 1, keys): 0 is visible, −inf is hidden
    places: Tensor | None  # (batch, 1 + keys), for kernels and loops: how many are visible, and their places

    @staticmethod
    def of(seen: Tensor, kind: torch.dtype) -> Visible:
        """seen: (batch, 1, 1, keys), booleans."""
        mask = torch.zeros_like(seen, dtype=kind).masked_fill(~seen, float("-inf"))
        listed = has_kernels(mask.device) or attention_loops.can_attend(mask)
        return Visible(mask, _places(seen[:, 0, 0]) if listed else None)

    def select(self, rows: Tensor) -> Visible:
        places = None if self.places is None else self.places.index_select(0, rows)
        return Visible(self.mask.index_select(0, rows), places)


def _places(seen: Tensor) -> Tensor:
    """(batch, keys) booleans → `Visible.places`."""
    batch, keys = seen.shape
    counted = seen.cumsum(dim=1)
    to = torch.where(seen, counted, keys + 1)  # behind the number; what is hidden goes behind the last, and is cut off
    places = torch.arange(keys, device=seen.device).expand(batch, -1)
    found = counted.new_zeros(batch, keys + 2).scatter_(1, to, places)
    found[:, 0] = counted[:, -1]
    return found[:, :-1].int()


def attend_few(queries: Tensor, memory: KeysValues, visible: Visible) -> Tensor:
    """The same for the hypotheses of a decoding step."""
    if visible.places is not None and has_kernels(queries.device):
        from termweave.model import attention_kernels

        if attention_kernels.can_attend(*queries.shape[2:]):
            return attention_kernels.attend_memory(queries, memory, visible.places)
    elif visible.places is not None:
        return attention_loops.attend_memory(queries, memory, visible.places)
    return attend(queries, memory, visible.mask)


def for_steps(memory: KeysValues, kind: torch.dtype) -> KeysValues:
    """Keys and values as steps read them: on a CPU, those of a head in one piece; kind: see `kept_kind`."""
    if memory.keys.device.type != "cpu":
        return memory
    return KeysValues(*(own.to(kind).contiguous() for own in memory))


def mean_weights(queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
    """What the heads look at, on the average: (batch, length, keys), in float32. A row sums to 1.

    mask (batch, 1, 1, keys): True is visible, or 0 is visible and −inf is hidden.
    """
    scores = queries.float() @ keys.float().mT * queries.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    weights: Tensor = scores.softmax(dim=-1).mean(dim=1)
    return weights


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
        result: Tensor = self.output(attend(queries, memory, mask, causal))
        return result
