"""Is one system better than another, or was it lucky with this test set? Paired bootstrap resampling (Koehn, 2004).

Sentences are drawn from the test set, with replacement, until there are as many as it has; both systems are scored on
the same draw, and that a thousand times. A score is computed from sums over sentences of a few numbers each (its
sufficient statistics), so that a draw costs one product of matrices, not a scoring of texts.

Two figures come of it. `p_value` is defined as in sacreBLEU: how often the absolute difference of a draw exceeds the
average one by the difference that was measured, or more; small is significant. ("Or more" is ours, so that a system has
p = 1 against itself, where sacreBLEU prints 0.001; between different systems it hardly ever matters.) `wins` is what
compare-mt, which the paper used, looks at: the share of the draws in which the second system scores higher. Both ask
whether the better one is better, not whether the two differ: among systems that are equally good, p < 0.05 comes up in
one pair of ten rather than of twenty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from termweave.constraints.evaluation_sets import ConstrainedSentence, read_constraint_set
from termweave.errors import ConfigError, DataError
from termweave.evaluation.bleu import bleu_metric, corpus_bleu, require_parallel
from termweave.evaluation.csr import sentence_success
from termweave.evaluation.scores import read_translations
from termweave.storage import Array

SAMPLES = 1000
THRESHOLD = 0.05
ORDERS = 4  # BLEU counts n-grams up to this length
_CHUNK = 1 << 22  # draws of sentences in memory at once

Score = Callable[[Array], Array]  # sums of statistics, (samples, statistics) → (samples,) scores of 0 to 100


@dataclass(frozen=True)
class PairedTest:
    """Two systems, A and B, by one score."""

    name: str
    first: float  # score of A on the whole test set
    second: float  # score of B
    first_mean: float  # mean over the samples
    second_mean: float
    first_interval: float  # half the width of the interval that holds 95 % of the samples
    second_interval: float
    p_value: float
    wins: float  # share of the samples in which B scores higher; ties count half
    signature: str

    @property
    def difference(self) -> float:
        return self.second - self.first

    @property
    def significant(self) -> bool:
        return self.p_value < THRESHOLD

    def to_json(self) -> dict[str, object]:
        return {
            "score": self.name,
            "a": self.first,
            "b": self.second,
            "difference": self.difference,
            "a_mean": self.first_mean,
            "b_mean": self.second_mean,
            "a_interval": self.first_interval,
            "b_interval": self.second_interval,
            "p_value": self.p_value,
            "b_wins": self.wins,
            "significant": self.significant,
            "signature": self.signature,
        }


@dataclass(frozen=True)
class Comparison:
    """What `termweave compare` prints."""

    sentences: int
    samples: int
    seed: int
    tests: tuple[PairedTest, ...]
    signature: str

    def to_json(self) -> dict[str, object]:
        return {
            "sentences": self.sentences,
            "samples": self.samples,
            "seed": self.seed,
            "tests": [test.to_json() for test in self.tests],
            "signature": self.signature,
        }

    def __str__(self) -> str:
        rows = [(" " * len("signature"), "A", "B", "B − A", "p", "B wins", "")]
        for test in self.tests:
            rows.append(
                (
                    test.name,
                    f"{test.first:.1f} ± {test.first_interval:.1f}",
                    f"{test.second:.1f} ± {test.second_interval:.1f}",
                    f"{test.difference:+.1f}",
                    f"{test.p_value:.3f}",
                    f"{100 * test.wins:.1f} %",
                    "significant" if test.significant else "not significant",
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, f"signature  {self.signature}"])


def paired_bootstrap(
    name: str,
    first: Array,
    second: Array,
    score: Score,
    *,
    samples: int = SAMPLES,
    seed: int = 1,
    signature: str = "",
) -> PairedTest:
    """Compare two systems by the statistics of their sentences, (sentences, statistics) each."""
    if first.shape != second.shape or not len(first):
        raise DataError(
            f"two systems are compared on the same sentences, at least one; got {len(first)} and {len(second)}"
        )
    if samples < 1:
        raise ConfigError(f"samples: must be at least 1, got {samples}")
    both = np.concatenate([first, second], axis=1).astype(np.float64)
    sums = np.concatenate([weights @ both for weights in _draws(len(first), samples, seed)])
    middle = first.shape[1]
    drawn_first, drawn_second = score(sums[:, :middle]), score(sums[:, middle:])
    whole = both.sum(axis=0, keepdims=True)
    score_first, score_second = float(score(whole[:, :middle])[0]), float(score(whole[:, middle:])[0])
    differences = np.abs(drawn_second - drawn_first)
    exceeding = np.sum(differences - differences.mean() >= abs(score_second - score_first))
    return PairedTest(
        name=name,
        first=score_first,
        second=score_second,
        first_mean=float(drawn_first.mean()),
        second_mean=float(drawn_second.mean()),
        first_interval=_half_interval(drawn_first),
        second_interval=_half_interval(drawn_second),
        p_value=float((exceeding + 1) / (samples + 1)),
        wins=float(np.mean(drawn_second > drawn_first) + np.mean(drawn_second == drawn_first) / 2),
        signature=signature,
    )


def _draws(sentences: int, samples: int, seed: int) -> Iterator[Array]:
    """Blocks of (samples, sentences): how often each sentence is drawn."""
    generator = np.random.default_rng(seed)
    block = max(_CHUNK // sentences, 1)
    for start in range(0, samples, block):
        count = min(block, samples - start)
        drawn = generator.integers(sentences, size=(count, sentences))
        places = drawn + np.arange(count)[:, None] * sentences
        yield np.bincount(places.ravel(), minlength=count * sentences).reshape(count, sentences).astype(np.float64)


def _half_interval(scores: Array) -> float:
    low, high = np.percentile(scores, [2.5, 97.5])
    return float((high - low) / 2)


def bleu_statistics(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> Array:
    """(sentences, 10): lengths of hypothesis and reference, n-grams found, n-grams of the hypothesis."""
    require_parallel(hypotheses, references)
    metric = bleu_metric(target_language)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        found = metric.corpus_score([hypothesis], [[reference]])
        rows.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
    return np.array(rows, dtype=np.int64)


def bleu_scores(sums: Array) -> Array:
    """BLEU of each row of summed statistics, smoothed as sacreBLEU does by default ("exp").

    The k-th order without a match counts as 1/2^k matches, unless there is no match at all: then BLEU is 0.
    """
    lengths, expected = sums[:, 0], sums[:, 1]
    found, total = sums[:, 2 : 2 + ORDERS], sums[:, 2 + ORDERS : 2 + 2 * ORDERS]
    missing = (found == 0) & (total > 0)
    smoothed = np.where(missing, 0.5 ** np.cumsum(missing, axis=1), found)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(smoothed / total)
        penalty = np.where(lengths < expected, np.exp(1 - expected / lengths), 1.0)
        scores = 100 * penalty * np.exp(logarithms.mean(axis=1))
    countable = (total > 0).all(axis=1) & (found > 0).any(axis=1)
    return np.where(countable, scores, 0.0)


def success_statistics(
    hypotheses: Sequence[str], sentences: Sequence[ConstrainedSentence], target_language: str
) -> Array:
    """(sentences, 2): constraints met and demanded."""
    rates = [
        sentence_success(hypothesis, sentence.constraints, target_language)
        for hypothesis, sentence in zip(hypotheses, sentences, strict=True)
    ]
    return np.array([[rate.met, rate.total] for rate in rates], dtype=np.int64).reshape(-1, 2)


def success_scores(sums: Array) -> Array:
    """Percentage met of each row; 0 where a draw has no constraint."""
    return np.asarray(100 * sums[:, 0] / np.maximum(sums[:, 1], 1))


def compare(
    first: Sequence[str],
    second: Sequence[str],
    sentences: Sequence[ConstrainedSentence],
    target_language: str,
    *,
    samples: int = SAMPLES,
    seed: int = 1,
    signature: str = "",
) -> Comparison:
    """Compare two systems' translations of an evaluation set by BLEU and, if it has constraints, by CSR."""
    references = [sentence.target for sentence in sentences]

    def test(name: str, statistics: Callable[[Sequence[str]], Array], score: Score, sign: str) -> PairedTest:
        sign = f"{name}|{sign}|bs:{samples}|seed:{seed}"
        one, other = statistics(first), statistics(second)
        return paired_bootstrap(name, one, other, score, samples=samples, seed=seed, signature=sign)

    sign = corpus_bleu(first, references, target_language).signature
    tests = [test("BLEU", lambda texts: bleu_statistics(texts, references, target_language), bleu_scores, sign)]
    if any(sentence.constraints for sentence in sentences):
        sign = "case:mixed|level:phrase"
        tests.append(
            test("CSR", lambda texts: success_statistics(texts, sentences, target_language), success_scores, sign)
        )
    parts = [*([signature] if signature else []), *(test.signature for test in tests)]
    return Comparison(len(sentences), samples, seed, tuple(tests), "; ".join(parts))


def compare_files(
    constraint_set: Path, first: Path, second: Path, languages: str, *, samples: int = SAMPLES, seed: int = 1
) -> Comparison:
    """The whole work of `termweave compare`: two files of translations, one line a sentence of the set."""
    target_language = languages.partition("-")[2]
    if not target_language:
        raise ConfigError(f"--languages: write both, such as de-en: words are counted by language; got {languages!r}")
    sentences = read_constraint_set(constraint_set)
    one, other = (read_translations(path, constraint_set, len(sentences)) for path in (first, second))
    signature = f"a:{first.name}; b:{second.name}; set:{constraint_set.name}"
    return compare(one, other, sentences, target_language, samples=samples, seed=seed, signature=signature)
