"""Whole jobs, with an engine that works in this process: what is written, and what an interruption leaves."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_here import Here

from termweave import Translator
from termweave.decoding import requests
from termweave.errors import DataError
from termweave.shards import Settings, translate_shards
from termweave.shards.ledger import FOLDER

Make = Callable[..., Settings]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and FOLDER not in path.parts
    }


def test_every_shard_becomes_a_file_with_the_same_lines(corpus, lines, settings: Make, model, tmp_path):
    report = translate_shards([corpus], tmp_path / "out", settings(), Here(), rows=6)
    assert (report.shards, report.before, report.resumed, report.tally.sentences) == (3, 0, 0, 33)
    found = contents(tmp_path / "out")
    assert found.keys() == {"a.de", "more/b.de.gz", "none.de"}
    written = (found["a.de"] + gzip.decompress(found["more/b.de.gz"])).decode()
    expected = [result.text for result in Translator.load(model, "cpu").translate(lines, beam=1)]
    assert written.removesuffix("\n").split("\n") == expected
    assert found["none.de"] == b""


def test_pairs_and_receipts(corpus, lines, settings: Make, tmp_path):
    translate_shards([corpus], tmp_path / "plain", settings("Haus=house"), Here(), rows=6)
    asked = settings("Haus=house", pairs=True, receipts=True)
    report = translate_shards([corpus], tmp_path / "out", asked, Here(), rows=6, receipts=tmp_path / "told")
    rows = [line.split("\t") for line in (tmp_path / "out" / "a.de.tsv").read_text().removesuffix("\n").split("\n")]
    assert [source for source, _ in rows] == lines[:23]
    assert [target for _, target in rows] == (tmp_path / "plain" / "a.de").read_text().removesuffix("\n").split("\n")
    records = [json.loads(line) for line in (tmp_path / "told" / "a.de.tsv.jsonl").open(encoding="utf-8", newline="\n")]
    with_term = [number for number, line in enumerate(lines[:23], start=1) if "Haus" in line]
    assert [record["line"] for record in records] == with_term
    assert all(record["source"] == lines[record["line"] - 1] for record in records)
    assert all("house" in rows[number - 1][1] for number in with_term)
    occurrences = sum(line.split().count("Haus") for line in "\n".join(lines).splitlines())
    assert report.tally.statuses["met"] == occurrences
    assert report.tally.used == {"Haus"}


def test_tags_come_through(settings: Make, tmp_path):
    (tmp_path / "tags.de").write_text("das <b>Haus</b> <i>am Fluss</i>\n", encoding="utf-8")
    translate_shards([tmp_path / "tags.de"], tmp_path / "out", settings("Haus=house"), Here())
    written = (tmp_path / "out" / "tags.de").read_text(encoding="utf-8")
    assert sorted(re.findall("<[^>]*>", written)) == ["</b>", "</i>", "<b>", "<i>"]


def test_an_interrupted_job_goes_on_without_repeating_anything(corpus, settings: Make, tmp_path):
    asked, output = settings("Haus=house", receipts=True), tmp_path / "out"
    whole = Here()
    translate_shards([corpus], tmp_path / "whole", asked, whole, rows=5, receipts=tmp_path / "told")
    first, second, third = Here(until=2), Here(until=4), Here()
    for engine in (first, second):
        with pytest.raises(KeyboardInterrupt):
            translate_shards([corpus], output, asked, engine, rows=5, receipts=tmp_path / "again")
        assert not (output / "a.de.tsv").exists()
    report = translate_shards([corpus], output, asked, third, rows=5, receipts=tmp_path / "again")
    assert first.done + second.done + third.done == whole.done
    assert contents(output) == contents(tmp_path / "whole")
    assert contents(tmp_path / "again") == contents(tmp_path / "told")
    assert report.before == 2  # a.de by the second run, and the one without lines
    fourth = Here()
    assert translate_shards([corpus], output, asked, fourth, rows=5, receipts=tmp_path / "again").before == 3
    assert fourth.done == []
    assert translate_shards([corpus], output, asked, Here(), rows=5, receipts=tmp_path / "elsewhere").before == 0
    assert contents(tmp_path / "elsewhere") == contents(tmp_path / "told")
    left = {path.name for path in (output / FOLDER).rglob("*") if path.is_file()}
    assert left == {"shard.json", ".lock"}


def test_a_chunk_without_its_tally_is_done_again(corpus, settings: Make, tmp_path):
    """So a process leaves it that is killed between two files."""
    with pytest.raises(KeyboardInterrupt):
        translate_shards([corpus], tmp_path / "out", settings(), Here(until=3), rows=5)
    folder = tmp_path / "out" / FOLDER / "a.de"
    (folder / "00000001.json").unlink()
    (folder / "00000001.rows").write_text("rubbish\n")
    engine = Here()
    translate_shards([corpus], tmp_path / "out", settings(), engine, rows=5)
    assert [number for name, number in engine.done if name == "a.de"] == [1, 3, 4]
    translate_shards([corpus], tmp_path / "whole", settings(), Here(), rows=5)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_what_has_changed_is_done_anew_and_nothing_else(corpus, settings: Make, tmp_path):
    output = tmp_path / "out"
    translate_shards([corpus], output, settings(), Here(), rows=50)
    (corpus / "a.de").write_text("ein anderes Haus\n")
    (corpus / "new.de").write_text("neu\n")
    (output / "none.de").unlink()
    engine = Here()
    report = translate_shards([corpus], output, settings(), engine, rows=50)
    assert [name for name, _ in engine.done] == ["a.de", "new.de"]
    assert (report.before, (output / "none.de").exists()) == (1, True)
    for changed in (settings("Haus=house"), settings(search={"beam": 2}), settings(pairs=True)):
        engine = Here()
        translate_shards([corpus], output, changed, engine, rows=50)
        assert len(engine.done) == 3
    assert (output / "a.de.tsv").read_text().startswith("ein anderes Haus\t")


def test_a_line_that_is_too_long_is_translated_in_pieces(settings: Make, tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "MOST_CHARACTERS", 30)
    (tmp_path / "long.de").write_text("das Haus\n" + "alt alt alt Haus " * 3 + "\nder Müller\n", encoding="utf-8")
    asked = settings("Haus=house", receipts=True)
    report = translate_shards([tmp_path / "long.de"], tmp_path / "out", asked, Here(), receipts=tmp_path / "told")
    assert (tmp_path / "out" / "long.de").read_text().count("\n") == 3
    assert report.tally.sentences == 3
    records = [json.loads(line) for line in (tmp_path / "told" / "long.de.jsonl").read_text().splitlines()]
    assert [record["line"] for record in records] == [1, 2, 2]
    assert report.tally.statuses["met"] == 4


def test_an_error_names_the_file_and_the_line_and_keeps_what_is_done(settings: Make, tmp_path):
    path = tmp_path / "odd.de"
    path.write_text(
        "das Haus\n" * 7 + "\U0001f600" * 800 + "\nder Müller\n", encoding="utf-8"
    )  # four bytes, no subword
    with pytest.raises(DataError, match=r"odd\.de, line 8 has \d+ subwords, the limit is 1022"):
        translate_shards([path], tmp_path / "out", settings(), Here(), rows=4)
    engine = Here()
    with pytest.raises(DataError, match="line 8"):
        translate_shards([path], tmp_path / "out", settings(), engine, rows=4)
    assert engine.done == [("odd.de", 1)]
