"""Constraints as vectors: eq. kv-attn (vectorise) and eqs. enc-adapt, dec-adapt (adapt per layer).

Two forms of the adaptation exist. `paper`: Linear–ReLU–Linear, put before the attention's own key and value
projections, as the equations say. `released`: the authors' code, a residual GELU network with layer normalisation
whose result stands beside the projected keys and values.

All layers are adapted at once: constraints are few tokens, and many small products would keep the GPU waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.accelerators import may_use_kernels
from termweave.data.batches import ConstraintTensors, KnownConstraints
from termweave.model import encoder_loops, term_loops
from termweave.model.attention import KeysValues, MultiHeadAttention, attend
from termweave.model.products import Product
from termweave.model.quantised import QuantisedLinear
from termweave.storage import Array


class ConstraintVectors(NamedTuple):
    """K_c and V_c of a batch, flat: (constraint tokens, d) each."""

    keys: Tensor
    values: Tensor


class FlatKeysValues(NamedTuple):
    """Keys and values of a layer's constraints, not yet at their slots: for kernels, which find them by themselves, and
    where those of all layers at once would take much memory."""

    keys: Tensor  # (tokens, d)
    values: Tensor
    bias: Tensor  # (2, d) to be added to keys and to values
    token: Tensor  # (batch, slots) which of the tokens a slot holds; any where it is empty
    heads: int

    def spread(self) -> KeysValues:
        """(batch, heads, slots, d / heads) each; what empty slots hold must be hidden."""
        sides = (part[self.token] + bias for part, bias in zip(self[:2], self.bias, strict=True))
        return KeysValues(*(side.unflatten(-1, (self.heads, -1)).transpose(1, 2) for side in sides))


Extra = KeysValues | FlatKeysValues  # what stands before the keys and values of a layer


class Vectorisation(nn.Module):
    """K_c = S, V_c = attn(S, T, T), each constraint for itself. One layer, shared by encoder and decoder."""

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(dimension, heads)

    def forward(self, source: Tensor, target: Tensor, constraints: ConstraintTensors) -> ConstraintVectors:
        """source, target: embedded constraint tokens with their positions, flat, (tokens, d)."""
        if may_use_kernels(source.device):
            from termweave.model import encoder_kernels

            if encoder_kernels.can_vectorise(constraints, self.attention):
                return ConstraintVectors(source, encoder_kernels.vectorise(self.attention, source, target, constraints))
        # Only tokens of the same constraint see each other. An empty slot belongs to constraint 0, as the empty
        # target slots do; should a row see nothing at all, it sees everything instead of dividing by zero.
        same = constraints.source.number.unsqueeze(2) == constraints.target.number.unsqueeze(1)
        same = same | ~same.any(dim=2, keepdim=True)
        if not torch.is_grad_enabled():
            return ConstraintVectors(source, self._attend_flat(source, target, constraints, same.unsqueeze(1)))
        attended = self.attention(
            self.attention.queries(constraints.source.pad(source)),
            self.attention.project(constraints.target.pad(target)),
            mask=same.unsqueeze(1),
        )
        return ConstraintVectors(source, constraints.source.pack(attended))

    def _attend_flat(self, source: Tensor, target: Tensor, constraints: ConstraintTensors, mask: Tensor) -> Tensor:
        """The same for inference, with the products done for tokens alone: of the slots, most are empty.

        Training keeps the order in which its gradients have always been summed up.
        """
        attention, dimension = self.attention, self.attention.dimension
        ask = partial(attention.input.part, start=0, stop=dimension)
        tell = partial(attention.input.part, start=dimension, stop=3 * dimension)
        queries = constraints.source.spread(constraints.source.once(ask, source))
        keys, values = constraints.target.once(tell, target).chunk(2, dim=-1)
        memory = KeysValues(*(attention.split(constraints.target.spread(own)) for own in (keys, values)))
        attended = attend(attention.split(queries), memory, mask)
        result: Tensor = attention.output(constraints.source.pack(attended))
        return result

    def alone(self, source: Tensor, target: Tensor, source_ends: Array, target_ends: Array) -> ConstraintVectors:
        """The same for inference on a CPU, of constraints end to end; ends: see `TermTokens`."""
        attention, dimension = self.attention, self.attention.dimension
        queries = attention.input.part(source, 0, dimension)
        memory = attention.input.part(target, dimension, 3 * dimension)
        seen = term_loops.attend(queries, memory, source_ends, target_ends, attention.heads)
        return ConstraintVectors(source, attention.output(seen))


class Adapters(nn.Module):
    """adapt(·) of every layer, separately for keys and values: (tokens, d) each → (layers, 2, tokens, d)."""

    def __init__(self, layers: int, dimension: int, released: bool) -> None:
        super().__init__()
        self.inner_weight = nn.Parameter(torch.empty(layers, 2, dimension, dimension))
        self.inner_bias = nn.Parameter(torch.empty(layers, 2, 1, dimension))
        self.outer_weight = nn.Parameter(torch.empty(layers, 2, dimension, dimension))
        self.outer_bias = nn.Parameter(torch.empty(layers, 2, 1, dimension))
        self.norm_weight = nn.Parameter(torch.empty(layers, 2, 1, dimension)) if released else None
        self.norm_bias = nn.Parameter(torch.empty(layers, 2, 1, dimension)) if released else None

    def initialise(self) -> None:
        for weight in (*self.inner_weight.data.flatten(0, 1), *self.outer_weight.data.flatten(0, 1)):
            nn.init.xavier_uniform_(weight)
        for bias in (self.inner_bias, self.outer_bias, self.norm_bias):
            if bias is not None:
                nn.init.zeros_(bias)
        if self.norm_weight is not None:
            nn.init.ones_(self.norm_weight)

    def forward(self, constraints: ConstraintVectors) -> Tensor:
        vectors = torch.stack(constraints)
        inner = vectors @ self.inner_weight + self.inner_bias
        if self.norm_weight is None or self.norm_bias is None:
            result: Tensor = F.relu(inner) @ self.outer_weight + self.outer_bias
            return result
        residual = vectors + (F.gelu(inner) @ self.outer_weight + self.outer_bias)
        return F.layer_norm(residual, residual.shape[-1:]) * self.norm_weight + self.norm_bias


Projection = tuple[Tensor, Tensor]  # weights (layers, 2, d, d) and biases (layers, 2, 1, d) of keys and values


def _folded(adapters: Adapters, projection: Projection) -> Projection:
    """What stands behind the activation: two linear maps, one after the other, are one."""
    weights = projection[0] @ adapters.outer_weight.detach().mT
    return weights, adapters.outer_bias.detach() @ projection[0].mT + projection[1]


class FoldedAdapters(nn.Module):
    """`Adapters` of the form `paper` for inference, together with the key and value projections behind them.

    The inner products of all layers have the same input, so they are one; the outer ones are linear, as the projections
    are, so each is one product with its own. A sentence of few constraints reads half the weights that way.
    """

    def __init__(self, adapters: Adapters, projection: Projection, kind: Product) -> None:
        super().__init__()
        outer, outer_bias = _folded(adapters, projection)
        self.inner = nn.ModuleList(
            kind(weight.mT.flatten(0, 1).contiguous(), bias.flatten())
            for weight, bias in zip(
                adapters.inner_weight.detach().unbind(1), adapters.inner_bias.detach().unbind(1), strict=True
            )
        )
        self.outer = nn.ModuleList(
            kind(weight.contiguous(), bias.flatten())
            for weight, bias in zip(outer.flatten(0, 1), outer_bias.flatten(0, 1), strict=True)
        )

    def forward(self, vectors: ConstraintVectors) -> Tensor:
        return torch.stack(self.sides(vectors)).view(-1, 2, *vectors.keys.shape)

    def sides(self, vectors: ConstraintVectors) -> list[Tensor]:
        """Keys and values of each layer in turn, (tokens, d)."""
        tokens, dimension = vectors.keys.shape
        hidden = [
            F.relu(_by_row(product, own, lowest=-1)).view(tokens, -1, dimension).unbind(1)
            for product, own in zip(self.inner, vectors, strict=True)
        ]
        by_layer = [side for both in zip(*hidden, strict=True) for side in both]
        return [_by_row(product, own, lowest=0) for product, own in zip(self.outer, by_layer, strict=True)]


def _by_row(product: nn.Module, states: Tensor, lowest: float) -> Tensor:
    """See `QuantisedLinear.by_row`: a constraint gets the same keys and values in whatever company."""
    result: Tensor = product.by_row(states, lowest) if isinstance(product, QuantisedLinear) else product(states)
    return result


class BatchedAdapters(nn.Module):
    """`FoldedAdapters` for a GPU, which minds the number of products: there is one for all layers.

    The bias of the last product is left to whoever puts the results where they belong: that is no pass of its own.
    """

    def __init__(self, adapters: Adapters, projection: Projection) -> None:
        super().__init__()
        outer, outer_bias = _folded(adapters, projection)
        inner = adapters.inner_weight.detach().movedim(0, 2).flatten(2)  # (2, d, layers · d)
        inner_bias = adapters.inner_bias.detach().movedim(0, 2).flatten(1)
        self.inner, self.inner_bias = (nn.Buffer(part.contiguous()) for part in (inner, inner_bias))
        self.outer = nn.Buffer(outer.mT.transpose(0, 1).contiguous())  # (2, layers, d, d)
        self.outer_bias = nn.Buffer(outer_bias.squeeze(2).contiguous())  # (layers, 2, d)

    def forward(self, vectors: ConstraintVectors) -> Tensor:
        _, layers, dimension, _ = self.outer.shape
        adapted = vectors.keys.new_empty(layers, 2, len(vectors.keys), dimension)
        for side, own in enumerate(vectors):
            # Bias and activation go along with the product, without a pass of their own over all layers.
            hidden = torch._addmm_activation(self.inner_bias[side], own, self.inner[side])
            by_layer = hidden.view(-1, layers, dimension).transpose(0, 1)
            torch.bmm(by_layer, self.outer[side], out=adapted[:, side])
        return adapted


class ConstraintMemory(nn.Module):
    """The constraint keys and values of every layer, ready to stand before the layer's own."""

    adapters: Adapters | FoldedAdapters | BatchedAdapters

    def __init__(self, layers: int, dimension: int, heads: int, released: bool) -> None:
        super().__init__()
        self.heads = heads
        self.released = released
        self.vectorisation = Vectorisation(dimension, heads)
        self.adapters = Adapters(layers, dimension, released)

    @property
    def wants_projection(self) -> bool:
        """Do the layers' own projections come behind the adapters?"""
        return not self.released and isinstance(self.adapters, Adapters)

    def fold(self, projection: Projection, kind: Product | None) -> None:
        """Make the adapters faster for good, where that can be done. They cannot be trained any more after it.

        kind: of the products, one for each; None: together, for a GPU.
        """
        if self.wants_projection and isinstance(self.adapters, Adapters):
            own = self.adapters
            self.adapters = FoldedAdapters(own, projection, kind) if kind else BatchedAdapters(own, projection)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        constraints: ConstraintTensors,
        projection: Projection | None,
    ) -> tuple[Extra, ...]:
        """Keys and values of each layer, (batch, heads, slots, d / heads).

        projection: of the layers' keys and values, where it is wanted.
        """
        adapted = self.adapters(self.vectorisation(source, target, constraints))
        if projection is not None:
            adapted = adapted @ projection[0].mT.to(adapted.dtype) + projection[1].to(adapted.dtype)
        if isinstance(self.adapters, BatchedAdapters):
            token, biases = constraints.source.token_of_slot(), self.adapters.outer_bias
            pairs = zip(adapted, biases, strict=True)
            return tuple(FlatKeysValues(both[0], both[1], bias, token, self.heads) for both, bias in pairs)
        if isinstance(self.adapters, FoldedAdapters):
            return self._flat(adapted.unbind(0), constraints.source.token_of_slot())
        split = self._split(constraints.source.pad(adapted))
        # Each layer gets tensors of its own: compiled layers would be compiled anew for views with other offsets.
        return tuple(KeysValues(keys.contiguous(), values.contiguous()) for keys, values in split.unbind(0))

    def alone(self, source: Tensor, target: Tensor, source_ends: Array, target_ends: Array) -> Tensor:
        """(source tokens, 2 · layers, d) keys and values of constraints end to end, in half precision."""
        assert isinstance(self.adapters, FoldedAdapters)
        sides = self.adapters.sides(self.vectorisation.alone(source, target, source_ends, target_ends))
        return torch.stack([own.half() for own in sides], dim=1)

    def known(self, known: KnownConstraints) -> tuple[Extra, ...]:
        """As `forward` gives it."""
        sides = known.attention.view(len(known.attention), -1, 2, known.attention.shape[2])
        return self._flat(sides.permute(1, 2, 0, 3).unbind(0), known.source)

    def _flat(self, layers: Sequence[Tensor], token: Tensor) -> tuple[Extra, ...]:
        """layers: keys and values of each, (2, tokens, d)."""
        bias = torch.zeros(2, layers[0].shape[2], device=token.device)  # it is in them already
        return tuple(FlatKeysValues(both[0], both[1], bias, token, self.heads) for both in layers)

    def _split(self, padded: Tensor) -> Tensor:
        """(…, slots, d) → (…, heads, slots, d / heads)."""
        return padded.view(*padded.shape[:-1], self.heads, -1).transpose(-2, -3)


