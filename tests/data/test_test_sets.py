"""Constraint sets of test sets: where links are learned from, and what is said when they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_corpus import toy_config, write_corpus
from typer.testing import CliRunner

from termweave.cli import app
from termweave.constraints.evaluation_sets import ConstraintSetOptions
from termweave.data.prepare import prepare
from termweave.data.test_sets import learn_links, make_test_constraints
from termweave.errors import ConfigError, DataError


def test_a_missing_prepared_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent/prepare\.json does not exist"):
        learn_links([("ein Haus", "a house")], tmp_path / "absent", ("de", "en"), 10)


@pytest.mark.parametrize("languages", [("de", ""), ("", "en"), ("de", "en-fr")])
def test_exactly_two_languages(tmp_path: Path, languages: tuple[str, str]) -> None:
    text = write_corpus(tmp_path, 5)
    with pytest.raises(ConfigError, match="not two languages"):
        make_test_constraints(*text, tmp_path / "set", ConstraintSetOptions(*languages), prepared=tmp_path)


def test_links_are_learned_in_either_order_and_letter_case(tmp_path: Path) -> None:
    german, english = write_corpus(tmp_path, 60)
    prepare(toy_config(tmp_path), until="clean")
    prepared = tmp_path / "prepared"
    for name, files in (("DE-en", (german, english)), ("en-DE", (english, german))):
        options = ConstraintSetOptions(*name.split("-"))
        assert make_test_constraints(*files, tmp_path / name, options, prepared=prepared).constraints > 0
    with pytest.raises(DataError, match="holds no de-fr text; it holds: de-en"):
        learn_links([("ein Haus", "une maison")], prepared, ("de", "fr"), 10)


def test_a_negative_number_of_pairs_is_refused() -> None:
    arguments = ["constraints", "a.de", "a.en", "set.jsonl", "--languages", "de-en", "--align-pairs", "-1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "align-pairs" in result.output
