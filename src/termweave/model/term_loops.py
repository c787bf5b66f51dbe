"""Attention inside terms on a CPU: a compiled loop over their few tokens, so that none are made up to fill rows."""

from __future__ import annotations

from math import exp, sqrt

import numba
import numpy as np
from torch import Tensor

from termweave.storage import Array

LEAST = np.float32(-1e30)  # of scores


def attend(queries: Tensor, memory: Tensor, source_ends: Array, target_ends: Array, heads: int) -> Tensor:
    """What the source tokens of each term see of its target tokens, (source tokens, d).

    queries: (source tokens, d); memory: (target tokens, 2 · d), keys and values; ends: of each term's tokens among
    those of all. A term gets the same numbers in whatever company.
    """
    result = queries.new_empty(queries.shape)
    _attend(queries.numpy(), memory.numpy(), source_ends, target_ends, heads, result.numpy())
    return result


@numba.njit(nogil=True, cache=True, fastmath=True)
def _attend(queries: Array, memory: Array, source_ends: Array, target_ends: Array, heads: int, result: Array) -> None:
    dimension = queries.shape[1]
    width = dimension // heads
    scale = np.float32(1 / sqrt(width))
    scores = np.empty(len(memory), np.float32)
    token, first = 0, 0
    for term in range(len(source_ends)):
        last = target_ends[term]
        for source in range(token, source_ends[term]):
            for start in range(0, dimension, width):
                query, seen = queries[source, start : start + width], result[source, start : start + width]
                highest = LEAST
                for target in range(first, last):
                    key, score = memory[target, start : start + width], np.float32(0)
                    for at in range(width):
                        score += query[at] * key[at]
                    scores[target] = score * scale
                    highest = max(highest, scores[target])
                total = np.float32(0)
                for target in range(first, last):
                    scores[target] = exp(scores[target] - highest)
                    total += scores[target]
                for at in range(width):
                    seen[at] = 0
                for target in range(first, last):
                    value = memory[target, dimension + start : dimension + start + width]
                    share = scores[target] / total
                    for at in range(width):
                        seen[at] += share * value[at]
        token, first = source_ends[term], last
