"""Odd characters in terms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.constraints.odd_characters import oddities


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("house", []),
        ("a\tb", ["control-character"]),
        ("a\x9fb", ["control-character"]),
        ("a\u2028b", ["control-character"]),
        (" a", ["outer-space"]),
        ("a\u00a0", ["outer-space"]),
        ("a  b", ["double-space"]),
        ("ha\u00adus", ["invisible-character"]),
        ("a\u200bb", ["invisible-character"]),
        ("\ufeffa", ["invisible-character"]),
        ("a\u202eb", ["invisible-character"]),
        ("ab\u200dc", ["invisible-character"]),
        ("می\u200cخواهم", []),
        ("👩\u200d💻", []),
        ("a\ufffdb", ["lost-character"]),
        ("a\ue001b", ["lost-character"]),
        ("MÃ¼ller", ["misread-encoding"]),
        ("â€œopenâ€", ["misread-encoding"]),
        ("cafe\u0301", ["decomposed"]),
        ("p\u0430ypal", ["mixed-scripts"]),
        ("Ελλάδα Greece", []),
        ("β-Blocker", []),
        ("使用Linux", []),
        ("Linux用户", []),
        ("(a", ["unbalanced"]),
        ("a]", ["unbalanced"]),
        ("(a]", ["unbalanced"]),
        ("（系统", ["unbalanced"]),
        ('(a [b] {c}) „d“ “e” «f» »g« "h" it\'s 5’', []),
        ('"a', ["unbalanced"]),
        ("«a", ["unbalanced"]),
        ("„a", ["unbalanced"]),
    ],
)
def test_codes(text: str, codes: list[str]) -> None:
    assert [code for code, _, _ in oddities(text)] == codes


def test_words() -> None:
    (found,) = oddities("p\u0430ypal")
    assert found == (
        "mixed-scripts",
        "mixes Cyrillic and Latin letters in 'p\u0430ypal'",
        "type the word anew in one alphabet",
    )


@given(st.text())
def test_any_text(text: str) -> None:
    for _, problem, remedy in oddities(text):
        assert problem
        assert remedy
