"""Linear layers with weights of eight bits, for inference on the CPU.

A weight is kept as an integer, with one scale for each output; the states are turned into integers for every product
anew, with one scale for all of them. Reading a quarter of the bytes is most of the gain where rows are few.

Because the states of a batch share their scale, a sentence may come out a little differently in another batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch
from torch import Tensor, nn

LARGEST = 127
MANY = 4096  # outputs


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Integers of the weight's shape, and what one of each row is worth, (…, rows)."""
    weight = weight.detach().float()
    scales = weight.abs().amax(dim=-1).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
    integers = (weight / scales.unsqueeze(-1)).round().clamp(-LARGEST, LARGEST)
    return integers.to(torch.int8), scales


class QuantisedLinear(nn.Module):
    """Stands in for a `Linear`: same calls, other arithmetic."""

    integers: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight: (outputs, inputs); bias: (outputs,)."""
        super().__init__()
        integers, scales = quantise(weight)
        self.register_buffer("integers", integers)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", None if bias is None else bias.detach().float())
        self._packed: dict[tuple[int, int], torch.ScriptObject] = {}
        self._packed_alone: torch.ScriptObject | None = None  # without the bias

    @property
    def weight(self) -> Tensor:
        """What the integers stand for, (outputs, inputs)."""
        return self.integers * self.scales.unsqueeze(1)

    def forward(self, states: Tensor) -> Tensor:
        return self.part(states, 0, len(self.integers))

    def part(self, states: Tensor, start: int, stop: int) -> Tensor:
        """Some of the outputs, (…, stop − start)."""
        # Integers of seven bits for the states: with eight, the sums of older processors overflow.
        product = torch.ops.quantized.linear_dynamic(states.float(), self._part(start, stop), reduce_range=True)
        result: Tensor = product.to(states.dtype)
        return result

    def relu(self, states: Tensor) -> Tensor:
        """F.relu of the outputs, applied along with the product instead of in a pass of its own."""
        packed = self._part(0, len(self.integers))
        product = torch.ops.quantized.linear_relu_dynamic(states.float(), packed, reduce_range=True)
        result: Tensor = product.to(states.dtype)
        return result

    def by_row(self, states: Tensor, lowest: float = -1) -> Tensor:
        """The same with a scale for each of the rows (rows, inputs): a row comes out the same in whatever company.

        lowest: 0 where no state is negative, which leaves twice as many integers for the others.
        """
        if self._packed_alone is None:
            self._packed_alone = self._pack(0, len(self.integers), with_bias=False)
        largest = (states if lowest == 0 else states.abs()).amax(dim=1, keepdim=True)
        scales = largest.clamp_(min=torch.finfo(torch.float32).tiny)
        scaled = states.new_empty(len(states) + 1, states.shape[1])
        torch.div(states, scales, out=scaled[:-1])
        # A row more, by which the integers always stand for `lowest` to 1.
        bounds = scaled[-1].zero_()
        bounds[0], bounds[-1] = lowest, 1
        product = torch.ops.quantized.linear_dynamic(scaled, self._packed_alone, reduce_range=True)[:-1]
        result: Tensor = product.mul_(scales) if self.bias is None else torch.addcmul(self.bias, product, scales)
        return result

    def _part(self, start: int, stop: int) -> torch.ScriptObject:
        if (start, stop) not in self._packed:  # packed when first needed: an attention may never need all its parts
            self._packed[start, stop] = self._pack(start, stop)
        return self._packed[start, stop]

    def _pack(self, start: int, stop: int, with_bias: bool = True) -> torch.ScriptObject:
        bias = None if self.bias is None or not with_bias else self.bias[start:stop]
        scales = self.scales[start:stop].double()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # torch means to drop these tensors one day; there is nothing to be done yet
            weight = torch._make_per_channel_quantized_tensor(
                self.integers[start:stop], scales, torch.zeros_like(scales, dtype=torch.long), 0
            )
            with _engine_for(stop - start):
                packed: torch.ScriptObject = torch.ops.quantized.linear_prepack(weight, bias)
        return packed


_choosing = Lock()  # torch has one engine for all threads


@contextmanager
def _engine_for(outputs: int) -> Iterator[None]:
    """While it is packed, a weight is bound to what will compute with it.

    oneDNN makes products with a whole vocabulary in seven tenths of the time that torch's own choice takes, and smaller
    ones in more, where the processor has instructions for sums of eight bits.
    """
    engines, has_sums = torch.backends.quantized, getattr(torch.cpu, "_is_vnni_supported", bool)
    if outputs < MANY or "onednn" not in engines.supported_engines or not has_sums():
        yield
        return
    with _choosing:
        usual, engines.engine = engines.engine, "onednn"
        try:
            yield
        finally:
            engines.engine = usual
