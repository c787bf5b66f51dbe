"""Paired bootstrap: against sacreBLEU's own test, and on cases whose answer is known."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest as SacreTest

from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import ConstrainedSentence, write_constraint_set
from termweave.errors import ConfigError, DataError
from termweave.evaluation.significance import (
    bleu_scores,
    bleu_statistics,
    compare,
    compare_files,
    paired_bootstrap,
    success_scores,
)

WORDS = [f"word{number}" for number in range(30)]


def system(references: list[str], errors: float, seed: int) -> list[str]:
    """The references with a share of their words replaced."""
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) if chance.random() < errors else word for word in line.split())
        for line in references
    ]


@pytest.fixture(scope="module")
def references() -> list[str]:
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=chance.randint(3, 20))) for _ in range(150)]


@pytest.mark.parametrize("errors", [0.31, 0.33, 0.34, 0.4])
def test_sacrebleu_agrees(references, errors):
    """The draws are others, so p-values and means agree within the error of a thousand draws."""
    first, second = system(references, 0.3, seed=1), system(references, errors, seed=2)
    theirs = SacreTest([("a", first), ("b", second)], {"BLEU": BLEU()}, [references], "bs", n_samples=1000)()[1]
    baseline, other = theirs["BLEU"]
    ours = paired_bootstrap(
        "BLEU", bleu_statistics(first, references, "en"), bleu_statistics(second, references, "en"), bleu_scores
    )
    assert (ours.first, ours.second) == pytest.approx((baseline.score, other.score))
    assert ours.difference == pytest.approx(other.score - baseline.score)
    assert (ours.first_mean, ours.second_mean) == pytest.approx((baseline.mean, other.mean), abs=0.3)
    assert (ours.first_interval, ours.second_interval) == pytest.approx((baseline.ci, other.ci), rel=0.15)
    spread = max((other.p_value * (1 - other.p_value) / 1000) ** 0.5, 0.001)
    assert ours.p_value == pytest.approx(other.p_value, abs=5 * spread)


counts = st.lists(st.integers(0, 9), min_size=4, max_size=4)


@settings(max_examples=300, deadline=None)
@given(counts, counts, st.integers(1, 40), st.integers(1, 40))
def test_bleu_of_sums_is_sacrebleus(found, more, length, expected):
    total = [one + other for one, other in zip(found, more, strict=True)]
    theirs = BLEU.compute_bleu(list(found), list(total), length, expected, smooth_method="exp").score
    assert bleu_scores(np.array([[length, expected, *found, *total]]))[0] == pytest.approx(theirs, abs=1e-9)


def test_bleu_of_all_sentences_is_that_of_the_text(references):
    hypotheses = system(references, 0.4, seed=3)
    sums = bleu_statistics(hypotheses, references, "en").sum(axis=0, keepdims=True)
    assert bleu_scores(sums)[0] == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score)
    chinese = ["我们在新房子里读书。"], ["我们在旧房子里读书。"]
    theirs = sacrebleu.corpus_bleu(chinese[0], [chinese[1]], tokenize="zh").score
    assert bleu_scores(bleu_statistics(*chinese, "zh"))[0] == pytest.approx(theirs)


def test_a_system_against_itself(references):
    statistics = bleu_statistics(system(references, 0.3, seed=1), references, "en")
    test = paired_bootstrap("BLEU", statistics, statistics, bleu_scores)
    assert (test.difference, test.wins, test.p_value) == (0, 0.5, 1)


def test_what_can_be_told_in_advance():
    """One sentence in four differs, always in favour of B: a draw lacks all of them with probability 0.75^n."""
    first = np.array([[0, 1], [1, 1], [1, 1], [1, 1]] * 25)
    second = np.ones_like(first)
    test = paired_bootstrap("CSR", first, second, success_scores)
    assert (test.first, test.second, test.wins) == (75, 100, 1)
    assert test.significant
    assert test.first_mean == pytest.approx(75, abs=1)
    assert test.first_interval == pytest.approx(1.96 * (0.75 * 0.25 / 100) ** 0.5 * 100, rel=0.15)
    other_way = paired_bootstrap("CSR", second, first, success_scores)
    assert (other_way.difference, other_way.wins, other_way.p_value) == (-25, 0, test.p_value)


def test_chance_seldom_looks_like_an_improvement():
    """Of systems that are equally good, about one pair in ten has p < 0.05: one in twenty for either to be better."""
    chance = np.random.default_rng(1)
    found = 0
    for trial in range(200):
        first, second = (np.stack([chance.integers(0, 2, 80), np.ones(80, int)], axis=1) for _ in range(2))
        found += paired_bootstrap("CSR", first, second, success_scores, samples=300, seed=trial).significant
    assert 10 <= found <= 30


def test_the_seed_decides(references):
    first, second = (bleu_statistics(system(references, share, 1), references, "en") for share in (0.3, 0.32))
    one, same, other = (paired_bootstrap("BLEU", first, second, bleu_scores, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.first_mean != other.first_mean


def test_blocks_change_nothing(references, monkeypatch):
    first, second = (bleu_statistics(system(references, share, 1), references, "en") for share in (0.3, 0.32))
    whole = paired_bootstrap("BLEU", first, second, bleu_scores)
    monkeypatch.setattr("termweave.evaluation.significance._CHUNK", 1000)
    assert paired_bootstrap("BLEU", first, second, bleu_scores) == whole


SENTENCES = [
    ConstrainedSentence(
        "Das Haus brennt lichterloh.", "The building burns brightly.", (Constraint("Haus", "building"),)
    ),
    ConstrainedSentence("Der Hund schläft heute.", "The dog sleeps today.", (Constraint("Hund", "dog"),)),
    ConstrainedSentence("Der Müller mahlt das Mehl.", "The miller grinds the flour."),
]


def test_comparing_translations():
    first = ["The house burns brightly.", "The hound sleeps today.", "The miller grinds the flour."]
    second = [sentence.target for sentence in SENTENCES]
    comparison = compare(first, second, SENTENCES, "en", samples=200)
    bleu, success = comparison.tests
    assert (success.name, success.first, success.second) == ("CSR", 0, 100)
    assert bleu.second == pytest.approx(100)
    tree = json.loads(json.dumps(comparison.to_json()))
    assert tree["tests"][1]["difference"] == 100
    assert "tok:13a" in tree["signature"] and "bs:200" in tree["signature"]
    assert "+100.0" in str(comparison)
    plain = [ConstrainedSentence("Das Haus.", "The house.")]
    assert [test.name for test in compare(["a"], ["b"], plain, "en").tests] == ["BLEU"]


def test_files(tmp_path: Path):
    write_constraint_set(tmp_path / "set.jsonl", SENTENCES)
    for name, lines in (("a.en", 3), ("b.en", 3), ("short.en", 2)):
        (tmp_path / name).write_text("the house\n" * lines, encoding="utf-8")
    found = compare_files(tmp_path / "set.jsonl", tmp_path / "a.en", tmp_path / "b.en", "de-en")
    assert "a:a.en; b:b.en; set:set.jsonl" in found.signature
    with pytest.raises(DataError, match=r"short\.en has 2 lines, but .* has 3 sentences"):
        compare_files(tmp_path / "set.jsonl", tmp_path / "a.en", tmp_path / "short.en", "de-en")
    with pytest.raises(ConfigError, match="write both, such as de-en"):
        compare_files(tmp_path / "set.jsonl", tmp_path / "a.en", tmp_path / "b.en", "en")


def test_wrong_arguments():
    with pytest.raises(DataError, match="on the same sentences, at least one; got 2 and 3"):
        paired_bootstrap("CSR", np.zeros((2, 2)), np.zeros((3, 2)), success_scores)
    with pytest.raises(ConfigError, match="samples: must be at least 1"):
        paired_bootstrap("CSR", np.zeros((2, 2)), np.zeros((2, 2)), success_scores, samples=0)
