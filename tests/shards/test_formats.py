"""Shards are cut, read in any order, written and joined: what comes out are the rows that went in."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termweave.data.readers import read_lines
from termweave.errors import ConfigError, DataError
from termweave.shards import formats
from termweave.shards.formats import ShardFormat, shard_format
from termweave.shards.inputs import Shard


def pack_zstandard(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    half = len(data) // 2  # two frames, as a joined file has them
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": pack_zstandard,
}
TEXT = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=12)


def opened(path: Path, column: str | None = None, pairs: bool = False) -> ShardFormat:
    return shard_format(Shard(path, path.name), column, pairs)


def through(form: ShardFormat, rows: int, folder: Path, output: Path, backwards: bool = False) -> list[str]:
    """Every piece read, in order or from the last to the first, "translated" by brackets, joined; the sentences."""
    pieces = list(form.pieces(rows))
    parts, found = {}, {}
    for number, piece in reversed(list(enumerate(pieces))) if backwards else enumerate(pieces):
        own, found[number] = form.read(piece)
        parts[number] = folder / f"part{number}"
        form.write(own, [f"<{text}>" for text in found[number]], parts[number])
    form.join((parts[number] for number in sorted(parts)), output)
    return [text for number in sorted(found) for text in found[number]]


@pytest.mark.parametrize("suffix", PACKED)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXT, min_size=1, max_size=9), rows=st.integers(1, 4), backwards=st.booleans())
def test_lines_stay_lines(tmp_path: Path, suffix: str, texts: list[str], rows: int, backwards: bool):
    texts[0] = texts[0].lstrip("\ufeff")  # there it would be the mark of the encoding
    path, output = tmp_path / f"in.de{suffix}", tmp_path / f"out.de{suffix}"
    path.write_bytes(PACKED[suffix]("".join(text + "\n" for text in texts).encode()))
    assert through(opened(path), rows, tmp_path, output, backwards) == texts
    assert list(read_lines(output)) == [f"<{text}>" for text in texts]


@pytest.mark.parametrize("suffix", PACKED)
def test_a_shard_without_lines_becomes_one(tmp_path: Path, suffix: str):
    path, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    path.write_bytes(PACKED[suffix](b""))
    assert through(opened(path), 3, tmp_path, output) == []
    with pytest.raises(DataError, match="is empty"):  # not damaged
        list(read_lines(output))


def test_a_byte_order_mark_and_carriage_returns_are_no_text(tmp_path: Path):
    path = tmp_path / "in"
    path.write_bytes("\ufeffa\r\n\ufeffb\r\nc".encode())
    assert through(opened(path), 2, tmp_path, tmp_path / "out") == ["a", "\ufeffb", "c"]


def test_long_lines_end_a_piece_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "MOST_BYTES", 10)
    path = tmp_path / "in"
    path.write_text("123456789\n1\n123456789012345\n1\n1\n")
    assert [piece[:2] for piece in opened(path).pieces(100)] == [(0, 1), (1, 2), (3, 2)]


def test_line_breaks_and_tabs_in_translations_do_not_shift_lines(tmp_path: Path):
    path = tmp_path / "in"
    path.write_text("a\tb\nc\n")
    for pairs, expected in ((False, "x y\nz\tz\n"), (True, "a b\tx y\nc\tz z\n")):
        form = opened(path, pairs=pairs)
        rows, _ = form.read(next(form.pieces(5)))
        form.write(rows, ["x\ny", "z\tz"], tmp_path / "out")
        assert (tmp_path / "out").read_text() == expected


def test_json_keeps_all_fields(tmp_path: Path):
    records = [
        {"id": number, "text": text, "more": [None]} for number, text in enumerate(("ä", "b\nc", "", "😀", None))
    ]
    path, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    through(opened(path, "text"), 2, tmp_path, output)
    written = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert written == [record | {"translation": f"<{record['text'] or ''}>"} for record in records]


NO_RECORDS = ["{", "[]", '{"other": "x"}', '{"text": 3}', "", '{"text": "x", "translation": "y"}']
NOT_TO_BE_WRITTEN = ['{"text": "x", "n": NaN}', '{"text": "x", "n": 1e400}', '{"text": "x", "n": "\\ud800"}']


@pytest.mark.parametrize("line", [*NO_RECORDS, *NOT_TO_BE_WRITTEN])
def test_a_line_that_is_no_such_record_is_named(tmp_path: Path, line: str):
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n')
    form = opened(path, "text")
    _, second = form.pieces(1)
    with pytest.raises(DataError, match=r"in\.jsonl, line 2"):
        form.read(second)


def test_parquet_keeps_all_columns_and_types(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = ["a", None, "", "d", "e", "f", "g"]
    table = pyarrow.table({"id": pyarrow.array(range(7), pyarrow.int16()), "text": texts})
    path, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(table, path, row_group_size=4)
    form = opened(path, "text")
    assert [piece[:3] for piece in form.pieces(3)] == [(0, 3, 0), (3, 1, 0), (4, 3, 1)]
    through(form, 3, tmp_path, output, backwards=True)
    written = parquet.read_table(output)
    assert written.drop_columns("translation").equals(table)
    assert written.column("translation").to_pylist() == [f"<{text or ''}>" for text in texts]
    for column, message in (("id", "holds no text"), ("absent", "has no column 'absent'; it has: id, text")):
        with pytest.raises(DataError, match=message):
            opened(path, column)


def test_parquet_that_is_no_good_is_refused(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.Table.from_arrays([["a"], ["b"]], names=["text", "text"]), path)
    with pytest.raises(DataError, match="several columns of the name 'text'"):
        opened(path, "text")
    parquet.write_table(pyarrow.table({"text": [f"sentence {number}" for number in range(1000)]}), path)
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    form = opened(path, "text")
    with pytest.raises(DataError, match=r"in\.parquet, row group 0 cannot be read"):
        form.read(next(form.pieces(10)))


def test_what_cannot_be_read_is_refused_while_it_is_cut(tmp_path: Path):
    (tmp_path / "latin").write_bytes(b"fine\nM\xfcller\n")
    with pytest.raises(DataError, match="latin, line 2: invalid UTF-8"):
        list(opened(tmp_path / "latin").pieces(10))
    for suffix in (".gz", ".xz", ".zst"):
        path = tmp_path / f"cut{suffix}"
        path.write_bytes(PACKED[suffix](b"some text\n" * 1000)[:-20])
        with pytest.raises(DataError, match="cut off or damaged"):
            list(opened(path).pieces(10))


def test_columns_and_pairs_where_they_make_sense(tmp_path: Path):
    path = tmp_path / "in.jsonl"
    path.write_text("{}\n")
    with pytest.raises(ConfigError, match="name the column to translate"):
        opened(path)
    with pytest.raises(ConfigError, match="--pairs is for text"):
        opened(path, "text", pairs=True)
    with pytest.raises(ConfigError, match="translations are put there"):
        opened(path, "translation")
