"""The one Transformer of every system: vanilla, or with constraints in the attention, the output layer, or both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.accelerators import has_kernels, may_use_kernels
from termweave.config import ModelConfig
from termweave.data.batches import ConstraintTensors, TermTokens
from termweave.model.alignment import Alignment
from termweave.model.attention import KeysValues, MultiHeadAttention, Visible, for_steps
from termweave.model.attention_loops import kept_kind
from termweave.model.cache import FixedCache, SelfAttentionCache
from termweave.model.coverage import Progress
from termweave.model.layers import DecoderLayer, EncoderLayer, Stream, sinusoidal_positions
from termweave.model.output import CopyOutput, OutputLayer, OutputMemory, Scores, output_layer
from termweave.model.pointer import PointerOutput, PointingLayer
from termweave.model.products import PackedLinear, Product, RowwiseLinear, frozen_linear, linear, replace_linear
from termweave.model.quantised import QuantisedLinear
from termweave.model.vectors import (
    Adapters,
    ConstraintMemory,
    ConstraintVectors,
    Extra,
    Projection,
    key_value_projections,
)

POSITIONS = 1024  # longest sentence, in subwords
PRECISIONS = ("float32", "bfloat16", "int8")  # of inference


@dataclass(frozen=True)
class Encoded:
    """Sentences after the encoder, with their constraints."""

    states: Tensor  # (batch, length, d)
    mask: Tensor  # (batch, 1, 1, constraint slots + length), True where there is something to see
    extra: tuple[Extra | None, ...]  # keys and values of the constraints for each decoder layer
    output: OutputMemory | None


@dataclass(frozen=True)
class DecoderMemory:
    """All a decoding step needs of the source sentences; nothing in it is repeated per hypothesis."""

    layers: tuple[KeysValues, ...]  # per decoder layer (batch, heads, constraint slots + length, d / heads)
    visible: Visible  # of the keys of every layer
    output: OutputMemory | None
    alignment: Tensor | None = None  # (batch, heads, length, d / heads) keys of the alignment module, if there is one

    def select(self, rows: Tensor) -> DecoderMemory:
        """The memory of some sentences of the batch."""
        layers = tuple(memory.select(rows) for memory in self.layers)
        output = self.output.select(rows) if self.output else None
        alignment = None if self.alignment is None else self.alignment.index_select(0, rows)
        return DecoderMemory(layers, self.visible.select(rows), output, alignment)


Layer = TypeVar("Layer", bound=nn.Module)


class Layers(nn.ModuleList, Generic[Layer]):
    """A module list that knows what it is a list of."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__(layers)

    def __iter__(self) -> Iterator[Layer]:
        return cast(Iterator[Layer], super().__iter__())


