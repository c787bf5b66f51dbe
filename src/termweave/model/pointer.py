"""The pointer of `Replace` (Song et al., 2019): a share of the probability is copied from the source.

There, constraints stand in the source itself, in the place of what they translate, and the model learns to carry such
words over. With attention a, the mean over the heads of the last decoder layer's cross-attention, and a gate p:

    P(y) = p · softmax(y) + (1 − p) · Σ a_i over all source tokens x_i = y,   p = σ(Linear[w(y_t−1); h])

The attention and the token before are known to the decoder alone, so its states carry them: behind h, each has the
gate's logit and the attention to every source token, (batch, length, d + 1 + source).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from termweave.config import ModelConfig
from termweave.model.attention import KeysValues, Visible, mean_weights
from termweave.model.cache import SelfAttentionCache
from termweave.model.coverage import Progress
from termweave.model.layers import DecoderLayer, Stream
from termweave.model.output import SMALLEST, OutputLayer, OutputMemory, Scores
from termweave.model.vectors import Extra


class PointingLayer(DecoderLayer):
    """The last decoder layer of a pointer: behind its states stands where its cross-attention looked."""

    def forward(self, states: Tensor, encoded: Tensor, mask: Tensor, extra: Extra | None) -> Tensor:
        states, queries = self._look_back(states)
        memory = self.memory(encoded, extra)
        looks = mean_weights(queries, memory.keys, mask)
        return torch.cat([self._look_over(states, queries, memory, mask), looks], dim=-1)

    def step(
        self,
        stream: Stream,
        layer: int,
        cache: SelfAttentionCache,
        memory: KeysValues,
        visible: Visible,
        following: nn.Module,
    ) -> Stream:
        stream, queries = self._step_back(stream, layer, cache)
        looks = mean_weights(queries, memory.keys, visible.mask)
        stream = self._step_over(stream, queries, memory, visible, following)
        return Stream(stream.states, torch.cat([stream.seen, looks], dim=-1))


class PointerOutput(OutputLayer):
    """Its memory are the source tokens, not the constraints, which it cannot tell from the rest of the source."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dimension = config.dimension
        self.gate = nn.Linear(2 * config.dimension, 1)  # of [embedding of the token before; h]

    def complete(self, hidden: Tensor, looks: Tensor, before: Tensor) -> Tensor:
        """States with all that is needed: h (batch, length, d), attention, embedding of the token before (…, d)."""
        weight = self.gate.weight
        logit = self.gate(torch.cat([before.to(weight.dtype), hidden.to(weight.dtype)], dim=-1))
        return torch.cat([hidden, logit, looks], dim=-1)

    def remember_source(self, source: Tensor, padding: int) -> OutputMemory:
        """source: (batch, length) ids."""
        vectors = torch.empty(*source.shape, 0, device=source.device)  # tokens are compared, not their embeddings
        return OutputMemory(source, source != padding, vectors)

    def _split(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Logit of the gate, (batch, length), and attention, (batch, length, source)."""
        return states[..., self.dimension], states[..., self.dimension + 1 :]

    def gates(self, states: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor) -> Tensor:
        """The share that is copied, 1 − p."""
        return torch.sigmoid(-self._split(states)[0])

    def _mix_at_reference(
        self, states: Tensor, model: Tensor, target: Tensor, memory: OutputMemory, embedding: Tensor
    ) -> Tensor:
        logit, looks = self._split(states)
        looked = (looks * (target.unsqueeze(2) == memory.tokens.unsqueeze(1))).sum(dim=-1)
        copied = F.logsigmoid(-logit) + looked.clamp(min=SMALLEST).log()
        return torch.logaddexp(F.logsigmoid(logit) + model, copied)

    def mix(self, states: Tensor, model: Scores, memory: OutputMemory, progress: Progress | None) -> Scores:
        """As in `copy`, only the tokens of the source are touched; what all have in common is the offset's."""
        logit, looks = self._split(states)
        same = memory.tokens.unsqueeze(2) == memory.tokens.unsqueeze(1)
        looked = looks @ (same & memory.filled.unsqueeze(1)).to(looks.dtype)
        copied = F.logsigmoid(-logit).unsqueeze(2) + looked.clamp(min=SMALLEST).log()
        offset = (model.offset + F.logsigmoid(logit)).unsqueeze(2)
        index = memory.tokens.unsqueeze(1).expand(looks.shape)
        values = model.values.gather(2, index)
        mixed = torch.logaddexp(values + offset, copied) - offset
        mixed = torch.where(memory.filled.unsqueeze(1), mixed, values)
        return Scores(model.values.scatter_(2, index, mixed), offset.squeeze(2))
