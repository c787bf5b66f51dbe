"""What a prepared corpus tells of itself."""

from __future__ import annotations

from termweave.data.corpus import DirectionData
from termweave.data.folder import ID
from termweave.storage import RaggedArray


def direction(*pairs: tuple[int, int]) -> DirectionData:
    """Pairs of so many subwords."""
    sides = (RaggedArray.from_rows([[7] * pair[side] for pair in pairs], ID) for side in (0, 1))
    return DirectionData("de-en", *sides, None, None)


def test_the_expansion_is_that_of_the_pair_in_the_middle():
    assert direction((10, 12), (10, 9), (10, 300)).expansion == 1.2
    assert direction((10, 12), (0, 5)).expansion == 1.2  # nothing expands to something: that says nothing
    assert direction().expansion == 1.0
