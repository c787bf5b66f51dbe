"""Where the documents of a server lie while it works on them. They are clients' own and must not outlive it.

A server that stops takes its folder along. One that was killed cannot; the next to start on the machine does it then.
It tells by a lock, which the system lets go of with the process that held it, however that ended.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from io import BufferedRandom
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix system: folders of killed servers stay
    fcntl = None  # type: ignore[assignment]

PREFIX = "termweave-documents-"
_LOCK = "lock"


class WorkFolder:
    """A temporary folder of this server alone."""

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        while True:
            self._temporary = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
            self.path = Path(self._temporary.name)
            self._lock = (self.path / _LOCK).open("w+b")
            _take(self._lock, wait=True)
            if (self.path / _LOCK).exists():
                return
            # A server that started at the same moment found the lock before it was taken.
            self.close()

    def close(self) -> None:
        self._temporary.cleanup()
        self._lock.close()


def _remove_abandoned(place: Path) -> None:
    """Folders without a lock are left alone: they have just been made."""
    for lock in place.glob(f"{PREFIX}*/{_LOCK}") if fcntl is not None else ():
        try:
            if not _is_ours(lock):
                continue
            with lock.open("r+b") as file:
                if _take(file, wait=False):
                    _remove(lock.parent)
        except OSError:  # somebody else was faster
            continue


def _is_ours(lock: Path) -> bool:
    """Others may write into the temporary folder too, and must not make us remove anything but our own."""
    status = lock.parent.lstat()  # of a link itself, which is none of ours
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _take(file: BufferedRandom, *, wait: bool) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(folder: Path) -> None:
    """The lock last: if this is interrupted, the next server still finds the rest."""
    for own in folder.iterdir():
        if own.name != _LOCK:
            shutil.rmtree(own, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
