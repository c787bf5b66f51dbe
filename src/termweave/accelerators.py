"""Devices: which one to use, and where kernels of our own can run, if Triton is there to compile them."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np
import torch
from torch import Tensor

from termweave.errors import ConfigError
from termweave.storage import Array

WITH_KERNELS = ("cuda",)  # devices
CPU = torch.device("cpu")
ALIGNMENT = 64  # bytes, of tensors in memory they share
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # as in malloc.h
COLLECT_AFTER = 10_000  # new objects
NUMPY_TYPES = {torch.long: np.int64, torch.bool: np.bool_}


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


class Piece:
    """Zeros for several arrays, made on the host, which become the tensors of a device.

    They lie in one piece of memory: a copy takes its time, however little it copies. Nor is there a tensor of each on
    the host if they go elsewhere, for while tensors are made, a device that waits for them has nothing to do.
    """

    def __init__(self, shapes: Iterable[tuple[torch.dtype, Sequence[int]]], pinned: bool = False) -> None:
        """pinned: in memory that a GPU can read by itself, and which is used again as soon as nobody needs it."""
        self._parts = []
        end = 0
        for kind, shape in shapes:
            self._parts.append((kind, shape, end))
            end += -(-kind.itemsize * prod(shape) // ALIGNMENT) * ALIGNMENT
        self._memory = torch.empty(end, dtype=torch.uint8, pin_memory=pinned)
        self._memory.numpy().fill(0)  # torch would wake threads for it, which takes longer than the work

    def arrays(self) -> list[Array]:
        """To be filled in before the tensors are asked for."""
        memory = self._memory.numpy()
        return [np.ndarray(shape, NUMPY_TYPES[kind], memory, start) for kind, shape, start in self._parts]

    def tensors(self, device: torch.device) -> list[Tensor]:
        memory = sent(self._memory, device)
        of_kind = {kind: memory.view(kind) for kind in {kind for kind, _, _ in self._parts}}
        return [
            of_kind[kind].as_strided(shape, _strides(shape), start // kind.itemsize)
            for kind, shape, start in self._parts
        ]


def _strides(shape: Sequence[int]) -> list[int]:
    return [*accumulate(shape[:0:-1], mul, initial=1)][::-1]


def prepare_process() -> None:
    """What our commands do for themselves before they translate; a program that uses the package decides on its own."""
    allow_fast_products()
    keep_memory()
    collect_seldom()


def collect_seldom() -> None:
    """Let Python look less often for objects that only hold each other.

    A large glossary is hundreds of thousands of objects that stay; to look through all took 0.2 s, after every thousand
    sentences or so.
    """
    gc.set_threshold(max(COLLECT_AFTER, gc.get_threshold()[0]))


def allow_fast_products() -> None:
    """Let a GPU round the factors of float32 products (TF32), which is several times as fast, in all of torch."""
    torch.set_float32_matmul_precision("high")


def keep_memory() -> None:
    """Let large blocks of memory that are freed be used again, instead of going back to the system each time.

    The scores of a step are such a block. Otherwise glibc may ask the system for fresh pages in every step, all of them
    zeroed and mapped anew, which took up to a quarter of the time of a search on a CPU.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # glibc
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(M_ARENA_MAX, 1)  # memory that threads have of their own is given back all the same


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
