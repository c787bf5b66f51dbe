"""What the alignment module of CDAlign learns: the word links of the prepared corpus, while all the rest is frozen."""

from __future__ import annotations

from torch import Tensor, nn

from termweave.data.batches import Batch
from termweave.model.transformer import Transformer

SMALLEST = 1e-9  # attention is kept above this before the logarithm


class AlignmentObjective(nn.Module):
    """−Σ log a over the links of a batch, each weighed by its share of its target token."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        assert model.alignment is not None
        self.model = model
        model.requires_grad_(False)
        model.alignment.requires_grad_(True)

    def train(self, mode: bool = True) -> AlignmentObjective:
        """What is frozen is looked at as it will be in translation, without dropout."""
        super().train(mode)
        self.model.eval()
        return self

    def compile_parts(self) -> None:
        """Nothing: the stage is short, and compiling would take as long as it saves."""

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss twice: there is no smoothing, so it is the negative log-likelihood as well."""
        assert batch.links is not None
        alignment = self.model.align(batch.target_input, self.model.encode(batch.source))
        logs = alignment.clamp(min=SMALLEST).log().flatten()
        loss = -(logs[batch.links.places] * batch.links.shares).sum()
        return loss, loss.detach()
