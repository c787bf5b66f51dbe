"""Glossaries as tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.constraints.glossary_tables import read_table, write_table
from termweave.errors import DataError

PLAIN = (GlossaryEntry("Haus", ("house",)), GlossaryEntry("der Hof", ("yard",)))


def read(tmp_path: Path, data: str | bytes, name: str = "terms.tsv") -> tuple[GlossaryEntry, ...]:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_table(path, "de", "en").entries


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("terms.tsv", "Haus\thouse\nder Hof\tyard\n"),
        ("terms.tsv", "Haus\thouse\r\nder Hof\tyard"),
        ("terms.tsv", "Haus\thouse\rder Hof\tyard\r"),
        ("terms.tsv", "\ufeffsource\ttarget\n\nHaus\thouse\n\t\nder Hof\tyard\n"),
        ("terms.tsv", "Target\tSOURCE \nhouse\tHaus\nyard\tder Hof\n"),
        ("terms.tsv", "de\ten\nHaus\thouse\nder Hof\tyard\n"),
        ("terms.tsv", "en-GB\tde-DE\tnote\nhouse\tHaus\t\nyard\tder Hof\n"),
        ("terms.tsv", '"Haus"\t"house"\nder Hof\tyard\n'),
        ("terms.tsv", "Haus\thouse\tmust\tcarry\t\nder Hof\tyard\t\t\n"),
        ("terms.csv", "Haus,house\nder Hof,yard\n"),
        ("TERMS.CSV", "\ufeffHaus;house\r\nder Hof;yard\r\n"),
        ("terms.csv", '\n"Haus","house"\n"der Hof","yard"\n'),
        ("terms.csv", "source,target,policy\nHaus,house,MUST\nder Hof,yard,\n"),
        ("terms.csv", "source;target;target\nHaus;house;\nder Hof;yard\n"),
    ],
)
def test_forms_of_the_same_table(tmp_path: Path, name: str, data: str) -> None:
    assert read(tmp_path, data, name) == PLAIN


@pytest.mark.parametrize(
    "data", ["fr\ten\nmaison\thouse\n", "de\tzh-Hans\tnote\nHaus\t房子\t\n", "fr-FR\tit_IT\na\tb\n"]
)
def test_a_table_of_other_languages_is_refused(tmp_path: Path, data: str) -> None:
    first = data.partition("\t")[0].lower()
    message = rf"line 1: its columns are {first} and .*, not de and en; .*`source` and `target`"
    with pytest.raises(DataError, match=message):
        read(tmp_path, data)


@pytest.mark.parametrize("data", ["de-luxe\ten suite\n", "de-luxe\ten-suite\n", "de\tof\n"])
def test_words_that_look_like_codes(tmp_path: Path, data: str) -> None:
    assert len(read(tmp_path, data)) == 1


def test_every_field_and_its_line(tmp_path: Path) -> None:
    text = (
        "source,target,target,policy,case,note\n"
        'Bank,bank,"bench, seat",prefer,exact,"two\nlines"\n'
        "Linux,,,keep,,\n"
        '"ein ""Hof""",yard,,must,fixed,\n'
        ",dude,guy,forbid,,\n"
    )
    entries = read(tmp_path, text, "terms.csv")
    assert entries == (
        GlossaryEntry("Bank", ("bank", "bench, seat"), "prefer", "exact", "two\nlines"),
        GlossaryEntry("Linux", policy="keep"),
        GlossaryEntry('ein "Hof"', ("yard",), case="fixed"),
        GlossaryEntry("", ("dude", "guy"), "forbid"),
    )
    assert [entry.line for entry in entries] == [2, 4, 5, 6]


@pytest.mark.parametrize(
    "data", ["source\tQuelle\n", "note\tNotiz\n", "de\tvon\n", "target\tZiel\n", "to\tzu\n", "en\tde\tmust\n"]
)
def test_a_first_entry_is_no_header(tmp_path: Path, data: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(data)
    assert read_table(path).entries[0].source == data.partition("\t")[0]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.tsv", "", "a.tsv holds no entries"),
        ("a.tsv", "\n \t\n", "holds no entries"),
        ("a.tsv", "source\ttarget\n", "column names and no entries"),
        ("a.tsv", "a\tb\nHaus\n", "line 2: one cell only"),
        ("a.tsv", "a\tb\n\tc\n", "line 2: the source is empty"),
        ("a.tsv", "a\t\n", "line 1: 'a' has no target"),
        ("a.tsv", "a\tb\tmay\n", r"line 1: unknown policy 'may'; .* column names must include `source` and `target`"),
        ("a.tsv", "source\ttarget\tpolicy\na\tb\tmay\n", "line 2: unknown policy 'may'; it is one of must.*forbid$"),
        ("a.tsv", "source\ttarget\tcase\na\tb\tbig\n", "line 2: unknown case rule 'big'"),
        ("a.tsv", "source\ttarget\tpolcy\na\tb\tmust\n", "line 1: unknown column 'polcy'; did you mean 'policy'"),
        (
            "a.tsv",
            "source\ttarget\tdefinition\na\tb\tc\n",
            "unknown column 'definition'; rename it `note` or remove it",
        ),
        ("a.tsv", "source\ttarget\tsource\na\tb\tc\n", "line 1: the column 'source' stands twice"),
        ("a.tsv", "source\ttarget\na\tb\tc\n", "line 2: 3 cells where there are 2 columns"),
        ("a.csv", "a,b\nc,d,must,carry,x,y\n", "line 2: 6 cells where there are 5 columns"),
        ("a.tsv", 'a\tb\n"quoted" start\tc\n', "line 2: .*must be quoted whole"),
        ("a.tsv", 'a\tb\n"never closed\tc\nd\te\n', "line 2: .*must be quoted whole"),
        ("a.tsv", "a\tb\nGrüße\tc\n".encode("latin-1"), r"line 2: not UTF-8 \(byte 0xfc\); save the file as UTF-8"),
        ("a.tsv", "a\tb\n".encode("utf-16"), "line 1: this is UTF-16; save the file as UTF-8"),
        ("a.csv", "a,b\n".encode("utf-16-le"), "line 1: NUL byte"),
        ("a.csv", "a,b\n" + "x" * 200_000 + ",c\n", "line 2: field larger than field limit"),
    ],
)
def test_bad_tables(tmp_path: Path, name: str, data: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"(?s){message}") as caught:
        read(tmp_path, data, name)
    assert name in str(caught.value)


def test_faults_are_gathered(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\nonly\n\tc\nd\te\n")
    faults: list[tuple[int, str]] = []
    assert [entry.source for entry in read_table(path, faults=faults).entries] == ["a", "d"]
    assert [line for line, _ in faults] == [2, 3]


def test_only_needed_columns_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    write_table(Glossary(PLAIN), path)
    assert path.read_bytes() == b"source\ttarget\nHaus\thouse\nder Hof\tyard\n"
    write_table(Glossary((GlossaryEntry("x", ('y"', "z"), note="a\tb"), GlossaryEntry("w", policy="keep"))), path)
    assert path.read_text() == ('source\ttarget\ttarget\tpolicy\tnote\nx\t"y"""\tz\tmust\t"a\tb"\nw\t\t\tkeep\t\n')
