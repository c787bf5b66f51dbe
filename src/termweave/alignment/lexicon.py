"""Estimating translation probabilities of both directions from one set of expected counts.

Because the two directions are trained to agree, one expected count per pair serves both: it is normalised once over
the target words of each source word and once over the source words of each target word.
"""

from __future__ import annotations

import numba
import numpy as np

from termweave.alignment.model import Counts, DoubleArray, FloatArray, IntArray, Lexicon, PairTable

# Mass of the sparse Dirichlet prior on each translation: well below 1, so that words prefer few translations.
PRIOR = 1e-3
# Every word is taken to have this many occurrences more, spent on translations outside the table, each of which gets
# a few thousandths of one. It humbles rare words, which would otherwise claim whatever they stand beside.
UNSEEN = 3e-3
UNSEEN_COUNT = 50.0
# Pseudo-count of a pair spelled alike on both sides: names and numbers are often too rare to speak for themselves.
IDENTICAL_PRIOR = 1.0
_TINY = 1e-30  # keeps a word without any count from dividing by zero
# Pairs expected less often than this leave the table: under the sparse prior their probability is nil anyway.
PRUNE_BELOW = 0.003


def uniform_lexicon(pairs: int, source_words: int, target_words: int) -> Lexicon:
    """The start: every pair of the table as likely as any other, pairs outside far less so."""

    def constant(size: int, value: float) -> FloatArray:
        return np.full(size, value, dtype=np.float32)

    return Lexicon(
        forward=constant(pairs + 1, 1.0),
        backward=constant(pairs + 1, 1.0),
        floor_forward=constant(source_words, 1e-4),
        floor_backward=constant(target_words, 1e-4),
        null_forward=constant(target_words, 0.1),
        null_backward=constant(source_words, 0.1),
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
    """Variational-Bayes estimate; `identical` (source_words) names the target word spelled alike, or -1.

    A pair outside the table keeps what the prior leaves it: little, but more for rare words, of which little is known.
    A rare word thus still finds a rare partner at the right place rather than none.
    """
    source_words, target_words = len(counts.null_backward), len(counts.null_forward)
    row_sums, column_sums = np.full(source_words, UNSEEN_COUNT), np.full(target_words, UNSEEN_COUNT)
    _add_priors(table, counts.pairs, identical, (PRIOR, IDENTICAL_PRIOR), row_sums, column_sums)
    lexicon = Lexicon(
        forward=np.zeros(len(counts.pairs), dtype=np.float32),
        backward=np.zeros(len(counts.pairs), dtype=np.float32),
        floor_forward=(UNSEEN / row_sums).astype(np.float32),
        floor_backward=(UNSEEN / column_sums).astype(np.float32),
        null_forward=_smooth(counts.null_forward),
        null_backward=_smooth(counts.null_backward),
    )
    _normalise(table, counts.pairs, row_sums, column_sums, lexicon)
    return lexicon


def _smooth(counts: DoubleArray) -> FloatArray:
    """What comes from nothing is mostly function words, but any word may."""
    smoothed = counts + PRIOR
    return np.asarray(smoothed / smoothed.sum(), dtype=np.float32)


@numba.njit(nogil=True, cache=True)
def _add_priors(
    table: PairTable, counts: DoubleArray, identical: IntArray, priors: tuple[float, float],
    row_sums: DoubleArray, column_sums: DoubleArray,
) -> None:  # fmt: skip
    """Add the priors to the counts, and the counts to the sums of their source and target words."""
    for row in range(len(row_sums)):
        for pair in range(table.starts[row], table.starts[row + 1]):
            column = table.columns[pair]
            if identical[row] == column:
                counts[pair + 1] += priors[1]
            counts[pair + 1] += priors[0]
            row_sums[row] += counts[pair + 1]
            column_sums[column] += counts[pair + 1]


@numba.njit(nogil=True, cache=True)
def _normalise(
    table: PairTable, counts: DoubleArray, row_sums: DoubleArray, column_sums: DoubleArray, lexicon: Lexicon
) -> None:
    """Fill in the probabilities of the pairs; none falls below that of a pair outside the table."""
    column_weights = np.array([exp_digamma(total) for total in column_sums])
    for row in range(len(row_sums)):
        row_weight = exp_digamma(row_sums[row])
        for pair in range(table.starts[row], table.starts[row + 1]):
            column = table.columns[pair]
            weight = exp_digamma(counts[pair + 1])
            of_row, of_column = max(row_weight, _TINY), max(column_weights[column], _TINY)
            lexicon.forward[pair + 1] = max(weight / of_row, lexicon.floor_forward[row])
            lexicon.backward[pair + 1] = max(weight / of_column, lexicon.floor_backward[column])


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
