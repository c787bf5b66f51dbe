"""Symmetrisation against a direct transcription of the published procedure."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.alignment import LINK, symmetrise

Link = tuple[int, int]
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: set[Link], backward: set[Link], rows: int, columns: int) -> set[Link]:
    """Koehn et al. 2003 with sets of pairs, in the order of the reference implementation."""
    union = forward | backward
    alignment = forward & backward

    def unlinked(source: int, target: int) -> tuple[bool, bool]:
        return all(source != i for i, _ in alignment), all(target != j for _, j in alignment)

    while True:
        before = len(alignment)
        for source in range(rows):
            for target in range(columns):
                if (source, target) not in alignment:
                    continue
                for down, right in NEIGHBOURS:
                    new = (source + down, target + right)
                    if new in union and new not in alignment and any(unlinked(*new)):
                        alignment.add(new)
        if len(alignment) == before:
            break
    for new in sorted(union):
        if all(unlinked(*new)):
            alignment.add(new)
    return alignment


@st.composite
def one_sided_pairs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """For each target word a source position or -1, and the reverse."""
    rows, columns = draw(st.integers(0, 8)), draw(st.integers(0, 8))
    if not rows or not columns:
        return [-1] * columns, [-1] * rows
    forward = draw(st.lists(st.integers(-1, rows - 1), min_size=columns, max_size=columns))
    backward = draw(st.lists(st.integers(-1, columns - 1), min_size=rows, max_size=rows))
    return forward, backward


def as_sets(forward: list[int], backward: list[int]) -> tuple[set[Link], set[Link]]:
    return {(i, j) for j, i in enumerate(forward) if i >= 0}, {(i, j) for i, j in enumerate(backward) if j >= 0}


def run(sentences: list[tuple[list[int], list[int]]], method: str) -> list[list[Link]]:
    forward = np.array([i for sentence, _ in sentences for i in sentence], dtype=np.int32)
    backward = np.array([j for _, sentence in sentences for j in sentence], dtype=np.int32)
    target_offsets = 7 + np.cumsum([0] + [len(sentence) for sentence, _ in sentences])
    source_offsets = 3 + np.cumsum([0] + [len(sentence) for _, sentence in sentences])
    links, lengths = symmetrise(forward, backward, source_offsets, target_offsets, method)
    assert links.dtype == LINK
    ends = np.cumsum(lengths)
    return [links[end - length : end].tolist() for end, length in zip(ends, lengths, strict=True)]


@settings(deadline=None, max_examples=300)
@given(st.lists(one_sided_pairs(), min_size=1, max_size=5))
def test_grow_diag_final_and_is_the_published_one(sentences: list[tuple[list[int], list[int]]]) -> None:
    expected = [
        sorted(grow_diag_final_and(*as_sets(forward, backward), len(backward), len(forward)))
        for forward, backward in sentences
    ]
    assert run(sentences, "grow-diag-final-and") == expected


@settings(deadline=None)
@given(st.lists(one_sided_pairs(), min_size=1, max_size=5))
def test_intersection_and_union(sentences: list[tuple[list[int], list[int]]]) -> None:
    sets = [as_sets(forward, backward) for forward, backward in sentences]
    assert run(sentences, "intersection") == [sorted(first & second) for first, second in sets]
    assert run(sentences, "union") == [sorted(first | second) for first, second in sets]


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        pytest.param([0, 1], [0, 1], [(0, 0), (1, 1)], id="both sides agree"),
        pytest.param([0, 0], [0, -1], [(0, 0), (0, 1)], id="a neighbour of a link grows"),
        pytest.param([0, -1, 2], [0, -1, -1], [(0, 0), (2, 2)], id="final: neither word has a link"),
        pytest.param([0, -1, 0], [0], [(0, 0)], id="not final: one word has a link, and no neighbour"),
        pytest.param([-1, -1], [-1, -1], [], id="nothing"),
    ],
)
def test_cases(forward: list[int], backward: list[int], expected: list[Link]) -> None:
    assert run([(forward, backward)], "grow-diag-final-and") == [expected]
