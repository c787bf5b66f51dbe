"""Material shared by the tests: small models with random weights and random batches, all seeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from termweave.config import ModelConfig
from termweave.data.batches import Batch, constraints_from_ids
from termweave.model import attention_loops
from termweave.model.transformer import Transformer

VOCABULARY, PADDING = 40, 0

# The models here are tiny. Several threads gain nothing on them, and lose much where other programs use the cores too.
torch.set_num_threads(1)

Pairs = Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]]


@pytest.fixture(scope="module")
def without_loops() -> Iterator[None]:
    """On a CPU, torch's operations alone: what kernels are compared with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_loops, "MOST_THREADS", 0)
        yield


@pytest.fixture
def make_model() -> Callable[..., Transformer]:
    def make(seed: int = 0, **settings: object) -> Transformer:
        torch.manual_seed(seed)
        sizes = {
            "dimension": 16,
            "heads": 2,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "feed_forward": 24,
            "dropout": 0.0,
        }
        config = ModelConfig(**{**sizes, **settings})  # type: ignore[arg-type]
        model = Transformer(config, VOCABULARY, PADDING)
        for parameter in model.parameters():  # biases start at zero, which would hide mistakes with them
            if parameter.dim() == 1:
                torch.nn.init.normal_(parameter, mean=0.1, std=0.3)
        return model.eval()

    return make


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    def make(
        source: list[list[int]], target: list[list[int]], constraints: Pairs | None = None, width: int = 0
    ) -> Batch:
        """Rows of ids → a batch, padded to the longest row or to `width`. Begin is 2, end is 3."""

        def padded(rows: list[list[int]]) -> torch.Tensor:
            longest = max(width, *(len(row) for row in rows))
            return torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])

        expected = padded([[*row, 3] for row in target])
        given = padded([[2, *row] for row in target])
        weights = (expected != PADDING).float()
        return Batch(
            source=padded([[*row, 3] for row in source]),
            target_input=given,
            target=expected,
            weights=weights,
            constraints=constraints_from_ids(constraints, PADDING) if constraints is not None else None,
            tokens=int(weights.sum()),
            weight=float(weights.sum()),
        )

    return make
