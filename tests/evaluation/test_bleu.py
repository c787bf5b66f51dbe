"""BLEU and chrF are sacreBLEU's own, with the right tokeniser."""

from __future__ import annotations

import pytest
import sacrebleu

from termweave.errors import DataError
from termweave.evaluation.bleu import corpus_bleu, corpus_chrf

HYPOTHESES = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
REFERENCES = ["The dog bit the man.", "It was not surprising.", "The man had just bitten him."]


def test_bleu_equals_a_plain_sacrebleu_call() -> None:
    score = corpus_bleu(HYPOTHESES, REFERENCES, "en")
    assert score.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert 0 < score.value < 100
    assert "tok:13a" in score.signature
    assert "case:mixed" in score.signature
    assert "version:" in score.signature


def test_chrf_equals_a_plain_sacrebleu_call() -> None:
    score = corpus_chrf(HYPOTHESES, REFERENCES)
    assert score.value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert "nc:6" in score.signature


def test_perfect_translation() -> None:
    assert corpus_bleu(REFERENCES, REFERENCES, "en").value == pytest.approx(100)
    assert corpus_chrf(REFERENCES, REFERENCES).value == pytest.approx(100)


def test_chinese_is_cut_into_characters() -> None:
    hypotheses, references = ["我们在新房子里读书。"], ["我们在旧房子里读书。"]
    score = corpus_bleu(hypotheses, references, "zh")
    assert score.value == sacrebleu.corpus_bleu(hypotheses, [references], tokenize="zh").score
    assert score.value > corpus_bleu(hypotheses, references, "en").value
    assert "tok:zh" in score.signature


def test_wrong_numbers_of_lines() -> None:
    with pytest.raises(DataError, match=r"2 translations .* 3 references"):
        corpus_bleu(HYPOTHESES[:2], REFERENCES, "en")
    with pytest.raises(DataError, match="nothing to evaluate"):
        corpus_chrf([], [])
