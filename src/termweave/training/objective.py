"""The training objective of section 3.3, with label smoothing, as a module that can be compiled and distributed.

The mixture with the constraints is needed only at the reference token; label smoothing uses the model's own
distribution. So no (tokens, vocabulary) tensor of mixed probabilities is ever made.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._inductor import config as inductor_config
from torch.fx.experimental import _config as symbolic_shapes_config

from termweave.data.batches import Batch
from termweave.model.output import OutputMemory
from termweave.model.transformer import Transformer


def score_reference(
    states: Tensor, embedding: Tensor, target: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The model's own log P of the reference, and its mean log P over the vocabulary; both (batch, length).

    What a pointer's states carry behind h is no part of it.
    """
    logits = F.linear(states[..., : embedding.shape[1]], embedding, bias).float()
    normaliser = logits.logsumexp(dim=-1)
    return _pick(logits, target) - normaliser, logits.mean(dim=-1) - normaliser


def _pick(logits: Tensor, target: Tensor) -> Tensor:
    """The logit of each target.

    Compiled, a gather would fill a tensor of zeros as large as the logits on the way back; a sum over all but one token
    hidden becomes a part of the passes that are made anyway, in both directions.
    """
    if not torch.compiler.is_compiling():
        return logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    tokens = torch.arange(logits.shape[-1], device=logits.device)
    return torch.where(tokens == target.unsqueeze(-1), logits, 0).sum(dim=-1)


class Objective(nn.Module):
    """−Σ weight · ((1 − ε) log P(y_t) + ε · mean log P_model), summed over a batch; alpha and beta are the weights."""

    def __init__(self, model: Transformer, label_smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.score_reference = score_reference
        self.mix_at_reference = _mix_at_reference

    def compile_parts(self, backend: str = "inductor") -> None:
        """Compile layer by layer, for all shapes at once: that starts in seconds, a whole-model graph in minutes."""
        # Two sizes that happen to be equal in the first batch stay independent; else the next batch compiles anew.
        symbolic_shapes_config.use_duck_shape = False
        # This analysis fails on some symbolic shapes (an assertion inside torch 2.11), depending on the first batch.
        inductor_config.triton.coalesce_tiling_analysis = False
        for layer in (*self.model.encoder, *self.model.decoder):
            layer.compile(dynamic=True, backend=backend)
        if self.model.constraint_memory is not None:
            self.model.constraint_memory.compile(dynamic=True, backend=backend)
        self.score_reference = torch.compile(score_reference, dynamic=True, backend=backend)
        self.mix_at_reference = torch.compile(_mix_at_reference, dynamic=True, backend=backend)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(smoothed loss, negative log-likelihood of the reference), both weighted sums over the batch."""
        model = self.model
        encoded = model.encode(batch.source, batch.constraints)
        states = model.decode(batch.target_input, encoded)
        at_reference, mean = self.score_reference(states, model.embedding, batch.target, model.vocabulary_bias)
        if encoded.output is not None and model.output is not None:
            with torch.autocast(states.device.type, enabled=False):
                at_reference = self.mix_at_reference(model, states.float(), at_reference, batch.target, encoded.output)
        likelihood = -(at_reference * batch.weights).sum()
        smoothing = -(mean * batch.weights).sum()
        loss = (1 - self.label_smoothing) * likelihood + self.label_smoothing * smoothing
        return loss, likelihood.detach()


def _mix_at_reference(
    model: Transformer, states: Tensor, at_reference: Tensor, target: Tensor, memory: OutputMemory
) -> Tensor:
    assert model.output is not None
    return model.output.at_reference(states, at_reference, target, memory, model.embedding)
