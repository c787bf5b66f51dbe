"""Matrix products with weights, for few rows as fast as the processor's memory allows."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW = 32  # rows
MANY = 256

Product = Callable[[Tensor, Tensor | None], nn.Module]  # makes one of a weight (outputs, inputs) and a bias (outputs,)


def linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """states (…, inputs) times weight (outputs, inputs), plus bias (outputs,).

    A product with few rows reads the weights once and hardly computes. On the CPU, libraries do that better with the
    weights on the left: four states times a vocabulary of 32,000 take 7 ms this way, 12 ms the other.
    """
    rows = states.numel() // states.shape[-1] if _may_turn(states) else 0
    if not 0 < rows <= FEW:
        return F.linear(states, weight, bias)
    turned = (weight @ states.reshape(rows, -1).t()).t()
    result = states.new_empty(*states.shape[:-1], weight.shape[0])
    flat = result.view(rows, -1)
    if bias is None:
        flat.copy_(turned)
    else:
        torch.add(turned, bias, out=flat)
    return result


def _may_turn(states: Tensor) -> bool:
    """Not in training, where products are large, differentiated and compiled."""
    return states.device.type == "cpu" and not torch.is_grad_enabled() and not torch.compiler.is_compiling()


class Linear(nn.Linear):
    """`nn.Linear` by this product."""

    def forward(self, states: Tensor) -> Tensor:
        return linear(states, self.weight, self.bias)

    def part(self, states: Tensor, start: int, stop: int) -> Tensor:
        """Some of the outputs, (…, stop − start)."""
        return linear(states, self.weight[start:stop], self.bias[start:stop])


def frozen_linear(weight: Tensor, bias: Tensor) -> Linear:
    """One whose weights no longer change."""
    product = Linear(weight.shape[1], weight.shape[0], device="meta")
    product.weight, product.bias = (nn.Parameter(part.detach(), requires_grad=False) for part in (weight, bias))
    return product


class PackedLinear(nn.Module):
    """Stands in for a `Linear` whose weights no longer change: they are laid out once as oneDNN likes them best.

    That takes the weights' memory a second time.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight: (outputs, inputs); bias: (outputs,)."""
        super().__init__()
        self.weight = weight
        self.bias = bias
        self._packed: dict[tuple[int, int], Tensor] = {}

    @staticmethod
    def available() -> bool:
        return bool(torch._C._has_mkldnn) and hasattr(torch.ops.mkldnn, "_linear_pointwise")

    def forward(self, states: Tensor) -> Tensor:
        return self.part(states, 0, len(self.weight))

    def part(self, states: Tensor, start: int, stop: int) -> Tensor:
        """Some of the outputs, (…, stop − start)."""
        bias = None if self.bias is None else self.bias[start:stop]
        if torch.is_grad_enabled() or not self._pays(states.numel() // states.shape[-1], stop - start):
            return F.linear(states, self.weight[start:stop], bias)
        if (start, stop) not in self._packed:  # packed when first needed: an attention may never need all its parts
            self._packed[start, stop] = torch.ops.mkldnn._reorder_linear_weight(self.weight[start:stop].detach(), FEW)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(states, self._packed[start, stop], bias, "none", [], "")
        return result

    def _pays(self, rows: int, outputs: int) -> bool:
        # Measured: with many rows, and where outputs are fewer than inputs, the plain product is the faster one.
        return 0 < rows <= (MANY if outputs >= self.weight.shape[1] else FEW)


class RowwiseLinear(PackedLinear):
    """One whose rows come out the same, to the last bit, in whatever company: they all go through the same product.

    The plain one adds up few rows in another order than many.
    """

    def _pays(self, rows: int, outputs: int) -> bool:
        return rows > 0


def replace_linear(module: nn.Module, kind: Product) -> None:
    """Put another kind of product in the place of every `Linear` inside a module."""
    for name, child in module.named_children():
        if isinstance(child, Linear):
            setattr(module, name, kind(child.weight, child.bias))
        else:
            replace_linear(child, kind)