def key_value_projections(attentions: Sequence[MultiHeadAttention]) -> Projection:
    """Of some layers."""
    dimension = attentions[0].dimension
    weights = torch.stack([attention.input.weight[dimension:] for attention in attentions])
    biases = torch.stack([attention.input.bias[dimension:] for attention in attentions])
    count = len(attentions)
    return weights.view(count, 2, dimension, dimension), biases.view(count, 2, 1, dimension)


def with_constraints(own: KeysValues, extra: Extra | None, by_head: bool = True) -> KeysValues:
    """[constraints; original], along the length. by_head: see `encoder_loops.join`."""
    if extra is None:
        return own
    if isinstance(extra, FlatKeysValues):
        if may_use_kernels(own.keys.device):
            from termweave.model import encoder_kernels

            if encoder_kernels.can_join(own, extra):
                return encoder_kernels.join(own, extra)
        if encoder_loops.can_join(own, extra):
            return encoder_loops.join(own, extra, by_head)
        extra = extra.spread()
    return KeysValues(
        torch.cat([extra.keys.to(own.keys.dtype), own.keys], dim=2),
        torch.cat([extra.values.to(own.values.dtype), own.values], dim=2),
    )


def attend_with_constraints(queries: Tensor, own: KeysValues, extra: Extra | None, mask: Tensor) -> Tensor:
    """What queries see of [constraints; original], (batch, length, d); mask (batch, 1, 1, keys), True where visible."""
    if not isinstance(extra, KeysValues) and may_use_kernels(queries.device):
        from termweave.model import encoder_kernels

        if encoder_kernels.can_attend(own, extra):
            return encoder_kernels.attend(queries, own, extra, mask)
    return attend(queries, with_constraints(own, extra, by_head=False), mask)
