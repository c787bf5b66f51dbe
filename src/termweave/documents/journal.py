"""What an interrupted translation leaves behind, so that the next run does not start anew.

A journal is a text file beside the output: the key of the run, then a line for each sentence, `[source, translation]`.
Formats ask for their sentences in the same order every time, so a run that starts again is answered from the journal
until that ends, and by the translator from there on. Neither side is ever held in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from termweave.documents.translation import Translate
from termweave.errors import DataError

_FORMAT = 1


def run_key(path: Path, *settings: object) -> str:
    """Two runs with the same key ask for the same sentences and expect the same translations."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(repr((_FORMAT, *settings)).encode())
    return digest.hexdigest()


class Journal:
    """Translates through `translate` and remembers; answers from memory as long as that lasts."""

    def __init__(self, file: IO[bytes], key: str, translate: Translate) -> None:
        self.translate = translate
        self.resumed = 0
        self._file = file
        self._replaying = _record(file.readline()) == [key, ""]
        if not self._replaying:
            self._write_from(0)
            self._append([(key, "")])
        self._start = file.tell()  # where sentences begin

    def __call__(self, lines: list[str]) -> list[str]:
        known = self._known(lines)
        self.resumed += len(known)
        rest = lines[len(known) :]
        if not rest:
            return known
        fresh = self.translate(rest)
        if len(fresh) == len(rest):  # the caller says what is wrong otherwise
            self._append(list(zip(rest, fresh, strict=True)))
        return [*known, *fresh]

    @property
    def is_empty(self) -> bool:
        """Is there no sentence in it, not even one of the run before?"""
        return os.fstat(self._file.fileno()).st_size <= self._start

    def _known(self, lines: list[str]) -> list[str]:
        known: list[str] = []
        while self._replaying and len(known) < len(lines):
            place = self._file.tell()
            record = _record(self._file.readline())
            if record is None or record[0] != lines[len(known)]:
                self._write_from(place)
                break
            known.append(record[1])
        return known

    def _write_from(self, place: int) -> None:
        """What follows is cut off, damaged or of another run: it gives way."""
        self._replaying = False
        self._file.seek(place)
        self._file.truncate()

    def _append(self, records: list[tuple[str, str]]) -> None:
        # ASCII, so that no translation, however odd, cannot be written
        self._file.write("".join(json.dumps(record) + "\n" for record in records).encode("ascii"))
        self._file.flush()


def _record(line: bytes) -> list[str] | None:
    """A pair of strings; None for the end of the file or half a line."""
    if not line.endswith(b"\n"):
        return None
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(record, list) and len(record) == 2 and all(isinstance(entry, str) for entry in record):
        return record
    return None


def journal_path(output: Path) -> Path:
    return output.with_name(f".{output.name}.journal")


@contextmanager
def journal(output: Path, key: str, translate: Translate) -> Iterator[Journal]:
    """A journal beside `output`. It is removed when the block succeeds; otherwise it stays if it holds a sentence."""
    path = journal_path(output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise DataError(f"{output} cannot be written: a file stands in the place of one of its folders") from None
    with open(path, "r+b", opener=lambda name, _: os.open(name, os.O_RDWR | os.O_CREAT, 0o666)) as file:
        _lock(file, output)
        remembered = Journal(file, key, translate)
        try:
            yield remembered
        except BaseException:
            if remembered.is_empty:
                path.unlink(missing_ok=True)
            raise
    path.unlink(missing_ok=True)


def _lock(file: IO[bytes], output: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not a Unix system: go without
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise DataError(f"{output}: another run is writing this file; wait until it ends") from None