class Transformer(nn.Module):
    """θ_v is everything but the modules that exist only with `attention` or `output` switched on; those are θ_c.

    The alignment module of `cdalign` belongs to neither: it looks on, and nothing of it goes into a translation.
    """

    positions: Tensor

    def __init__(self, config: ModelConfig, vocabulary: int, padding: int) -> None:
        super().__init__()
        self.config = config
        self.padding = padding
        self.embedding = nn.Parameter(torch.empty(vocabulary, config.dimension))
        self.source_embedding = nn.Parameter(torch.empty_like(self.embedding)) if config.source_embedding else None
        self.vocabulary_bias = nn.Parameter(torch.zeros(vocabulary)) if config.vocabulary_bias else None
        positions = sinusoidal_positions(POSITIONS, config.dimension)
        self.register_buffer("positions", positions, persistent=False)
        self.encoder = Layers([EncoderLayer(config) for _ in range(config.encoder_layers)])
        pointing = config.variant == "pointer" and config.output
        last = PointingLayer(config) if pointing else DecoderLayer(config)
        self.decoder = Layers([*(DecoderLayer(config) for _ in range(config.decoder_layers - 1)), last])
        self.encoder_norm = _final_norm(config)
        self.decoder_norm = _final_norm(config)
        layers = config.encoder_layers + config.decoder_layers
        released = config.variant == "released"
        self.constraint_memory = (
            ConstraintMemory(layers, config.dimension, config.heads, released) if config.vectors else None
        )
        self.output: OutputLayer | None = PointerOutput(config) if pointing else output_layer(config)
        self.alignment = Alignment(config) if config.alignment_layer else None
        self.dropout = nn.Dropout(config.dropout)
        self.vocabulary_product: nn.Module | None = None  # set by `use_precision`, as the next
        self.rounds_keys = False  # those that decoding steps read, to half of single precision
        if not self.embedding.is_meta:  # without memory there is nothing to fill; torch would load its compiler for it
            self._initialise()

    def _initialise(self) -> None:
        for embedding in (self.embedding, self.source_embedding):
            if embedding is not None:
                nn.init.normal_(embedding, std=self.config.dimension**-0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for module in self.modules():
            if isinstance(module, MultiHeadAttention | Adapters):
                module.initialise()

    def embed(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """Scaled embeddings plus sinusoidal positions; `positions` has the shape of `ids` or of its last axis."""
        return self._embed(self.embedding, ids, positions)

    def embed_source(self, ids: Tensor, positions: Tensor) -> Tensor:
        """The same for the source side, of the sentence and of the constraints."""
        embedding = self.embedding if self.source_embedding is None else self.source_embedding
        return self._embed(embedding, ids, positions)

    def _embed(self, embedding: Tensor, ids: Tensor, positions: Tensor | None) -> Tensor:
        scale = math.sqrt(self.config.dimension) if self.config.scale_embedding else 1.0
        if positions is not None and ids.dim() == 1 and may_use_kernels(ids.device):  # the tokens of constraints
            from termweave.model import encoder_kernels

            return encoder_kernels.embed(embedding, self.positions, ids, positions, scale)
        vectors = F.embedding(ids, embedding)
        if self.config.scale_embedding:
            vectors = vectors * scale
        return vectors if positions is None else vectors + self.positions[positions]

    def encode(self, source: Tensor, constraints: ConstraintTensors | None = None) -> Encoded:
        """source: (batch, length) ids."""
        mask = source != self.padding
        extra: tuple[Extra | None, ...] = (None,) * (len(self.encoder) + len(self.decoder))
        told = None
        if constraints is not None and self.constraint_memory is not None:
            if constraints.known is not None:
                extra = self.constraint_memory.known(constraints.known)
            else:
                told = self._embed_constraints(constraints)
                extra = self._extra(constraints, self.constraint_memory, told)
            mask = torch.cat([constraints.source.number > 0, mask], dim=1)
        mask = mask[:, None, None, :]
        positions = torch.arange(source.shape[1], device=source.device)
        states = self.dropout(self.embed_source(source, positions))
        for layer, keys_values in zip(self.encoder, extra[: len(self.encoder)], strict=True):
            states = layer(states, mask, keys_values)
        # Training embeds the same tokens twice: so its gradients are summed up in the order they always were.
        output = self._remember(constraints, None if told is None or self.training else told[1])
        if isinstance(self.output, PointerOutput):
            output = self.output.remember_source(source, self.padding)
        return Encoded(self.encoder_norm(states), mask, extra[len(self.encoder) :], output)

    def vectorise(self, constraints: ConstraintTensors) -> ConstraintVectors:
        """K_c and V_c, eqs. kv-attn and const-related-kv."""
        assert self.constraint_memory is not None
        vectors: ConstraintVectors = self.constraint_memory.vectorisation(
            *self._embed_constraints(constraints), constraints
        )
        return vectors

    def term_vectors(self, source: TermTokens, target: TermTokens) -> tuple[Tensor, Tensor]:
        """For `KnownConstraints`, in half precision."""
        assert self.constraint_memory is not None and isinstance(self.output, CopyOutput)
        vectors = self.embed_source(source.ids, source.positions), self.embed(target.ids, target.positions)
        attention = self.constraint_memory.alone(*vectors, source.ends, target.ends)
        return attention, self.output.alone(target.positions, vectors[1])

    def _embed_constraints(self, constraints: ConstraintTensors) -> tuple[Tensor, Tensor]:
        source, target = constraints.source, constraints.target
        return self.embed_source(source.ids, source.positions), self.embed(target.ids, target.positions)

    def _extra(
        self, constraints: ConstraintTensors, memory: ConstraintMemory, embedded: tuple[Tensor, Tensor]
    ) -> tuple[Extra, ...]:
        """Keys and values of the constraints for every layer, encoder first."""
        projection = self._projection() if memory.wants_projection else None
        layers: tuple[Extra, ...] = memory(*embedded, constraints, projection)
        return layers

    def _projection(self) -> Projection:
        """Of keys and values, in all layers that see constraints."""
        attentions = [layer.attention for layer in self.encoder] + [layer.cross_attention for layer in self.decoder]
        return key_value_projections(attentions)

    def _remember(self, constraints: ConstraintTensors | None, target: Tensor | None = None) -> OutputMemory | None:
        """target: the target tokens of the constraints, embedded with their positions, if they are already."""
        if constraints is None or self.output is None or isinstance(self.output, PointerOutput):
            return None
        if constraints.known is not None and isinstance(self.output, CopyOutput):
            return self.output.known(constraints, constraints.known)
        side, with_positions = constraints.target, self.output.with_positions
        with _full_precision(self.embedding):
            if target is None or not with_positions:
                target = self.embed(side.ids, side.positions if with_positions else None)
            return self.output.remember(constraints, target.to(_type_of(self.output)), self.embedding)

    def decode(self, target_input: Tensor, encoded: Encoded) -> Tensor:
        """States at all positions of a given target, (batch, length, d); those of a pointer are wider, see there."""
        states = self._decode(target_input, encoded, len(self.decoder))
        return self._complete(self.decoder_norm(self._hidden(states)), states, target_input)

    def _decode(self, target_input: Tensor, encoded: Encoded, layers: int) -> Tensor:
        """The states behind the first so many layers."""
        positions = torch.arange(target_input.shape[1], device=target_input.device)
        states: Tensor = self.dropout(self.embed(target_input, positions))
        for layer, keys_values in list(zip(self.decoder, encoded.extra, strict=True))[:layers]:
            states = layer(states, encoded.states, encoded.mask, keys_values)
        return states

    def align(self, target_input: Tensor, encoded: Encoded) -> Tensor:
        """(batch, length, source): what each token that follows a given target translates."""
        assert self.alignment is not None
        states = self._decode(target_input, encoded, self.config.alignment_layer)
        if self.config.norm == "pre":
            states = self._norms_behind()[self.config.alignment_layer - 1](states)
        keys = self.alignment.keys(encoded.states)
        weights: Tensor = self.alignment(states, keys, encoded.mask[..., -keys.shape[2] :])
        return weights

    def _norms_behind(self) -> list[nn.Module]:
        """With `pre`, what stands behind each decoder layer: the first norm of the next one, or the final norm."""
        return [*(layer.self_attention_residual.norm for layer in list(self.decoder)[1:]), self.decoder_norm]

    def _hidden(self, states: Tensor) -> Tensor:
        """h alone, without the numbers in float32 that a pointer puts behind it."""
        width = self.config.dimension
        return states if states.shape[-1] == width else states[..., :width].to(self.embedding.dtype)

    def _complete(self, hidden: Tensor, looked: Tensor, before: Tensor) -> Tensor:
        """What a pointer adds to h; looked: what its last layer gave; before: ids of the tokens the states follow."""
        if not isinstance(self.output, PointerOutput):
            return hidden
        with _full_precision(hidden):
            return self.output.complete(hidden, looked[..., self.config.dimension :], self.embed(before, None))

    def decoder_memory(self, encoded: Encoded) -> DecoderMemory:
        pairs = zip(self.decoder, encoded.extra, strict=True)
        kind = kept_kind(encoded.states, self.rounds_keys)
        layers = tuple(for_steps(layer.memory(encoded.states, keys_values), kind) for layer, keys_values in pairs)
        visible = Visible.of(encoded.mask, encoded.states.dtype)
        alignment = None if self.alignment is None else self.alignment.keys(encoded.states)
        return DecoderMemory(layers, visible, encoded.output, alignment)

    def start_cache(self, batch: int, beam: int) -> SelfAttentionCache:
        rounded = self.rounds_keys
        return SelfAttentionCache(len(self.decoder), batch, beam, *self._head_shape(), self.embedding, rounded=rounded)

    def start_fixed_cache(self, batch: int, beam: int, steps: int) -> FixedCache:
        """One whose shapes stay as they are for so many steps."""
        return FixedCache(len(self.decoder), batch, beam, *self._head_shape(), like=self.embedding, steps=steps)

    def _head_shape(self) -> tuple[int, int]:
        return self.config.heads, self.config.dimension // self.config.heads

    def step(self, tokens: Tensor, cache: SelfAttentionCache, memory: DecoderMemory) -> Tensor:
        """One more position: tokens (batch, beam) → states (batch, beam, d); the cache remembers them.

        The first step may be given one hypothesis a sentence, (batch, 1).
        """
        *_, last = self._streams(tokens, cache, memory)
        return self._complete(self._hidden(last.seen), last.seen, tokens)

    def step_aligned(self, tokens: Tensor, cache: SelfAttentionCache, memory: DecoderMemory) -> tuple[Tensor, Tensor]:
        """The same, and what the token that follows each hypothesis translates, (batch, beam, source)."""
        assert self.alignment is not None and memory.alignment is not None
        streams = list(self._streams(tokens, cache, memory))
        mask = memory.visible.mask[
            ..., -memory.alignment.shape[2] :
        ]  # without the constraints, which stand before the source
        alignment: Tensor = self.alignment(streams[self.config.alignment_layer - 1].seen, memory.alignment, mask)
        return self._complete(self._hidden(streams[-1].seen), streams[-1].seen, tokens), alignment

    def _streams(self, tokens: Tensor, cache: SelfAttentionCache, memory: DecoderMemory) -> Iterator[Stream]:
        """What each layer hands on in a step, one after the other."""
        states = self.embed(tokens, None) + cache.row_of(self.positions)
        cache.begin_step(tokens.shape[1])
        layers = list(self.decoder)
        stream = Stream(states, layers[0].self_attention_residual.enter(states))
        for index, (layer, norm) in enumerate(zip(layers, self._norms_behind(), strict=True)):
            stream = layer.step(stream, index, cache, memory.layers[index], memory.visible, norm)
            yield stream
        cache.end_step()

    def scores(self, states: Tensor, output: OutputMemory | None, progress: Progress | None) -> Scores:
        """log P of every token after states (batch, length, d); progress: what the hypotheses have produced."""
        product, vocabulary = self._product(states), len(self.embedding)
        model = Scores.of_logits(product[..., :vocabulary])
        if output is None or self.output is None:
            return model
        if product.shape[-1] > vocabulary:
            model = replace(model, from_states=product[..., vocabulary:])
        with _full_precision(states):
            return self.output.mix(states.float(), model, output, progress)

    def log_probabilities(self, states: Tensor, output: OutputMemory | None, prefix: Tensor | None = None) -> Tensor:
        """The same written out, (batch, length, vocabulary), given all that was produced: (batch, length, tokens)."""
        model = torch.log_softmax(self._logits(states), dim=-1)
        if output is None or self.output is None:
            return model
        with _full_precision(states):
            return self.output.over_vocabulary(states.float(), model, output, prefix)

    def _product(self, states: Tensor) -> Tensor:
        """Logits in float32; behind them, if both are joined, what the output layer makes of states."""
        states = self._hidden(states).contiguous()
        if self.vocabulary_product is not None:
            product: Tensor = self.vocabulary_product(states)
        else:
            bias = None if self.vocabulary_bias is None else self.vocabulary_bias.to(states.dtype)
            product = linear(states, self.embedding.to(states.dtype), bias)
        return product.float()

    def _logits(self, states: Tensor) -> Tensor:
        return self._product(states)[..., : len(self.embedding)]

    def use_precision(self, precision: str) -> None:
        """Make the model ready for inference, and unfit for anything else, in one of PRECISIONS.

        What mixes probabilities stays in float32, and so does what lies between the products of "int8".
        """
        if has_kernels(self.embedding.device):
            self._fold_adapters(None)  # before anything is rounded
        if precision == "bfloat16":
            self.to(torch.bfloat16)
            self.positions = sinusoidal_positions(POSITIONS, self.config.dimension).to(self.embedding)
            if self.output is not None:
                self.output.float()
        elif precision == "int8":
            self._replace_products(QuantisedLinear)
            self.rounds_keys = True  # no more than eight bits do
            if self.constraint_memory is not None and PackedLinear.available():
                replace_linear(self.constraint_memory, RowwiseLinear)  # see `KnownTerms`
        elif self.embedding.device.type == "cpu" and PackedLinear.available():
            self._replace_products(PackedLinear)
        if isinstance(self.output, CopyOutput):
            # In eight bits, query and gate changed neither BLEU nor what is met.
            self.output.join(QuantisedLinear if precision == "int8" else None)
            if precision != "int8" and has_kernels(self.embedding.device):
                self._join_product(self.output)

    def _join_product(self, output: CopyOutput) -> None:
        """On a GPU, a small product takes almost as long as the large one over the vocabulary: let both be one.

        It has the precision of the large one. Rounded to bfloat16, query and gate changed none of 508 outputs.
        """
        weight, bias = (part.to(self.embedding.dtype) for part in output.joined())
        own = torch.zeros_like(self.embedding[:, 0]) if self.vocabulary_bias is None else self.vocabulary_bias
        joined = torch.cat([self.embedding, weight]).detach()
        self.embedding = nn.Parameter(joined[: len(self.embedding)], requires_grad=False)  # no second copy of it
        self.vocabulary_product = frozen_linear(joined, torch.cat([own, bias]))

    def _fold_adapters(self, kind: Product | None) -> None:
        if self.constraint_memory is not None:
            weights, biases = self._projection()
            self.constraint_memory.fold((weights.detach(), biases.detach()), kind)

    def _replace_products(self, kind: Product) -> None:
        self._fold_adapters(kind)
        replace_linear(self.encoder, kind)
        replace_linear(self.decoder, kind)
        bias = None if self.vocabulary_bias is None else self.vocabulary_bias.detach()
        self.vocabulary_product = kind(self.embedding.detach(), bias)


def _final_norm(config: ModelConfig) -> nn.Module:
    """With `pre`, the stream itself is never normalised inside the layers, so it is at their end."""
    return nn.LayerNorm(config.dimension) if config.norm == "pre" else nn.Identity()


def _type_of(module: nn.Module) -> torch.dtype:
    return next(module.parameters()).dtype


def _full_precision(tensor: Tensor) -> torch.autocast:
    return torch.autocast(tensor.device.type, enabled=False)


def constraint_parameters(model: Transformer) -> set[str]:
    """Names of θ_c and of the alignment module, the parameters a vanilla Transformer does not have."""
    added = ("constraint_memory.", "output.", "alignment.")
    return {name for name, _ in model.named_parameters() if name.startswith(added)}
