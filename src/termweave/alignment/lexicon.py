"""Estimating translation probabilities of both directions from one set of expected counts.

Because the two directions are trained to agree, one expected count per pair serves both: it is normalised once over
the target words of each source word and once over the source words of each target word.
"""

from __future__ import annotations

import numba
import numpy as np

from termweave.alignment.model import Counts, DoubleArray, FloatArray, IntArray, Lexicon, LongArray, PairTable

# Probability of a pair outside the table; keeps every sentence possible.
FLOOR = 1e-9
# Mass of the sparse Dirichlet prior on a translation: well below 1, so that words prefer few translations.
PRIOR = 1e-3
# Pseudo-count of a pair spelled alike on both sides: names and numbers are often too rare to speak for themselves.
IDENTICAL_PRIOR = 1.0
# Pairs expected less often than this leave the table: under the sparse prior their probability is nil anyway.
PRUNE_BELOW = 0.02


def uniform_lexicon(pairs: int, source_words: int, target_words: int) -> Lexicon:
    """The start: every pair of the table as likely as any other, pairs outside far less so."""
    forward = np.ones(pairs + 1, dtype=np.float32)
    backward = np.ones(pairs + 1, dtype=np.float32)
    forward[0] = backward[0] = 1e-4
    return Lexicon(
        forward, backward, np.full(target_words, 0.1, dtype=np.float32), np.full(source_words, 0.1, dtype=np.float32)
    )


def prune(table: PairTable, counts: Counts) -> tuple[PairTable, Counts]:
    """Drop the pairs the model no longer believes in; later passes get faster with every pair that goes."""
    keep = counts.pairs[1:] >= PRUNE_BELOW
    kept_before = np.zeros(len(keep) + 1, dtype=np.int64)
    np.cumsum(keep, out=kept_before[1:])
    pruned = PairTable(kept_before[table.starts], table.columns[keep])
    pairs = np.concatenate((counts.pairs[:1], counts.pairs[1:][keep]))
    return pruned, counts._replace(pairs=pairs)


def estimate(table: PairTable, counts: Counts, identical: IntArray) -> Lexicon:
    """Variational-Bayes estimate; `identical` (source_words) names the target word spelled alike, or -1."""
    forward = np.full(len(counts.pairs), FLOOR, dtype=np.float32)
    backward = np.full(len(counts.pairs), FLOOR, dtype=np.float32)
    column_sums = np.zeros(len(counts.null_forward))
    priors = (PRIOR, IDENTICAL_PRIOR)
    _normalise(table.starts, table.columns, counts.pairs, identical, priors, forward, backward, column_sums)
    return Lexicon(forward, backward, _smooth(counts.null_forward), _smooth(counts.null_backward))


def _smooth(counts: DoubleArray) -> FloatArray:
    """What comes from nothing is mostly function words, but any word may."""
    smoothed = counts + 0.01
    return np.asarray(smoothed / smoothed.sum(), dtype=np.float32)


@numba.njit(nogil=True, cache=True)
def _normalise(
    starts: LongArray, columns: IntArray, counts: DoubleArray, identical: IntArray,
    priors: tuple[float, float], forward: FloatArray, backward: FloatArray, column_sums: DoubleArray,
) -> None:  # fmt: skip
    rows = len(starts) - 1
    row_sums = np.zeros(rows)
    for row in range(rows):
        for pair in range(starts[row], starts[row + 1]):
            counts[pair + 1] += priors[0]
            if identical[row] == columns[pair]:
                counts[pair + 1] += priors[1]
            row_sums[row] += counts[pair + 1]
            column_sums[columns[pair]] += counts[pair + 1]
    for row in range(rows):
        row_weight = exp_digamma(row_sums[row])
        for pair in range(starts[row], starts[row + 1]):
            weight = exp_digamma(counts[pair + 1])
            column_weight = exp_digamma(column_sums[columns[pair]])
            forward[pair + 1] = max(weight / max(row_weight, 1e-30), FLOOR)
            backward[pair + 1] = max(weight / max(column_weight, 1e-30), FLOOR)


@numba.njit(nogil=True, cache=True)
def exp_digamma(value: float) -> float:
    """exp(ψ(value)): about value - 1/2 for large values, and next to nothing for small ones."""
    if value < 0.01:
        return 0.0
    shift = 0.0
    while value < 6.0:
        shift -= 1.0 / value
        value += 1.0
    inverse = 1.0 / (value * value)
    series = inverse * (1.0 / 12.0 - inverse * (1.0 / 120.0 - inverse / 252.0))
    return float(np.exp(shift + np.log(value) - 0.5 / value - series))
