"""Sampling: disjoint, seeded, independent of the batch, and distributed as promised."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.config import SamplingConfig
from termweave.constraints.phrases import PHRASE
from termweave.constraints.sampling import sample_constraints
from termweave.storage import RaggedArray, RaggedWriter

Row = list[tuple[int, int, int, int, int, int]]


def phrase(source_start: int, target_start: int, words: int, tokens: int | None = None) -> tuple[int, ...]:
    tokens = words if tokens is None else tokens
    return (source_start, target_start, tokens, tokens, words, 0)


def diagonal(length: int) -> Row:
    """Every phrase pair of a sentence translated word by word."""
    return [phrase(k, k, n) for n in (1, 2, 3) for k in range(length - n + 1)]


def sample(rows: list[Row], config: SamplingConfig, seed: int = 1, epoch: int = 0) -> list[Row]:
    ragged = RaggedArray.from_rows(rows, PHRASE)
    return draw(ragged, np.arange(len(rows)), config, seed, epoch)


def draw(ragged: RaggedArray, rows: np.ndarray, config: SamplingConfig, seed: int = 1, epoch: int = 0) -> list[Row]:
    chosen, lengths = sample_constraints(ragged.values, ragged.offsets, rows, seed, epoch, config)
    assert lengths.sum() == len(chosen)
    ends = np.cumsum(lengths)
    return [chosen[end - length : end].tolist() for end, length in zip(ends, lengths, strict=True)]


def overlap(first: int, first_length: int, second: int, second_length: int) -> bool:
    return first < second + second_length and second < first + first_length


phrases = st.builds(
    lambda s, t, n, m, w: (s, t, n, m, w, 0),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 4),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(phrases, max_size=12), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(0, 2**63),
)
def test_chosen_phrases_are_disjoint_and_fit(
    rows: list[Row], max_constraints: int, max_words: int, max_tokens: int, seed: int
) -> None:
    config = SamplingConfig(max_constraints, max_words, empty_share=0.0, max_tokens=max_tokens)
    for row, chosen in zip(rows, sample(rows, config, seed), strict=True):
        assert len(chosen) <= max_constraints
        assert all(item in row for item in chosen)
        assert all(item[4] <= max_words for item in chosen)
        assert sum(item[2] for item in chosen) <= max_tokens
        assert sum(item[3] for item in chosen) <= max_tokens
        for index, one in enumerate(chosen):
            for other in chosen[:index]:
                assert not overlap(one[0], one[2], other[0], other[2])
                assert not overlap(one[1], one[3], other[1], other[3])
        fits = [item for item in row if item[4] <= max_words and max(item[2], item[3]) <= max_tokens]
        shortest = [item for item in fits if item[4] == 1]
        assert bool(chosen) or not shortest  # a one-word phrase is always a way out


def test_numbers_and_lengths_are_uniform() -> None:
    chosen = sample([diagonal(40)] * 6000, SamplingConfig(empty_share=0.0))
    numbers = Counter(len(row) for row in chosen)
    assert set(numbers) == {1, 2, 3}
    assert all(abs(count - 2000) < 150 for count in numbers.values())
    lengths = Counter(item[4] for row in chosen for item in row)
    total = sum(lengths.values())
    assert set(lengths) == {1, 2, 3}
    assert all(abs(count / total - 1 / 3) < 0.02 for count in lengths.values())


def test_places_are_uniform_and_order_is_shuffled() -> None:
    chosen = sample([diagonal(12)] * 6000, SamplingConfig(empty_share=0.0))
    places = Counter(row[0][0] for row in chosen if len(row) == 1 and row[0][4] == 1)
    assert set(places) == set(range(12))
    assert max(places.values()) < 2.5 * min(places.values())
    firsts = [row[0][4] - row[-1][4] for row in chosen if len(row) > 1]
    assert any(step > 0 for step in firsts)
    assert any(step < 0 for step in firsts)


def test_share_of_empty_sentences() -> None:
    chosen = sample([diagonal(10)] * 5000, SamplingConfig(empty_share=0.2))
    assert abs(sum(not row for row in chosen) / 5000 - 0.2) < 0.02
    assert not any(sample([diagonal(10)] * 50, SamplingConfig(empty_share=1.0)))


def test_falls_back_to_shorter_phrases() -> None:
    chosen = sample([[phrase(0, 0, 1), phrase(1, 1, 1)]] * 200, SamplingConfig(empty_share=0.0))
    assert {len(row) for row in chosen} == {1, 2}  # three wanted, two to be had


def test_long_phrases_are_tried_first() -> None:
    # Only one of the two fits beside the other; with both lengths wanted, the longer must win.
    row = [phrase(0, 0, 3), phrase(1, 1, 1)]
    counts = Counter(chosen[0][4] for chosen in sample([row] * 3000, SamplingConfig(empty_share=0.0)))
    share = 1 - (2 / 3 + 4 / 9 + 8 / 27) / 3  # at least one wanted length is 3
    assert abs(counts[3] / 3000 - share) < 0.04


def test_depends_on_seed_and_epoch_only() -> None:
    rows, config = [diagonal(20)] * 50, SamplingConfig()
    assert sample(rows, config) == sample(rows, config)
    assert sample(rows, config, seed=1) != sample(rows, config, seed=2)
    assert sample(rows, config, epoch=0) != sample(rows, config, epoch=1)


def test_independent_of_batch_composition() -> None:
    ragged = RaggedArray.from_rows([diagonal(5 + k % 7) for k in range(100)], PHRASE)
    config = SamplingConfig()
    whole = draw(ragged, np.arange(100), config)
    order = np.random.default_rng(0).permutation(100)
    assert draw(ragged, order, config) == [whole[row] for row in order]
    for row in (0, 17, 99):
        assert draw(ragged, np.array([row]), config) == [whole[row]]


def test_memory_mapped_phrases(tmp_path: Path) -> None:
    ragged = RaggedArray.from_rows([diagonal(8)] * 10, PHRASE)
    with RaggedWriter(tmp_path / "phrases", PHRASE) as writer:
        writer.extend(ragged.values, ragged.lengths)
    mapped = RaggedArray.open(tmp_path / "phrases", PHRASE)
    rows, config = np.arange(10), SamplingConfig()
    assert draw(mapped, rows, config) == draw(ragged, rows, config)


@pytest.mark.parametrize("rows", [[], [[]], [[], [phrase(0, 0, 1)]]])
def test_nothing_to_draw_from(rows: list[Row]) -> None:
    chosen = sample(rows, SamplingConfig(empty_share=0.0))
    assert [bool(row) for row in chosen] == [bool(row) for row in rows]
