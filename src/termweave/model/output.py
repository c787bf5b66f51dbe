"""From decoder states to probabilities: the plain softmax and three ways for constraints to reach it.

All variants share one interface and mix P_model with something the constraints propose:

| variant    | mixture                                                        | sums to 1 |
|------------|----------------------------------------------------------------|-----------|
| `paper`    | (1 − g(y,h)) · P_model + g(y,h) · max(0, cos(w_y, h)) on y ∈ t | no        |
| `released` | P_model + g(h) · cos at the one best y ∈ t                     | no        |
| `copy`     | (1 − λ(1 − a_0)) · P_model + λ · attention over the tokens t   | yes       |

A fourth, `pointer`, copies from the source instead (`pointer.py`).
A sentence without constraints gets P_model itself from each of the three. All mixing is done in float32,
whatever the precision of the rest: `Transformer` switches autocast off around these layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.accelerators import has_kernels, laid_out, may_use_kernels
from termweave.config import ModelConfig
from termweave.data.batches import ConstraintTensors, KnownConstraints
from termweave.model import attention_loops, copy_loops, score_loops
from termweave.model.attention import MultiHeadAttention
from termweave.model.coverage import DONE, MARKS, Progress, Slots
from termweave.model.products import PackedLinear, Product, RowwiseLinear, linear
from termweave.model.score_loops import CHUNK

ROWS = 4  # whose distributions fit into a processor's cache
SMALLEST = 1e-12  # probabilities are kept above this before the logarithm


@dataclass(frozen=True)
class Scores:
    """log P = values + offset: (batch, length, vocabulary) and (batch, length), in float32.

    The vocabulary is large, and every pass over it costs time. So the logarithm of the softmax's sum is kept beside
    the logits instead of being subtracted from each of them.
    """

    values: Tensor
    offset: Tensor
    # (batch, length, chunks) the largest of every CHUNK values, where they were found in passing. Few of the values are
    # changed after that; whoever changes many leaves them out. On a CPU, an output layer corrects them for its changes.
    maxima: Tensor | None = None
    # (batch, length, 2 d) what `CopyOutput.from_states` would give, where the product over the vocabulary gave it too.
    from_states: Tensor | None = None

    @staticmethod
    def of_logits(logits: Tensor) -> Scores:
        if has_kernels(logits.device):
            from termweave.model import score_kernels

            maxima, offset = score_kernels.survey(logits, CHUNK)
            return Scores(logits, offset, maxima)
        if attention_loops.can_attend(logits) and not logits.requires_grad:
            maxima, sums = score_loops.survey(logits, CHUNK)
            return Scores(logits, -sums, maxima)
        # log_softmax is one pass, logsumexp several: so the sum is read off one of its results. On the CPU, that is
        # done for a few rows at a time, whose result stays in the processor's cache and is thrown away there.
        rows = logits.flatten(0, 1)
        blocks = torch.split(rows, ROWS) if rows.device.type == "cpu" else (rows,)
        sums = torch.cat([block.log_softmax(dim=-1)[:, 0] for block in blocks]) - rows[:, 0]
        return Scores(logits, sums.view(logits.shape[:2]))

    def at(self, tokens: Tensor) -> Tensor:
        """log P of some tokens, (batch, length, tokens)."""
        return self.values.gather(2, tokens) + self.offset.unsqueeze(2)

    def log_probabilities(self) -> Tensor:
        return self.values + self.offset.unsqueeze(2)


@dataclass(frozen=True)
class OutputMemory:
    """What an output layer keeps of the constraints of a batch, computed once."""

    tokens: Tensor  # (batch, slots) target ids
    filled: Tensor  # (batch, slots) True where a slot holds a token
    vectors: Tensor | None  # (batch, slots, d) embeddings of the tokens; None where nothing of them is asked any more
    keys: Tensor | None = None  # (batch, slots, d) what states are compared with, in `copy`
    context: Tensor | None = None  # (batch, slots, d) what a token attended to means for the gate, in `copy`
    slots: Slots | None = None  # which tokens make up a constraint; None if what was produced does not matter
    token_gate: Tensor | None = None  # (vocabulary,) a_y of `paper`

    @property
    def constrained(self) -> Tensor:
        """(batch,) has this sentence any constraint?"""
        return self.filled.any(dim=1)

    def select(self, rows: Tensor) -> OutputMemory:
        """The memory of some sentences of the batch."""
        return OutputMemory(
            self.tokens.index_select(0, rows),
            self.filled.index_select(0, rows),
            None if self.vectors is None else self.vectors.index_select(0, rows),
            None if self.keys is None else self.keys.index_select(0, rows),
            None if self.context is None else self.context.index_select(0, rows),
            None if self.slots is None else self.slots.select(rows),
            self.token_gate,
        )


class OutputLayer(nn.Module, ABC):
    """Mixes the model's distribution with what the constraints propose.

    Shapes: states (batch, length, d); log-probabilities of the model (batch, length) at the reference or
    (batch, length, vocabulary). While decoding, `length` runs over the hypotheses of a sentence.
    """

    with_positions = False  # are positions added to the embeddings that `remember` gets?

    def remember(self, constraints: ConstraintTensors, vectors: Tensor, embedding: Tensor) -> OutputMemory:
        """vectors: embedded target tokens of the constraints, flat, (tokens, d); embedding: (vocabulary, d)."""
        side = constraints.target
        return OutputMemory(constraints.target_tokens, side.number > 0, side.pad(vectors))

    def at_reference(
        self, states: Tensor, model: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor
    ) -> Tensor:
        """log P of the tokens `target` (batch, length), given the model's own log P of them."""
        mixed = self._mix_at_reference(states, model, target, memory, embedding)
        return torch.where(memory.constrained[:, None], mixed, model)

    def over_vocabulary(
        self, states: Tensor, model: Tensor, memory: OutputMemory, prefix: Tensor | None = None
    ) -> Tensor:
        """log P of all tokens; prefix: (batch, length, tokens so far) what each hypothesis has produced."""
        nothing = memory.tokens.new_empty(*states.shape[:2], 0)
        progress = memory.slots.after(nothing if prefix is None else prefix) if memory.slots else None
        scores = Scores(model.clone(), model.new_zeros(model.shape[:2]))
        return self.mix(states, scores, memory, progress).log_probabilities()

    @abstractmethod
    def gates(self, states: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor) -> Tensor:
        """(batch, length): how far the gate was open for the constraints when each token of `target` was produced."""

    @abstractmethod
    def mix(self, states: Tensor, model: Scores, memory: OutputMemory, progress: Progress | None) -> Scores:
        """The scores of all tokens, given the model's own, which may be overwritten."""

    @abstractmethod
    def _mix_at_reference(
        self, states: Tensor, model: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor
    ) -> Tensor: ...


