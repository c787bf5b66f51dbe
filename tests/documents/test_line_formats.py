"""Formats read as streams: plain text and tables."""

from __future__ import annotations

import csv
import tracemalloc
from pathlib import Path

import pytest
from fake_translators import Recorder, runner, same, shout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termweave.documents import Options, translate_file
from termweave.errors import ConfigError, DataError

TEXT = "\ufeffA first line. And more.\r\n\n   indented, with  two spaces\n\tend: {name}\rold\u2028new\n12\nlast"


@pytest.fixture
def txt(tmp_path: Path):  # type: ignore[no-untyped-def]
    return runner("txt", tmp_path)


@pytest.fixture
def tsv(tmp_path: Path):  # type: ignore[no-untyped-def]
    return runner("tsv", tmp_path)


def test_lines_and_their_ends_stay(txt) -> None:  # type: ignore[no-untyped-def]
    assert txt(TEXT, same) == TEXT
    assert txt(TEXT) == (
        "\ufeffA FIRST LINE. AND MORE.\r\n\n   INDENTED, WITH TWO SPACES\n\tEND: {name}\rOLD\u2028NEW\n12\nLAST"
    )


def test_an_empty_file_stays_empty(txt) -> None:  # type: ignore[no-untyped-def]
    assert txt("") == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"good\nb\xe4d\n", r"document\.txt, line 2: not UTF-8 \(byte 0xe4\)"),
        ("wide".encode("utf-16"), r"document\.txt, line 1: "),
        (b"one\ntwo\0\n", r"document\.txt, line 2: NUL"),
    ],
)
def test_wrong_encodings(txt, data: bytes, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=message):
        txt(data)


def test_a_line_without_end(txt, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("termweave.documents.document.LONGEST_LINE", 1 << 20)
    with pytest.raises(DataError, match="line 2: longer than 1 MiB"):
        txt("a\n" + "b " * (1 << 19) + "c")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak(lines: int) -> int:
        path = tmp_path / "long.txt"
        path.write_text("A line of text that is not very long.\n" * lines)
        tracemalloc.start()
        translate_file(path, tmp_path / "out.txt", shout, batch=64)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peak(300)
    assert peak(6000) < 2 * peak(1500)


TABLE = 'id\ttext\tnote\r\n1\tGood morning. Hello.\tkeep\r\n2\t"He said ""no"" and left"\t\n\n3\t\tx'


def test_a_column_by_number(tsv) -> None:  # type: ignore[no-untyped-def]
    recorder = Recorder()
    assert tsv(TABLE, recorder, column=2, header=True) == (
        'id\ttext\tnote\r\n1\tGOOD MORNING. HELLO.\tkeep\r\n2\t"HE SAID ""NO"" AND LEFT"\t\n\n3\t\tx'
    )
    assert recorder.lines == ["Good morning.", "Hello.", 'He said "no" and left']
    assert tsv(TABLE, same, column=2) == TABLE


def test_a_column_by_name_and_appended(tsv) -> None:  # type: ignore[no-untyped-def]
    assert tsv(TABLE, column="text", append=True, target_language="de") == (
        "id\ttext\tnote\ttext.de\r\n1\tGood morning. Hello.\tkeep\tGOOD MORNING. HELLO.\r\n"
        '2\t"He said ""no"" and left"\t\t"HE SAID ""NO"" AND LEFT"\n\n3\t\tx\t'
    )


def test_a_translation_cannot_break_the_row(tsv) -> None:  # type: ignore[no-untyped-def]
    assert tsv('a\t"b c"\n', lambda lines: ['x\ty\n"z"' for _ in lines], column=2) == 'a\t"x y ""z"""\n'


def test_a_translation_that_begins_with_a_quote_is_quoted(tsv) -> None:  # type: ignore[no-untyped-def]
    """Others would take it for a quoted cell, and its quotes for the table's."""
    quotes = str.maketrans("„“", '""')
    text = "„Yes“, she „said“. Done\t„x“\nno „quotes“ first\tx\n"
    result = tsv(text, lambda lines: [line.translate(quotes) for line in lines])
    assert result == '"""Yes"", she ""said"". Done"\t„x“\nno "quotes" first\tx\n'
    assert next(csv.reader(result.splitlines(), delimiter="\t"))[0] == '"Yes", she "said". Done'
    kept = 'Say "it". „Yes“'  # no new text begins the cell
    assert tsv(kept, lambda lines: [line.translate(quotes) for line in lines]) == 'Say "it". "Yes"'


def test_what_is_wrong_with_a_table(tsv) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=r"document\.tsv, line 3: no column 2, the row has 1"):
        tsv("a\tb\nc\td\ne\n", column=2)
    with pytest.raises(DataError, match="line 1: no column 'texts'; there are id, text, note"):
        tsv(TABLE, column="texts")
    with pytest.raises(ConfigError, match="counted from 1"):
        tsv(TABLE, column=0)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_any_text_comes_back(tmp_path: Path, text: str) -> None:
    assert runner("txt", tmp_path)(text, same) == text


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.text(alphabet="ab\"'. ä%{}", max_size=8), min_size=2, max_size=3).map("\t".join)).map(
        "\n".join
    )
)
def test_any_table_comes_back(tmp_path: Path, text: str) -> None:
    assert runner("tsv", tmp_path)(text, same, column=2) == text
    assert Options().column == 1
