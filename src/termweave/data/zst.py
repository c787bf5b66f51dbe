"""Reading .zst files. The reader that comes with the package zstandard takes a file that is cut off for a whole one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any

from termweave.errors import DataError

_BLOCK = 1 << 17  # bytes read at once


class _Frames(io.RawIOBase):
    """The content of all frames of a file, one after the other."""

    def __init__(self, file: IO[bytes], decompressor: Any) -> None:
        self._file, self._decompressor = file, decompressor
        self._frame: Any = None  # the one that is being read
        self._packed = b""  # read, but not unpacked yet
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._packed:
                self._packed = self._file.read(_BLOCK)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return 0
            self._unpack()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _unpack(self) -> None:
        self._frame = self._frame or self._decompressor.decompressobj()
        self._ready = memoryview(self._frame.decompress(self._packed))
        self._packed = b""
        if self._frame.eof:
            self._packed = self._frame.unused_data
            self._frame = None

    def close(self) -> None:
        self._file.close()
        super().close()


def open_zst(path: Path, mode: str = "rb") -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise DataError(f"{path}: .zst needs the package zstandard: pip install 'termweave[zst]'") from None
    return io.BufferedReader(_Frames(path.open(mode), zstandard.ZstdDecompressor()))
