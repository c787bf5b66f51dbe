"""Calibration: a case worked out by hand, what must hold for any, and the way from tokens to judgements."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.constraints.constraint import Constraint
from termweave.decoding.forced import ScoredOutput
from termweave.errors import DataError
from termweave.evaluation.calibration import JudgedOutput, constrained_tokens, judge, measure_calibration
from termweave.text.subwords import Subwords

LINES = ["the old miller sells flour", "a house by the river", "das Haus des Müllers"]


def judged(probabilities: list[float], correct: str, constrained: str | None = None) -> JudgedOutput:
    flags = constrained or "0" * len(correct)
    return JudgedOutput(
        tuple(probabilities), tuple(flag == "1" for flag in correct), tuple(flag == "1" for flag in flags)
    )


def test_by_hand():
    """Eight tokens in four of the twenty bins.

    bin           tokens  mean P   right   |right − P| · tokens
    0.10 … 0.15   2       0.12     1/2     0.76
    0.50 … 0.55   1       0.50     0       0.50
    0.85 … 0.90   2       0.87     2/2     0.26
    0.95 … 1.00   3       0.98     2/3     0.94              ECE = 2.46 / 8 = 30.75 %
    """
    outputs = [
        judged([0.11, 0.13, 0.50, 0.86], "1001", "0011"),
        judged([], ""),
        judged([0.88, 0.96, 0.98, 1.00], "1110", "0001"),
    ]
    result = measure_calibration(outputs, "signed")
    assert result.ece == pytest.approx(30.75)
    assert result.accuracy == pytest.approx(5 / 8)
    assert result.probability == pytest.approx(5.42 / 8)
    assert result.constrained_probability == pytest.approx((0.50 + 0.86 + 1.00) / 3)
    assert (result.sentences, result.tokens, result.constrained_tokens) == (3, 8, 3)
    filled = {round(each.lower, 2): each for each in result.bins if each.tokens}
    assert {lower: each.tokens for lower, each in filled.items()} == {0.1: 2, 0.5: 1, 0.85: 2, 0.95: 3}
    assert filled[0.95].accuracy == pytest.approx(2 / 3) and filled[0.95].probability == pytest.approx(0.98)
    assert len(result.bins) == 20 and result.bins[0].accuracy is None
    tree = json.loads(json.dumps(result.to_json()))
    assert tree["inference_ece"] == pytest.approx(30.75) and len(tree["bins"]) == 20
    assert "30.75 %" in str(result) and "signed" in str(result)


def test_perfect_and_hopeless():
    assert measure_calibration([judged([1.0, 1.0, 0.0], "110")]).ece == 0
    assert measure_calibration([judged([1.0, 0.0], "01")]).ece == 100
    half = measure_calibration([judged([0.5] * 4, "0110")])
    assert half.ece == 0 and half.constrained_probability is None
    assert "no constrained tokens" in str(half)


tokens = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50)


@given(tokens)
def test_what_holds_for_any_tokens(drawn):
    output = JudgedOutput(*(tuple(each[side] for each in drawn) for side in (0, 1)), (False,) * len(drawn))
    result = measure_calibration([output])
    assert sum(each.tokens for each in result.bins) == len(drawn)
    # No average is farther off than the bins are, and one bin alone is the average.
    assert abs(result.accuracy - result.probability) * 100 <= result.ece + 1e-6 <= 100 + 1e-5
    assert measure_calibration([output], bins=1).ece == pytest.approx(
        100 * abs(result.accuracy - result.probability), abs=1e-6
    )
    for each in result.bins:
        if each.probability is not None:
            assert each.lower - 1e-9 <= each.probability <= each.upper + 1e-9


def test_no_tokens():
    with pytest.raises(DataError, match="nothing to calibrate"):
        measure_calibration([judged([], "")])


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    return Subwords.train(LINES * 20, tmp_path_factory.mktemp("subwords") / "tokenizer.model", size=330)


def marked(subwords: Subwords, tokens: list[int], *targets: str) -> str:
    """The text of the tokens that are constrained."""
    flags = constrained_tokens(tokens, [Constraint("x", target) for target in targets], "en", subwords)
    assert len(flags) == len(tokens)
    return "".join(subwords.pieces([token for token, flag in zip(tokens, flags, strict=True) if flag]))


def test_constrained_tokens(subwords):
    tokens = subwords.encode("the old miller sells the old house (house)")
    assert marked(subwords, tokens, "old miller") == "▁old▁miller"
    assert marked(subwords, tokens, "house", "house") == "▁househouse"
    assert marked(subwords, tokens, "house") == "▁house"  # the first will do
    assert marked(subwords, tokens, "mill") == ""  # not as a whole word
    assert marked(subwords, tokens) == ""
    assert marked(subwords, tokens, "old", "old house") == "▁old▁old▁house"


def test_constrained_tokens_spelled_in_bytes_or_without_a_space(subwords):
    tokens = subwords.encode("the 猫 sells")
    assert len(tokens) > 4
    flags = constrained_tokens(tokens, [Constraint("x", "猫")], "en", subwords)
    assert sum(flags) >= 3 and not flags[0] and not flags[-1]
    attached = subwords.encode_attached("house")
    assert marked(subwords, attached, "house") == "house"


def test_judging(subwords):
    output = subwords.encode("the old house sells flour")
    scored = ScoredOutput(tuple(output), tuple(subwords.pieces(output)), tuple(0.5 for _ in output), 0.9)
    found = judge(scored, "the old miller sells flour", [Constraint("Haus", "house")], "en", subwords)
    assert found.probabilities == scored.probabilities
    for piece, right, constrained in zip(scored.pieces, found.correct, found.constrained, strict=True):
        assert right == (piece in ("▁the", "▁old", "▁sells", "▁flour"))
        assert constrained == (piece == "▁house")
