"""Estimation: the sparse prior, pruning, and both normalisations."""

import numpy as np
import pytest

from termweave.alignment.lexicon import UNSEEN, UNSEEN_COUNT, estimate, exp_digamma, prune
from termweave.alignment.model import PairTable, empty_counts

# exp(ψ(x)) from tables: ψ(1) = -γ, ψ(1/2) = -γ - 2 ln 2, ψ(10) = 2.2517525890667214.
EULER = 0.5772156649015329


@pytest.mark.parametrize(
    ("value", "digamma"), [(1.0, -EULER), (0.5, -EULER - 2 * np.log(2)), (2.0, 1 - EULER), (10.0, 2.2517525890667214)]
)
def test_exp_digamma(value: float, digamma: float) -> None:
    assert exp_digamma(value) == pytest.approx(np.exp(digamma), rel=1e-6)


def test_nothing_is_left_of_tiny_counts() -> None:
    assert exp_digamma(0.001) == 0
    assert exp_digamma(0.0) == 0


def table_and_counts() -> tuple[PairTable, object]:
    """Source word 0 with targets 0 and 1, source word 1 with target 1, source word 2 with none."""
    table = PairTable(np.array([0, 2, 3, 3]), np.array([0, 1, 1], dtype=np.int32))
    counts = empty_counts(3, source_words=3, target_words=2)
    counts.pairs[:] = [9.0, 1e6, 0.001, 5e5]
    return table, counts


def test_prune_keeps_rows_in_place() -> None:
    table, counts = table_and_counts()
    pruned, kept = prune(table, counts)
    assert pruned.starts.tolist() == [0, 1, 2, 2]
    assert pruned.columns.tolist() == [0, 1]
    assert kept.pairs.tolist() == [9.0, 1e6, 5e5]


def test_both_directions_come_from_the_same_counts() -> None:
    table, counts = table_and_counts()
    lexicon = estimate(table, counts, np.full(3, -1, dtype=np.int32))
    assert lexicon.forward[1] == pytest.approx(1, abs=1e-3)
    assert lexicon.backward[3] == pytest.approx(1, abs=1e-3)
    assert lexicon.null_forward.sum() == pytest.approx(1)


def test_pairs_outside_the_table_are_likelier_for_rare_words() -> None:
    table, counts = table_and_counts()
    lexicon = estimate(table, counts, np.full(3, -1, dtype=np.int32))
    assert lexicon.floor_forward[2] == pytest.approx(UNSEEN / UNSEEN_COUNT)
    assert lexicon.floor_forward[0] < lexicon.floor_forward[1] < lexicon.floor_forward[2]
    assert lexicon.forward[2] == lexicon.floor_forward[0]  # a pair with next to no count falls back to it
