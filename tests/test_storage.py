"""Files that are whole or not there at all, and ragged arrays on disk."""

from __future__ import annotations

import errno
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.errors import DataError
from termweave.storage import RaggedArray, RaggedWriter, atomic_path, read_json, remove, write_json, write_text

ROWS = st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=6), max_size=8)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        assert not path.exists()
        temporary.write_text("whole")
    assert path.read_text() == "whole"
    assert names(path.parent) == ["file.txt"]


def test_a_folder_takes_the_place_of_an_older_one(tmp_path):
    path = tmp_path / "model"
    for generation in ("first", "second"):
        with atomic_path(path) as temporary:
            temporary.mkdir()
            (temporary / generation).write_text(generation)
    assert names(path) == ["second"]
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("folder", [False, True])
def test_a_failure_leaves_the_old_one(tmp_path, folder):
    path = tmp_path / "thing"
    if folder:
        path.mkdir()
        (path / "old").write_text("old")
    else:
        path.write_text("old")
    with pytest.raises(RuntimeError, match="in the middle"), atomic_path(path) as temporary:
        if folder:
            temporary.mkdir()
            (temporary / "new").write_text("new")
        else:
            temporary.write_text("new")
        raise RuntimeError("in the middle")
    assert (path / "old" if folder else path).read_text() == "old"
    assert names(tmp_path) == ["thing"]


def test_a_file_does_not_replace_a_folder(tmp_path):
    (tmp_path / "output").mkdir()
    with pytest.raises(DataError, match=r"/output is a folder; name a file$"):
        write_text(tmp_path / "output", "text")
    assert names(tmp_path) == ["output"]


@pytest.mark.parametrize("name", ["file/output", "file/folder/output"])
def test_a_folder_that_is_a_file(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=f"/{name} cannot be written"):
        write_text(tmp_path / name, "text")


def test_a_file_that_cannot_be_written_is_named_as_the_user_did(tmp_path):
    path = tmp_path / "output"
    with pytest.raises(PermissionError) as caught, atomic_path(path) as temporary:
        raise PermissionError(errno.EACCES, "Permission denied", str(temporary))
    assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as missing, atomic_path(path):
        (tmp_path / "input").read_text()
    assert missing.value.filename == str(tmp_path / "input"), "other files keep their names"


def test_leftovers_of_a_killed_process_do_not_disturb(tmp_path):
    path = tmp_path / "model"
    with atomic_path(path) as temporary:
        temporary.mkdir()
    temporary.mkdir()  # as if a process of this number had been killed half way
    (temporary / "garbage").write_text("garbage")
    with atomic_path(path) as temporary:
        temporary.mkdir()
    assert names(tmp_path) == ["model"]
    assert names(path) == []


def test_remove_takes_files_folders_and_nothing(tmp_path):
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    for name in ("folder", "file", "absent"):
        remove(tmp_path / name)
    assert names(tmp_path) == []


def test_text_and_json_round_trip(tmp_path):
    write_text(tmp_path / "text", "Größe\n面粉\n")
    assert (tmp_path / "text").read_bytes() == "Größe\n面粉\n".encode()
    value = {"a": [1, 2.5, None], "ä": "面"}
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == value


def test_unreadable_json_is_a_clear_error(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_json(tmp_path / "absent.json")
    for content in (b'{"a": ', b"\xff\xfe\x00"):
        (tmp_path / "broken.json").write_bytes(content)
        with pytest.raises(DataError, match=r"broken\.json is not valid JSON"):
            read_json(tmp_path / "broken.json")


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, cuts=st.lists(st.integers(0, 8), max_size=3))
def test_ragged_rows_survive_the_disk(rows, cuts):
    """Whatever the portions in which the rows are written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deep" / "rows"
        edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
        with RaggedWriter(path, np.uint16) as writer:
            for start, end in pairwise(edges):
                part = rows[start:end]
                values = np.array([value for row in part for value in row], dtype=np.int64)
                writer.extend(values, np.array([len(row) for row in part], dtype=np.int64))
        stored = RaggedArray.open(path, np.uint16)
        built = RaggedArray.from_rows(rows, np.uint16)
        for array in (stored, built):
            assert len(array) == len(rows)
            assert array.lengths.tolist() == [len(row) for row in rows]
            assert [array[index].tolist() for index in range(len(array))] == rows
            assert array.values.dtype == np.uint16


def test_ragged_arrays_hold_records(tmp_path):
    dtype = np.dtype([("start", "<u2"), ("length", "u1")])
    rows = [[(1, 2), (3, 4)], [], [(5, 6)]]
    array = RaggedArray.from_rows(rows, dtype)
    assert array[0]["length"].tolist() == [2, 4]
    with RaggedWriter(tmp_path / "records", dtype) as writer:
        writer.extend(array.values, array.lengths)
    assert RaggedArray.open(tmp_path / "records", dtype)[2].tolist() == [(5, 6)]


def write_rows(path: Path) -> None:
    with RaggedWriter(path, np.int32) as writer:
        writer.extend(np.arange(6), np.array([1, 2, 3]))


def test_a_writer_that_fails_leaves_the_old_rows(tmp_path):
    path = tmp_path / "rows"
    write_rows(path)
    with pytest.raises(RuntimeError), RaggedWriter(path, np.int32) as writer:
        writer.extend(np.arange(3), np.array([3]))
        raise RuntimeError
    assert RaggedArray.open(path, np.int32).lengths.tolist() == [1, 2, 3]
    assert names(tmp_path) == ["rows.offsets", "rows.values"]


@pytest.mark.parametrize("suffix", ["values", "offsets"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "odd"])
def test_damaged_ragged_files_are_refused(tmp_path, suffix, damage):
    path = tmp_path / "rows"
    write_rows(path)
    file = tmp_path / f"rows.{suffix}"
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes({"empty": b"", "cut": content[:-8], "odd": content[:-3]}[damage])
    with pytest.raises(DataError, match=r"rows\.(values|offsets) is (missing|damaged)"):
        RaggedArray.open(path, np.int32)


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    import os
    import threading

    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_text(tmp_path / "pipe", "through")
    reader.join()
    assert read == ["through"] and (tmp_path / "pipe").is_fifo()
