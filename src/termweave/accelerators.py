"""Devices: which one to use, and where kernels of our own can run, if Triton is there to compile them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

import torch
from torch import Tensor

from termweave.errors import ConfigError

WITH_KERNELS = ("cuda",)  # devices


def has_kernels(device: torch.device) -> bool:
    return device.type in WITH_KERNELS and find_spec("triton") is not None


def may_use_kernels(device: torch.device) -> bool:
    """For what is also trained: our kernels have no derivatives, and torch compiles what it trains by itself."""
    training = torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)
    return not training and has_kernels(device)


def laid_out(*tensors: Tensor) -> tuple[Tensor, ...]:
    """As kernels' addresses have it; nothing is copied that lies so already."""
    return tuple(tensor.contiguous() for tensor in tensors)


def in_rows(tensor: Tensor) -> Tensor:
    """With the last axis in one piece; the others may lie anyhow, as in a part of a projection."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def current(device: torch.device) -> AbstractContextManager[object]:
    """Kernels of our own run on the device that is current, whatever device their tensors lie on."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def row_width(rows: Tensor) -> int:
    """How far apart the rows of (batch, length, n) lie for a kernel; something else may stand between them."""
    assert rows.stride(2) == 1 and rows.stride(0) == rows.shape[1] * rows.stride(1)
    return rows.stride(1)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """To a device, without a wait for what it is still doing: only from memory that is not paged can it read later."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()  # itself, if it is there already
    return tensor.to(device, non_blocking=True)


def sent_together(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Several small tensors of one type, in a single piece: a copy takes its time, however little it copies."""
    if device.type != "cuda" or any(tensor.device.type != "cpu" for tensor in tensors):
        return [tensor.to(device) for tensor in tensors]
    sizes = [tensor.numel() for tensor in tensors]
    piece = torch.empty(sum(sizes), dtype=tensors[0].dtype, pin_memory=True)
    torch.cat([tensor.reshape(-1) for tensor in tensors], out=piece)
    parts = torch.split(sent(piece, device), sizes)
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def allow_fast_products() -> None:
    """Let a GPU round the factors of float32 products (TF32), which makes them several times as fast.

    Our commands do that for themselves. A program that uses the package decides on its own: it holds for all of torch.
    """
    torch.set_float32_matmul_precision("high")


def choose_device(name: str) -> torch.device:
    """ "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"unknown device {name!r}; use auto, cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not supported; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device was found; use --device cpu, or install a CUDA build of torch")
    return device
