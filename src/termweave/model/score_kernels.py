"""One pass over the logits on a GPU: the softmax's sum, and on the way the largest logit of every chunk.

A softmax reads the vocabulary and writes as much again, only for its sum; the search would then read it once more for
the maxima. Needs Triton, which CUDA builds of torch bring along.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from termweave.accelerators import row_width

BLOCK = 32  # chunks at a time
LOWEST = tl.constexpr(-1e30)  # below every logit, but the difference of two such is a number


@triton.jit
def _survey(logits, maxima, offset, width, vocabulary, chunks, chunk: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    highest = tl.full([block], LOWEST, tl.float32)
    total = tl.zeros([block], tl.float32)
    for first in range(0, chunks, block):
        number = first + tl.arange(0, block)
        token = number[:, None] * chunk + tl.arange(0, chunk)[None, :]
        value = tl.load(logits + row * width + token, mask=token < vocabulary, other=float("-inf"))
        largest = tl.max(value, axis=1)
        tl.store(maxima + row * chunks + number, largest, mask=number < chunks)
        higher = tl.maximum(highest, largest)
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(value - higher[:, None]), axis=1)
        highest = higher
    top = tl.max(highest, axis=0)
    tl.store(offset + row, -(top + tl.log(tl.sum(total * tl.exp(highest - top), axis=0))))


def survey(logits: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """(batch, length, vocabulary) → the maxima of chunks, (batch, length, chunks), and −log Σ exp, (batch, length)."""
    batch, length, vocabulary = logits.shape
    chunks = -(-vocabulary // chunk)
    maxima = torch.empty(batch, length, chunks, device=logits.device)
    offset = torch.empty(batch, length, device=logits.device)
    _survey[(batch * length,)](
        logits, maxima, offset, row_width(logits), vocabulary, chunks, chunk=chunk, block=BLOCK, num_warps=8
    )
    return maxima, offset
