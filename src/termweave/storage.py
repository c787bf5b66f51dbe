"""How Termweave keeps things on disk: atomic files, and ragged arrays that are memory-mapped."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from termweave.errors import BusyError, DataError

Array = npt.NDArray[Any]


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` only if the block succeeds.

    Works for files and for folders: whatever the block creates at the temporary path is moved. Errors name `path`,
    the one the user knows. A link stays one, what it points to is replaced; into a device or a pipe the file is copied.
    """
    named, path = path, path.resolve() if path.is_symlink() else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise DataError(f"{path} cannot be written: a file stands in the place of one of its folders") from None
    is_stream = path.exists() and not path.is_file() and not path.is_dir()
    beside = Path(tempfile.gettempdir()) / path.name if is_stream else path
    temporary = beside.with_name(f".{path.name}.{os.getpid()}.partial")
    remove(temporary)
    try:
        yield temporary
        if is_stream:
            with temporary.open("rb") as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
        elif temporary.is_dir():
            _replace_folder(temporary, path)
        else:
            _replace_file(temporary, path)
    except OSError as error:
        if str(error.filename) != str(temporary):
            raise
        raise OSError(error.errno, error.strerror, str(named)) from None
    finally:
        remove(temporary)


def _replace_file(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; name a file") from None


def _replace_folder(temporary: Path, path: Path) -> None:
    """Put a finished folder in the place of an older one, which is moved aside first: renames cannot overwrite."""
    retired = path.with_name(f".{path.name}.{os.getpid()}.retired")
    remove(retired)
    if path.exists():
        path.rename(retired)
    temporary.rename(path)
    remove(retired)


def remove(path: Path) -> None:
    """Delete a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_stale(target: Path) -> None:
    """Remove what runs that were killed have left of the same target; `atomic_path` names it after the process."""
    if os.name != "posix" or not target.parent.is_dir():  # elsewhere a process cannot be asked for without harm
        return
    partial = re.compile(re.escape(f".{target.name}.") + r"([0-9]{1,10})\.partial")
    for entry in target.parent.iterdir():
        if (match := partial.fullmatch(entry.name)) and _is_gone(int(match[1])):
            remove(entry)


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it runs, as another user
        return False
    return False


def folder_state(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of change of the files in a folder: what they tell apart need not be read."""
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())]


def write_text(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None


@contextmanager
def locked(folder: Path, command: str) -> Iterator[None]:
    """One `command` per folder at a time; the lock vanishes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not a Unix system: go without
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BusyError(f"{folder}: another `{command}` is at work there; wait until it ends") from None
        yield


class RaggedArray:
    """Many short rows of one type, stored end to end, memory-mapped: row i is values[offsets[i]:offsets[i+1]].

    On disk: `NAME.values` (raw numbers) and `NAME.offsets` (raw int64, one more than there are rows).
    """

    def __init__(self, values: Array, offsets: Array) -> None:
        self.values = values
        self.offsets = offsets

    @classmethod
    def open(cls, path: Path, dtype: npt.DTypeLike) -> RaggedArray:
        values_path, offsets_path = _ragged_files(path)
        for file in (values_path, offsets_path):
            if not file.exists():
                raise DataError(f"{file} is missing; run the step that writes it again")
        if (length := offsets_path.stat().st_size) == 0 or length % 8:
            raise DataError(f"{offsets_path} is damaged (it is no row of 64-bit numbers); write it again")
        offsets = np.memmap(offsets_path, dtype=np.int64, mode="r")
        size = np.dtype(dtype).itemsize
        if values_path.stat().st_size != int(offsets[-1]) * size:
            raise DataError(f"{values_path} is damaged (its size does not fit its offsets); write it again")
        if int(offsets[-1]) == 0:
            return cls(np.empty(0, dtype=dtype), offsets)
        return cls(np.memmap(values_path, dtype=dtype, mode="r"), offsets)

    @classmethod
    def from_rows(cls, rows: list[Any], dtype: npt.DTypeLike) -> RaggedArray:
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        parts = [np.asarray(row, dtype=dtype) for row in rows if len(row)]
        values = np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
        return cls(values, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Array:
        return np.asarray(self.values[self.offsets[row] : self.offsets[row + 1]])

    @property
    def lengths(self) -> Array:
        return np.diff(self.offsets)


class RaggedWriter:
    """Writes a RaggedArray in constant memory; nothing stands under the final name before `close`."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        values, offsets = _ragged_files(self._partial)
        self._values = values.open("wb")
        self._offsets = offsets.open("wb")
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def extend(self, values: Array, lengths: Array) -> None:
        """Append rows given end to end, with the length of each."""
        np.ascontiguousarray(values, dtype=self.dtype).tofile(self._values)
        ends = self._end + np.cumsum(lengths, dtype=np.int64)
        ends.tofile(self._offsets)
        if len(ends):
            self._end = int(ends[-1])

    def close(self) -> None:
        self._values.close()
        self._offsets.close()
        for partial, final in zip(_ragged_files(self._partial), _ragged_files(self.path), strict=True):
            partial.replace(final)

    def __enter__(self) -> RaggedWriter:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self.close()
            return
        self._values.close()
        self._offsets.close()
        for partial in _ragged_files(self._partial):
            partial.unlink(missing_ok=True)


def _ragged_files(path: Path) -> tuple[Path, Path]:
    return path.with_name(path.name + ".values"), path.with_name(path.name + ".offsets")
