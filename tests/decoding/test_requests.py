"""What `termweave translate` is asked for: lines or a set, and terms where they occur."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from termweave import Constraint, Glossary, GlossaryEntry, Terminology
from termweave.decoding.requests import MOST_CHARACTERS, Wanted, parse_term, read_requests, read_terms, shortened
from termweave.errors import ConfigError, DataError

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
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"\n", [""]),
        (b"", []),
        ("\ufeffa".encode(), ["a"]),
        ("Größe\n\n".encode(), ["Größe", ""]),
    ],
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
        ("Das HAUS brennt.", "de", "Haus=house", True),
        ("Das alte\u00a0Haus", "de", "alte Haus=old house", True),
        ("Das alte, Haus", "de", "alte Haus=old house", False),
        ("Mu\u0308hle", "de", "Mühle=mill", True),
        ("我们在村里买面粉。", "zh", "面粉=flour", True),
        ("l’Europe", "fr", "Europe=Europe", True),
    ],
)
def test_terms_hold_where_their_source_stands_as_whole_words(sentence, language, term, holds):
    terminology = read_terms([], [parse_term(term)], f"{language}-en", inflection=False, protect=False)
    assert bool(terminology.plan(sentence).required) is holds


def test_terms_are_pairs():
    assert parse_term(" alte Haus = old = house ") == GlossaryEntry("alte Haus", ("old = house",))
    with pytest.raises(ConfigError, match="write it as SOURCE=TARGET"):
        parse_term("Haus")
    with pytest.raises(ConfigError, match="a side is empty"):
        parse_term("=house")


def test_a_single_term_wins_over_the_glossary(tmp_path):
    (tmp_path / "terms.tsv").write_text("Haus\tbuilding\nFluss\triver\n")
    terminology = read_terms([tmp_path / "terms.tsv"], [parse_term("Haus=house")], "de-en", False, False)
    found = terminology.plan("ein Haus am Fluss").required
    assert [constraint.target for constraint in found] == ["house", "river"]


def test_withholding_constraints_needs_a_constraint_set(tmp_path):
    (tmp_path / "text").write_text("das Haus\n")
    with pytest.raises(ConfigError, match="belongs to --set"):
        read_requests(tmp_path / "text", None, with_constraints=False)


@pytest.mark.parametrize("before", range(880, 906))
def test_no_piece_of_a_long_sentence_ends_inside_a_term(before):
    terms = Terminology(Glossary.of([GlossaryEntry("alter Hof", ("yard",))], "de-en"), "de-en")
    sentence = "wort " * (before // 5) + "x" * (before % 5) + " alter Hof {{ name }} " + "wort " * 300
    pieces = shortened(sentence, terms)
    assert " ".join(pieces).split() == sentence.split()
    assert all(len(piece) <= MOST_CHARACTERS for piece in pieces)
    assert sum("alter Hof" in piece for piece in pieces) == 1
    assert sum("{{ name }}" in piece for piece in pieces) == 1


@pytest.mark.parametrize("start", [MOST_CHARACTERS - 3, MOST_CHARACTERS - 1, MOST_CHARACTERS])
def test_the_same_without_spaces(start):
    terms = Terminology(Glossary.of([GlossaryEntry("老房子", ("old house",))], "zh-en"), "zh-en")
    sentence = "我" * start + "老房子" + "我" * 1000
    pieces = shortened(sentence, terms)
    assert "".join(pieces) == sentence
    assert all(len(piece) <= MOST_CHARACTERS for piece in pieces)
    assert sum("老房子" in piece for piece in pieces) == 1


def test_what_cannot_be_cut_between_words_is_cut_anywhere():
    terms = Terminology(Glossary.of([GlossaryEntry("x" * 1000, ("y",))], "de-en"), "de-en")
    assert [len(piece) for piece in shortened("x" * 1000, terms)] == [900, 100]
    assert shortened(" " * 1000) == [""]


def test_which_glossary_files_occur(tmp_path: Path) -> None:
    tables = {"a": "Haus\thouse\nHof\tyard\n", "b": "Haus\thut\tforbid\n", "c": "Boot\tboat\n", "d": "\tdude\tforbid\n"}
    paths = [tmp_path / f"{name}.tsv" for name in tables]
    for path, table in zip(paths, tables.values(), strict=True):
        path.write_text(table)
    terms = (parse_term("Haus=building"), parse_term("Mühle=mill"))
    wanted = Wanted(tuple(paths), terms, inflection=False, protect=True)
    read = wanted.read("de-en")
    assert read.terminology is not None
    receipts = read.terminology.plan("ein Haus, 5 km").receipts("a building, 5 km", [(2, 10), (12, 16)], "en")
    used = read.used(receipts)
    assert list(wanted.unused(used)) == [
        "the term 'Mühle' occurs in no sentence and was not applied",
        f"nothing of the glossary {paths[2]} occurs in the text; is it one for these languages?",
    ]
    assert list(wanted.unused(wanted.names())) == []


def test_more_terms_than_can_be_guaranteed_are_cut_apart():
    terms = Terminology(Glossary.of([GlossaryEntry("altes Haus", ("house",))], "de-en"), "de-en")
    sentence = " ".join(["altes Haus"] * 70)
    pieces = shortened(sentence, terms)
    assert " ".join(pieces) == sentence
    assert all(piece.startswith("altes") and piece.endswith("Haus") for piece in pieces)
    assert [len(terms.plan(piece).required) for piece in pieces] == [35, 35]
    numbers = " ".join(["5 km"] * 70)
    assert shortened(numbers, terms) == [numbers]  # those are left to the model
    assert shortened("x" * 400, terms) == ["x" * 400]
