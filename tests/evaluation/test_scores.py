"""The record of all scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import ConstrainedSentence, write_constraint_set
from termweave.errors import DataError
from termweave.evaluation.scores import evaluate, evaluate_files

SENTENCES = [
    ConstrainedSentence("Das Haus brennt.", "The building burns.", (Constraint("Haus", "building"),)),
    ConstrainedSentence("Der Hund schläft heute.", "The dog sleeps today.", (Constraint("Hund", "dog"),)),
]


def test_figures_and_signature() -> None:
    scores = evaluate(
        ["The house burns.", "The dog sleeps today."], SENTENCES, "en", {"checkpoint": "toy", "beam": "4"}
    )
    assert scores.success.phrase_level == pytest.approx(50)
    assert 0 < scores.bleu.value < 100
    for part in ("checkpoint:toy", "beam:4", "tok:13a", "chrF2|", "match:whole-words"):
        assert part in scores.signature
    tree = json.loads(json.dumps(scores.to_json()))
    assert tree["constraints_met"] == 1
    assert tree["constraints"] == 2
    assert tree["signature"] == scores.signature
    assert "50.0 % (1 of 2 constraints)" in str(scores)


def test_the_reference_is_perfect() -> None:
    scores = evaluate([sentence.target for sentence in SENTENCES], SENTENCES, "en")
    assert scores.bleu.value == pytest.approx(100)
    assert scores.success.phrase_level == 100
    assert scores.success.word_weighted == 100


def test_no_constraints() -> None:
    plain = [ConstrainedSentence("Das Haus brennt.", "The building burns.")]
    scores = evaluate(["The building burns."], plain, "en")
    assert scores.to_json()["csr_phrase_level"] is None
    assert "no constraints" in str(scores)


def test_files(tmp_path: Path) -> None:
    write_constraint_set(tmp_path / "toy.jsonl", SENTENCES)
    (tmp_path / "out.txt").write_text("The building burns.\nThe cat sleeps today.\n", encoding="utf-8")
    scores = evaluate_files(tmp_path / "out.txt", tmp_path / "toy.jsonl", "en")
    assert (scores.success.met, scores.success.total) == (1, 2)
    assert "set:toy.jsonl" in scores.signature
    (tmp_path / "out.txt").write_text("one line\n", encoding="utf-8")
    with pytest.raises(DataError, match="1 translations"):
        evaluate_files(tmp_path / "out.txt", tmp_path / "toy.jsonl", "en")
