"""Where kernels of our own can run: on devices that Triton compiles for, if it is there."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

WITH_KERNELS = ("cuda",)  # devices


def has_kernels(device: torch.device) -> bool:
    return device.type in WITH_KERNELS and find_spec("triton") is not None


def laid_out(*tensors: Tensor) -> tuple[Tensor, ...]:
    """As kernels' addresses have it; nothing is copied that lies so already."""
    return tuple(tensor.contiguous() for tensor in tensors)
