"""The softmax's sum of all logits of a step, on a CPU: a compiled loop over what lies in the processor's cache.

A softmax by torch writes as much as it reads, only for its sum, and takes twice as long.
"""

from __future__ import annotations

import numba
import numpy as np
from torch import Tensor

from termweave.model.loop_math import exponentiate
from termweave.storage import Array

BLOCK = 256  # logits at a time


def log_sums(logits: Tensor) -> Tensor:
    """(batch, length, vocabulary) → (batch, length): the logarithm of the sum of exp."""
    sums = logits.amax(dim=2)
    _add_log_sums(logits.numpy(), sums.numpy())
    return sums


@numba.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _add_log_sums(logits: Array, sums: Array) -> None:
    """sums: the highest of each row, at first."""
    powers, bits = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.int32)
    batch, length, vocabulary = logits.shape
    for row in range(batch):
        for place in range(length):
            highest, total = sums[row, place], np.float32(0)
            for start in range(0, vocabulary, BLOCK):
                block = logits[row, place, start : start + BLOCK]
                for at in range(len(block)):
                    powers[at] = block[at] - highest
                exponentiate(powers, bits, len(block))
                for at in range(len(block)):
                    total += powers[at]
            sums[row, place] = highest + np.log(total)