def _where_constrained(mixed: Tensor, model: Tensor, memory: OutputMemory) -> Scores:
    """log P of all tokens, mixed where there are constraints, the model's own elsewhere."""
    logs = torch.where(memory.constrained[:, None, None], mixed, model)
    return Scores(logs, logs.new_zeros(logs.shape[:2]))


class PaperOutput(OutputLayer):
    """Equations p-plug and gate.

    The gate separates, g(y,h) = σ(a_y + b_h) with a_y = tanh(w_y W1)·W3a and b_h = tanh(h W2)·W3b, so that the whole
    vocabulary costs one vector and one scalar per state.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        dimension = config.dimension
        self.token_gate = nn.Linear(dimension, dimension, bias=False)  # W1
        self.state_gate = nn.Linear(dimension, dimension, bias=False)  # W2
        self.gate = nn.Linear(2 * dimension, 1, bias=False)  # W3

    def token_part(self, embedding: Tensor) -> Tensor:
        """a_y: (…, d) → (…)."""
        return torch.tanh(self.token_gate(embedding)) @ self.gate.weight[0, : embedding.shape[-1]]

    def state_part(self, states: Tensor) -> Tensor:
        """b_h: (…, d) → (…)."""
        return torch.tanh(self.state_gate(states)) @ self.gate.weight[0, states.shape[-1] :]

    def remember(self, constraints: ConstraintTensors, vectors: Tensor, embedding: Tensor) -> OutputMemory:
        memory = super().remember(constraints, vectors, embedding)
        if self.training:  # the loss needs the gate at the reference alone
            return memory
        return replace(memory, token_gate=self.token_part(embedding.to(self.gate.weight)))

    def gates(self, states: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor) -> Tensor:
        return torch.sigmoid(self.token_part(F.embedding(target, embedding)) + self.state_part(states))

    def _mix_at_reference(
        self, states: Tensor, model: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor
    ) -> Tensor:
        vectors = F.embedding(target, embedding)
        gate = torch.sigmoid(self.token_part(vectors) + self.state_part(states))
        cosine = F.cosine_similarity(states, vectors, dim=-1).clamp(min=0)
        plug = cosine * _is_constraint_token(target, memory)
        return ((1 - gate) * model.exp() + gate * plug).clamp(min=SMALLEST).log()

    def mix(self, states: Tensor, model: Scores, memory: OutputMemory, progress: Progress | None) -> Scores:
        assert memory.token_gate is not None and memory.vectors is not None
        gate = torch.sigmoid(memory.token_gate + self.state_part(states).unsqueeze(-1))
        cosine = (F.normalize(states, dim=-1) @ F.normalize(memory.vectors, dim=-1).mT).clamp(min=0)
        # Slots with the same token have the same cosine; the largest is any of them.
        index = memory.tokens.unsqueeze(1).expand(cosine.shape)
        plug = torch.zeros_like(gate).scatter_reduce(2, index, cosine * memory.filled.unsqueeze(1), "amax")
        logs = model.log_probabilities()
        mixed = ((1 - gate) * logs.exp() + gate * plug).clamp(min=SMALLEST).log()
        return _where_constrained(mixed, logs, memory)


def _is_constraint_token(target: Tensor, memory: OutputMemory) -> Tensor:
    """(batch, length): does the token stand in some constraint of its sentence?"""
    return ((target.unsqueeze(2) == memory.tokens.unsqueeze(1)) & memory.filled.unsqueeze(1)).any(dim=2)


class ReleasedOutput(OutputLayer):
    """The authors' released form: one gate per step, one token plugged, nothing taken from P_model."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        dimension = config.dimension
        self.attention = MultiHeadAttention(dimension, config.heads)
        self.context_norm = nn.LayerNorm(dimension)
        self.state_project = nn.Linear(dimension, dimension)
        self.state_norm = nn.LayerNorm(dimension)
        self.gate = nn.Linear(2 * dimension, 1)

    def remember(self, constraints: ConstraintTensors, vectors: Tensor, embedding: Tensor) -> OutputMemory:
        memory = super().remember(constraints, vectors, embedding)
        if self.training:  # only while decoding is a token plugged once
            return memory
        return replace(memory, slots=Slots.of(memory.tokens, constraints.target.number))

    def gates(self, states: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor) -> Tensor:
        return self._gate(states, memory)

    def _gate(self, states: Tensor, memory: OutputMemory) -> Tensor:
        assert memory.vectors is not None
        seen = memory.filled | ~memory.constrained[:, None]
        queries = self.attention.queries(states)
        context = self.attention(queries, self.attention.project(memory.vectors), mask=seen[:, None, None])
        features = torch.cat([self.context_norm(context), self.state_norm(self.state_project(states))], dim=-1)
        return torch.sigmoid(self.gate(torch.tanh(features)).squeeze(-1))

    def _best(self, states: Tensor, memory: OutputMemory, free: Tensor) -> tuple[Tensor, Tensor]:
        """The token of the best cosine among the free slots, and its share of the probability, (batch, length) each."""
        assert memory.vectors is not None
        gate = self._gate(states, memory)
        cosine = F.normalize(states, dim=-1) @ F.normalize(memory.vectors, dim=-1).mT
        # A slot that is empty or used up counts as cosine 0 and proposes nothing.
        best, slot = (cosine * free).max(dim=-1)
        proposes = free.gather(2, slot.unsqueeze(-1)).squeeze(-1)
        token = memory.tokens.gather(1, slot)
        return token, gate * best * proposes

    def _mix_at_reference(
        self, states: Tensor, model: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor
    ) -> Tensor:
        free = memory.filled.unsqueeze(1).expand(-1, states.shape[1], -1)
        token, plug = self._best(states, memory, free)
        return (model.exp() + plug * (token == target)).clamp(SMALLEST, 1.0).log()

    def mix(self, states: Tensor, model: Scores, memory: OutputMemory, progress: Progress | None) -> Scores:
        free = memory.filled.unsqueeze(1).expand(-1, states.shape[1], -1)
        if progress is not None:
            free = free & ~progress.used
        token, plug = self._best(states, memory, free)
        logs = model.log_probabilities()
        mixed = logs.exp().scatter_add(2, token.unsqueeze(2), plug.unsqueeze(2))
        return _where_constrained(mixed.clamp(SMALLEST, 1.0).log(), logs, memory)


