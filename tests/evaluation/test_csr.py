"""Copying success rate: the cases a careless implementation gets wrong."""

from __future__ import annotations

import pytest

from termweave.constraints.constraint import Constraint
from termweave.errors import ConstraintError, DataError
from termweave.evaluation.csr import SuccessRate, constraints_met, sentence_success, success_rate


def met(hypothesis: str, targets: list[str], language: str = "en") -> tuple[int, int]:
    rate = sentence_success(hypothesis, [Constraint("x", target) for target in targets], language)
    assert rate.total == len(targets)
    return rate.met, rate.met_words


@pytest.mark.parametrize(
    ("hypothesis", "targets", "expected"),
    [
        pytest.param("The old house burns.", ["house burns"], (1, 2), id="before punctuation"),
        pytest.param("(house)", ["house"], (1, 1), id="between brackets"),
        pytest.param("the house, burns", ["house burns"], (0, 0), id="punctuation in between"),
        pytest.param("a big party", ["art"], (0, 0), id="inside a word"),
        pytest.param("an artist", ["art"], (0, 0), id="beginning of a word"),
        pytest.param("modern art", ["art"], (1, 1), id="a word"),
        pytest.param("aXb costs", ["a.b"], (0, 0), id="dot is no wildcard"),
        pytest.param("we use C++ today", ["C++"], (1, 3), id="regex characters"),
        pytest.param("what (exactly) [is] it?", ["(exactly)", "[is]"], (2, 6), id="brackets"),
        pytest.param("The House", ["house"], (0, 0), id="case"),
        pytest.param("the House", ["House"], (1, 1), id="case kept"),
        pytest.param("one house", ["house", "house"], (1, 1), id="needed twice, there once"),
        pytest.param("house and house", ["house", "house"], (2, 2), id="needed twice, there twice"),
        pytest.param("a a a", ["a a", "a a"], (1, 2), id="overlapping occurrences"),
        pytest.param("house house house", ["house"], (1, 1), id="more than needed"),
        pytest.param("a well-known text", ["well-known"], (1, 3), id="hyphen"),
        pytest.param("a well known text", ["well-known"], (0, 0), id="hyphen missing"),
        pytest.param("Europe's members don't agree", ["Europe", "don't"], (2, 2), id="apostrophes"),
        pytest.param("the members' rights", ["members"], (1, 1), id="plural possessive"),
        pytest.param("old house, new home", ["house", "garden"], (1, 1), id="one of two"),
        pytest.param("", ["house"], (0, 0), id="empty translation"),
    ],
)
def test_english(hypothesis: str, targets: list[str], expected: tuple[int, int]) -> None:
    assert met(hypothesis, targets) == expected


@pytest.mark.parametrize(
    ("hypothesis", "targets", "expected"),
    [
        ("我们使用人工智能。", ["人工智能"], (1, 4)),
        ("我们使用人工智能。", ["人工 智能"], (1, 4)),
        ("我们使用人工的智能。", ["人工智能"], (0, 0)),
        ("人人都好", ["人", "人"], (2, 2)),
        ("安装Linux系统", ["Linux"], (1, 1)),
        ("安装Linux2系统", ["Linux"], (0, 0)),
    ],
)
def test_chinese(hypothesis: str, targets: list[str], expected: tuple[int, int]) -> None:
    assert met(hypothesis, targets, "zh") == expected


def test_two_figures_over_a_set() -> None:
    hypotheses = ["the old house burns", "nothing here", "no constraint"]
    constraints = [
        [Constraint("brennt", "burns"), Constraint("das alte Haus", "the old house")],
        [Constraint("Garten", "garden"), Constraint("schöner Garten", "fine garden")],
        [],
    ]
    rate = success_rate(hypotheses, constraints, "en")
    assert rate == SuccessRate(met=2, total=4, met_words=4, total_words=7)
    assert rate.phrase_level == pytest.approx(50)
    assert rate.word_weighted == pytest.approx(400 / 7)


def test_without_constraints_there_is_no_rate() -> None:
    rate = success_rate(["a"], [[]], "en")
    assert rate.phrase_level is None
    assert rate.word_weighted is None


def test_errors() -> None:
    with pytest.raises(DataError, match="1 translations, but constraints of 0"):
        success_rate(["a"], [], "en")
    with pytest.raises(ConstraintError, match="no visible character"):
        sentence_success("a", [Constraint("x", "\u200b")], "en")


def test_any_alternative_meets_a_constraint():
    house = Constraint("Haus", "house", ("building", "old home"))
    for text, met in (("a building", 1), ("the old home", 1), ("a home", 0)):
        assert sentence_success(text, [house], "en").met == met
    assert sentence_success("a house, a building", [house, house], "en").met == 2
    assert sentence_success("the old home", [house], "en").met_words == 1  # those of the target itself


def test_which_constraints_are_met():
    house, home, dog = Constraint("Haus", "house"), Constraint("Heim", "house"), Constraint("Hund", "dog")
    assert constraints_met("a house and a dog", [house, dog, home], "en") == (True, True, False)  # one house, for two
    assert constraints_met("a house, a house", [house, dog, home], "en") == (True, False, True)
    assert constraints_met("a house", [], "en") == ()
