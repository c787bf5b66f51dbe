from __future__ import annotations

from pathlib import Path

import pytest

from termweave.errors import ConfigError, DataError
from termweave.shards.inputs import find_shards


def names(inputs: list[Path], output: Path, pairs: bool = False) -> list[str]:
    return [shard.name for shard in find_shards(inputs, output, pairs)]


def test_files_folders_and_patterns(corpus: Path, tmp_path: Path):
    output = tmp_path / "out"
    assert names([corpus], output) == ["a.de", "more/b.de.gz", "none.de"]
    assert names([corpus / "a.de"], output) == ["a.de"]
    assert names([corpus / "*.de"], output) == ["a.de", "none.de"]
    assert names([corpus / "**" / "*.gz"], output) == ["b.de.gz"]
    assert names([corpus / "a.de", corpus / "a.*"], output) == ["a.de"]  # once


def test_pairs_are_named_as_tables(corpus: Path, tmp_path: Path):
    assert names([corpus], tmp_path / "out", pairs=True) == ["a.de.tsv", "more/b.de.tsv.gz", "none.de.tsv"]


def test_the_output_may_lie_within_the_input(corpus: Path):
    output = corpus / "translated"
    output.mkdir()
    (output / "a.de").write_text("of the run before\n")
    assert names([corpus], output) == ["a.de", "more/b.de.gz", "none.de"]


def test_what_cannot_be_is_refused(corpus: Path, tmp_path: Path):
    (corpus / "more" / "a.de").write_text("x\n")
    with pytest.raises(ConfigError, match=r"would both become a\.de"):
        find_shards([corpus / "a.de", corpus / "more" / "a.de"], tmp_path)
    (tmp_path / "more").write_text("x\n")
    with pytest.raises(ConfigError, match="needs a folder of the same name"):
        find_shards([tmp_path / "more", corpus], tmp_path / "out")
    with pytest.raises(DataError, match="that they do not lie in"):
        find_shards([corpus], corpus)
    with pytest.raises(ConfigError, match="overwritten by its own translation"):
        find_shards([corpus / "a.de"], corpus)
    with pytest.raises(DataError, match=r"no such file or folder"):
        find_shards([corpus / "*.fr"], tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no file to translate"):
        find_shards([tmp_path / "empty"], tmp_path / "out")
    (corpus / "page.html.gz").touch()
    with pytest.raises(ConfigError, match="format html cannot be shards"):
        find_shards([corpus], tmp_path / "out")
