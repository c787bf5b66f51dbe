"""What `termweave translate` is asked for: lines or a set, and terms where they occur."""

from __future__ import annotations

import io
import json
import sys

import pytest

from termweave import Constraint
from termweave.decoding.requests import add_terms, parse_term, read_requests
from termweave.errors import ConfigError, ConstraintError, DataError

HOUSE = Constraint("Haus", "house")


@pytest.fixture
def constraint_set(tmp_path):
    path = tmp_path / "set.jsonl"
    rows = [
        {"source": "das Haus", "target": "the house", "constraints": [{"source": "Haus", "target": "house"}]},
        {"source": "der Fluss", "target": "the river", "constraints": []},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def with_terms(sentence: str, terms: list[Constraint], language: str = "de") -> list[Constraint]:
    wanted: list[Constraint] = []
    add_terms([sentence], [wanted], terms, language)
    return wanted


def test_a_file_has_no_constraints(tmp_path):
    (tmp_path / "text").write_text("das Haus\n\nder Fluss\n")
    assert read_requests(tmp_path / "text", None, True) == (["das Haus", "", "der Fluss"], [[], [], []])


def test_a_set_has_those_of_its_sentences_unless_they_are_withheld(constraint_set):
    assert read_requests(None, constraint_set, True) == (["das Haus", "der Fluss"], [[HOUSE], []])
    assert read_requests(None, constraint_set, False) == (["das Haus", "der Fluss"], [[], []])
    with pytest.raises(ConfigError, match="not both"):
        read_requests(constraint_set, constraint_set, True)


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"a\nb\n", ["a", "b"]), (b"a\nb", ["a", "b"]), (b"\n", [""]), (b"", []), ("Größe\n\n".encode(), ["Größe", ""])],
)
def test_standard_input(monkeypatch, content, lines):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_requests(None, None, True)[0] == lines


def test_standard_input_in_another_encoding(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Müller".encode("latin-1"))))
    with pytest.raises(DataError, match=r"not UTF-8 text \(byte 1\)"):
        read_requests(None, None, True)


def test_no_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="no standard input; name a text file"):
        read_requests(None, None, True)


@pytest.mark.parametrize(
    ("sentence", "language", "term", "holds"),
    [
        ("Das Haus brennt.", "de", "Haus=house", True),
        ("Das Haus, das brennt.", "de", "Haus=house", True),
        ("Das Hausboot brennt.", "de", "Haus=house", False),
        ("Das haus brennt.", "de", "Haus=house", False),
        ("Das alte\u00a0Haus", "de", "alte Haus=old house", True),
        ("Das alte, Haus", "de", "alte Haus=old house", False),
        ("Mu\u0308hle", "de", "Mühle=mill", True),
        ("我们在村里买面粉。", "zh", "面粉=flour", True),
        ("l’Europe", "fr", "Europe=Europe", True),
    ],
)
def test_terms_hold_where_their_source_stands_as_whole_words(sentence, language, term, holds):
    parsed = parse_term(term)
    assert with_terms(sentence, [parsed], language) == ([parsed] if holds else [])


def test_terms_join_the_constraints_a_sentence_has(constraint_set):
    sentences, wanted = read_requests(None, constraint_set, True)
    river = Constraint("Fluss", "river")
    add_terms(sentences, wanted, [river], "de")
    assert wanted == [[HOUSE], [river]]


def test_terms_are_pairs():
    assert parse_term(" alte Haus = old = house ") == Constraint("alte Haus", "old = house")
    with pytest.raises(ConfigError, match="write it as SOURCE=TARGET"):
        parse_term("Haus")
    with pytest.raises(ConstraintError, match="its source is empty"):
        parse_term("=house")


def test_terms_that_hold_nowhere_are_named():
    terms = [Constraint("Haus", "building"), Constraint("Boot", "boat")]
    wanted: list[list[Constraint]] = [[], []]
    assert add_terms(["das Haus", "das Hausboot"], wanted, terms, "de") == [terms[1]]
    assert wanted == [[terms[0]], []]


def test_withholding_constraints_needs_a_constraint_set(tmp_path):
    (tmp_path / "text").write_text("das Haus\n")
    with pytest.raises(ConfigError, match="belongs to --set"):
        read_requests(tmp_path / "text", None, with_constraints=False)