class CopyOutput(OutputLayer):
    """Termweave's own: copy from an attention over the constraint tokens, with a slot for "nothing to copy".

    A token's key is made from its embedding, its position inside the constraint and the token before it, and from its
    mark: what to copy next depends on what was copied already (`coverage`). With attention a over [null; tokens] and
    gate λ(h, context, marks): P = (1 − λ(1 − a_0)) · P_model + λ · Σ a_i on t_i, a proper distribution.
    """

    with_positions = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        dimension = config.dimension
        self.query = nn.Linear(dimension, dimension)
        self.key = nn.Linear(dimension, dimension)
        self.previous = nn.Linear(dimension, dimension, bias=False)
        self.mark_keys = nn.Parameter(torch.zeros(MARKS, dimension))
        self.null = nn.Parameter(torch.zeros(2, dimension))  # when all constraints are done; while one is open
        self.context = nn.Linear(dimension, dimension)
        self.state = nn.Linear(dimension, dimension)
        self.marks = nn.Linear(MARKS + 1, dimension, bias=False)
        self.gate = nn.Linear(dimension, 1)
        # Set by `join`: of states, and of the vectors of constraints.
        self._joined: Callable[[Tensor], Tensor] | None = None
        self._joined_for_constraints: Callable[[Tensor], Tensor] | None = None
        self._mark_weights: Tensor | None = None

    def join(self, kind: Product | None = None) -> None:
        """For inference: products of the same input as one, whose weights no longer change, and lie as kernels read.

        kind: of that of states, which every step needs.
        """
        weight, bias = self.joined()
        packs = weight.device.type == "cpu" and PackedLinear.available()
        kind = kind or (PackedLinear if packs else None)
        self._joined = kind(weight, bias) if kind else partial(F.linear, weight=weight, bias=bias)
        if has_kernels(weight.device):
            self._mark_weights = self.marks.weight.detach().t().contiguous()
        weight = torch.cat([self.key.weight, self.previous.weight, self.context.weight]).detach()
        bias = F.pad(self.key.bias.detach(), (0, 2 * len(self.key.bias)))
        joined = RowwiseLinear(weight, bias) if packs else partial(linear, weight=weight, bias=bias)
        self._joined_for_constraints = joined

    @property
    def mark_weights(self) -> Tensor:
        """(marks + 1, d): what the marks say to the gate. Side by side, so that a warp reads them at once."""
        return self.marks.weight.t() if self._mark_weights is None else self._mark_weights

    def joined(self) -> tuple[Tensor, Tensor]:
        """Weight (2 d, d) and bias of `query` and `state` together."""
        weight = torch.cat([self.query.weight, self.state.weight]).detach()
        return weight, torch.cat([self.query.bias, self.state.bias]).detach()

    def from_states(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The query of each state, and what the state says to the gate, (…, d) each."""
        if self._joined is None:
            return self.query(states), self.state(states)
        queries, from_state = self._joined(states).chunk(2, dim=-1)
        return queries, from_state

    def remember(self, constraints: ConstraintTensors, vectors: Tensor, embedding: Tensor) -> OutputMemory:
        product = self._joined_for_constraints
        if product is not None and may_use_kernels(vectors.device):
            from termweave.model import copy_kernels

            if copy_kernels.can_remember(constraints):
                keys, context, filled, slots = copy_kernels.remember(constraints, product(vectors))
                return OutputMemory(slots.tokens, filled, None, keys, context, slots)
        if product is not None and not torch.is_grad_enabled():
            side = constraints.target  # of its padded slots, most would be for nothing
            both = _keys_and_context(side.positions, side.once(product, vectors))
            return _remembered(constraints, *map(side.spread, both))
        memory = super().remember(constraints, vectors, embedding)
        assert memory.vectors is not None
        number = constraints.target.number
        continues = number[:, 1:] == number[:, :-1]  # the first token of a constraint has none before it
        before = F.pad(memory.vectors[:, :-1] * continues.unsqueeze(2), (0, 0, 1, 0))
        keys = self.key(memory.vectors) + self.previous(before)
        # The context's projection is linear, so it is done once for each slot, not for each state that attends to it.
        context = F.linear(memory.vectors, self.context.weight)
        return replace(memory, keys=keys, context=context, slots=Slots.of(memory.tokens, number))

    def alone(self, positions: Tensor, vectors: Tensor) -> Tensor:
        """(tokens, 2, d) keys and context of flat target tokens, in half precision, once products are joined."""
        assert self._joined_for_constraints is not None
        products = self._joined_for_constraints(vectors)
        return torch.stack([own.half() for own in _keys_and_context(positions, products)], dim=1)

    def known(self, constraints: ConstraintTensors, known: KnownConstraints) -> OutputMemory:
        """As `remember` gives it."""
        rows = known.copied.index_select(0, known.target.flatten()).view(*known.target.shape, 2, -1)
        return _remembered(constraints, *laid_out(*rows.unbind(2)))

    def _shares(self, states: Tensor, memory: OutputMemory, marks: Tensor) -> tuple[Tensor, Tensor]:
        """What each slot gets, (batch, length, slots), and what is left to the model, (batch, length, 1)."""
        assert memory.keys is not None and memory.context is not None
        keys, remembered = memory.keys.to(states.dtype), memory.context.to(states.dtype)
        filled = memory.filled.unsqueeze(1)
        is_open = ((marks != DONE) & filled).any(dim=-1, keepdim=True)
        queries, from_state = self.from_states(states)
        queries = queries * states.shape[-1] ** -0.5
        scores = queries @ keys.mT + (queries @ self.mark_keys.mT).gather(2, marks)
        null = (queries @ self.null.mT).gather(2, is_open.long())
        scores = torch.cat([null, scores.masked_fill(~filled, float("-inf"))], dim=-1)
        attention = scores.softmax(dim=-1)[..., 1:]
        by_mark = attention.new_zeros(*states.shape[:2], MARKS).scatter_add(2, marks, attention)
        marked = self.marks(torch.cat([by_mark, is_open.to(attention.dtype)], dim=-1))
        context = attention @ remembered + self.context.bias
        hidden = torch.tanh(context + from_state + marked)
        shares = torch.sigmoid(self.gate(hidden)) * attention
        return shares, (1 - shares.sum(dim=-1, keepdim=True)).clamp(min=SMALLEST)

    def gates(self, states: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor) -> Tensor:
        """What is left to the model is what does not go through the gate."""
        assert memory.slots is not None
        return 1 - self._shares(states, memory, memory.slots.marks_along(target))[1].squeeze(-1)

    def _mix_at_reference(
        self, states: Tensor, model: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor
    ) -> Tensor:
        assert memory.slots is not None
        shares, rest = self._shares(states, memory, memory.slots.marks_along(target))
        copied = (shares * (target.unsqueeze(2) == memory.tokens.unsqueeze(1))).sum(dim=-1)
        return torch.logaddexp(model + rest.squeeze(-1).log(), copied.clamp(min=SMALLEST).log())

    def mix(self, states: Tensor, model: Scores, memory: OutputMemory, progress: Progress | None) -> Scores:
        """All tokens but those of constraints change by a common factor, which is the offset's; only they are touched.

        A token that stands in several slots gets the sum of their shares, in each of them.
        """
        assert memory.slots is not None and progress is not None
        if has_kernels(states.device):
            from termweave.model import copy_kernels

            if copy_kernels.can_mix(memory, states.shape[2]):
                offset = copy_kernels.mix(self, states, model, memory, progress, SMALLEST)
                return Scores(model.values, offset, model.maxima)
        elif attention_loops.can_attend(states) and not torch.is_grad_enabled():
            offset = copy_loops.mix(self, states, model, memory, progress, SMALLEST)
            return Scores(model.values, offset, model.maxima)
        shares, rest = self._shares(states, memory, memory.slots.marks(progress))
        same = memory.tokens.unsqueeze(2) == memory.tokens.unsqueeze(1)
        copied = shares @ (same & memory.filled.unsqueeze(1)).to(shares.dtype)
        # A sentence without constraints has no shares at all: its rest is exactly 1, and its offset stays.
        offset = (model.offset + rest.squeeze(2).log()).unsqueeze(2)
        index = memory.tokens.unsqueeze(1).expand(shares.shape)
        values = model.values.gather(2, index)
        mixed = torch.logaddexp(values + offset, copied.clamp(min=SMALLEST).log()) - offset
        mixed = torch.where(memory.filled.unsqueeze(1), mixed, values)
        maxima = model.maxima if has_kernels(states.device) else None
        return Scores(model.values.scatter_(2, index, mixed), offset.squeeze(2), maxima)


def _keys_and_context(positions: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
    """(tokens, 3 d) → (tokens, d) each."""
    keys, previous, context = products.chunk(3, dim=-1)
    # The first token of a constraint has none before it.
    before = F.pad(previous[:-1], (0, 0, 1, 0)) * (positions > 0).unsqueeze(1)
    return keys + before, context


def _remembered(constraints: ConstraintTensors, keys: Tensor, context: Tensor) -> OutputMemory:
    """Of slots, (batch, slots, d) each; what empty ones hold is hidden."""
    slots = Slots.of(constraints.target_tokens, constraints.target.number)
    return OutputMemory(slots.tokens, constraints.target.number > 0, None, keys, context, slots)


def output_layer(config: ModelConfig) -> OutputLayer | None:
    """The output layer a configuration asks for; None is the plain softmax."""
    if not config.output:
        return None
    if config.variant == "paper":
        return PaperOutput(config)
    if config.variant == "released":
        return ReleasedOutput(config)
    return CopyOutput(config)
