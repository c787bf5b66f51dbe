"""Word links of one sentence pair, and how they are stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# One link: 0-based positions of a source word and of a target word. Rows of a RaggedArray of this type are sorted.
LINK = np.dtype([("source", np.uint16), ("target", np.uint16)])

# A position must fit LINK; nothing that long is a sentence.
MAX_POSITION = int(np.iinfo(np.uint16).max)


@dataclass(frozen=True)
class GoldLinks:
    """What people say about one sentence pair: links that must be there, and links that may be there.

    `possible` includes `sure`.
    """

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]
