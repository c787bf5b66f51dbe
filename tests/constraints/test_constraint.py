"""The core type refuses what can never be a constraint."""

from __future__ import annotations

import dataclasses

import pytest

from termweave.constraints.constraint import Constraint
from termweave.errors import ConstraintError


def test_is_a_value() -> None:
    assert Constraint("Haus", "house") == Constraint("Haus", "house")
    assert len({Constraint("Haus", "house"), Constraint("Haus", "house"), Constraint("Haus", "home")}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        Constraint("Haus", "house").target = "home"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("", "house", "its source is empty"),
        ("Haus", " \t", "its target is empty"),
        ("Haus", None, "the target of a constraint must be text, got None"),
        (3, "house", "the source of a constraint must be text, got 3"),
        ("Haus", "\x00a", r"the target of a constraint holds a control character, got '\\x00a'; remove it"),
        ("Ha\x9fus", "a", "the source of a constraint holds a control character"),
    ],
)
def test_errors_name_the_side(source: str, target: str, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        Constraint(source, target)


def test_alternatives_are_checked_too_and_white_space_is_none() -> None:
    assert Constraint("Haus", "a\tb").target == "a\tb"
    with pytest.raises(ConstraintError, match="control character"):
        Constraint("Haus", "house", ("\x1b[0m",))
