"""Where kernels of our own can run: on devices that Triton compiles for, if it is there."""

from __future__ import annotations

from importlib.util import find_spec

import torch

WITH_KERNELS = ("cuda",)  # devices


def has_kernels(device: torch.device) -> bool:
    return device.type in WITH_KERNELS and find_spec("triton") is not None
