"""Text files as users have them: plain, .gz or .xz, UTF-8."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from termweave.errors import DataError


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open for reading; damage and wrong encoding are reported as DataError wherever reading meets them."""
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as file:
            yield file
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start} of a block)") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise DataError(f"{path} is damaged: {error}") from None


def text_lines(path: Path) -> Iterator[str]:
    """The lines of one file. Several may be read side by side: each reports its own errors, never another's."""
    with open_text(path) as file:
        yield from file
