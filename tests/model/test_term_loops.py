"""Attention inside terms against torch's own, term by term."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from termweave.model import term_loops

SOURCES, TARGETS, HEADS, DIMENSION = [1, 3, 2, 9], [2, 1, 7, 3], 4, 32


def test_each_term_sees_its_own_tokens():
    torch.manual_seed(0)
    queries, memory = 3 * torch.randn(sum(SOURCES), DIMENSION), 3 * torch.randn(sum(TARGETS), 2 * DIMENSION)
    ends = np.cumsum(SOURCES), np.cumsum(TARGETS)
    found = term_loops.attend(queries, memory, *ends, HEADS)
    pieces = zip(queries.split(SOURCES), memory.split(TARGETS), strict=True)
    by_head = (
        [part.unflatten(1, (HEADS, -1)).transpose(0, 1) for part in (own, *both.chunk(2, dim=1))]
        for own, both in pieces
    )
    expected = [F.scaled_dot_product_attention(*each).transpose(0, 1).flatten(1) for each in by_head]
    torch.testing.assert_close(found, torch.cat(expected))
