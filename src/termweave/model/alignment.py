"""Which source token the next target token translates: the alignment module of CDAlign (Chen et al., 2021).

An attention of its own beside the decoder: its queries are what a decoder layer hands on, its keys are the encoder's
states, and the mean over its heads is the alignment. It has no values, for nothing of it goes back into the model. It
looks at the states from which a token is predicted, so it speaks before that token is known.
"""

from __future__ import annotations

from torch import Tensor, nn

from termweave.config import ModelConfig
from termweave.model.attention import mean_weights
from termweave.model.products import Linear


class Alignment(nn.Module):
    """Attention weights, trained on word links while all the rest of the model stays as it is."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = Linear(config.dimension, config.dimension)
        self.key = Linear(config.dimension, config.dimension)

    def keys(self, encoded: Tensor) -> Tensor:
        """Of the encoder's states (batch, source, d); they stay the same for all steps of a sentence."""
        return self._split(self.key(encoded))

    def forward(self, states: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """(batch, length, source), rows that sum to 1. states: (batch, length, d); mask as in `mean_weights`."""
        return mean_weights(self._split(self.query(states)), keys, mask)

    def _split(self, states: Tensor) -> Tensor:
        """(batch, length, d) → (batch, heads, length, d / heads)."""
        return states.view(*states.shape[:2], self.heads, -1).transpose(1, 2)
