"""What is asked of all logits of a step, on a CPU, in one pass over them: the softmax's sum, and the largest of each
chunk, by which a search finds the best.

The logits of a batch are many megabytes: a pass over them waits for memory longer than it computes.
"""

from __future__ import annotations

import numba
import numpy as np
from torch import Tensor

from termweave.model.loop_math import exponential, largest_of
from termweave.storage import Array

CHUNK = 128  # tokens: with 32,000 of them, a search looks at about as many chunks as tokens in the end
BLOCK = 16  # chunks, that lie in the processor's cache when they are looked at again
BELOW_ALL = np.float32(-1e30)  # logits


def survey(logits: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """(batch, length, vocabulary) → (batch, length, chunks) the largest of each chunk; (batch, length) the logarithm
    of the sum of exp."""
    shape = logits.shape[:2]
    maxima = logits.new_empty(*shape, -(-logits.shape[2] // chunk))
    sums = logits.new_empty(shape)
    _survey(logits.numpy(), chunk, maxima.numpy(), sums.numpy())
    return maxima, sums


@numba.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _survey(logits: Array, chunk: int, maxima: Array, sums: Array) -> None:
    batch, length, _ = logits.shape
    for sentence in range(batch):
        for place in range(length):
            row, largest = logits[sentence, place], maxima[sentence, place]
            highest, total = BELOW_ALL, np.float32(0)
            for first in range(0, len(largest), BLOCK):
                before, block = highest, row[first * chunk : (first + BLOCK) * chunk]
                for number in range(first, min(first + BLOCK, len(largest))):
                    own = block[(number - first) * chunk : (number - first + 1) * chunk]
                    largest[number] = largest_of(own, len(own))
                    highest = max(highest, largest[number])
                total = total * exponential(before - highest) + _sum_of_powers(block, highest)
            sums[sentence, place] = highest + np.log(total)


@numba.njit(nogil=True, cache=True, fastmath=True)
def _sum_of_powers(values: Array, highest: np.float32) -> np.float32:
    """Of exp(value − highest). A function of its own: vector instructions come of loops over all of an array."""
    total = np.float32(0)
    for at in range(len(values)):
        total += exponential(values[at] - highest)
    return total
