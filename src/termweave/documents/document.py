"""What the formats have in common: a document is opened, translated, and written as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from termweave.documents.segments import Segment
from termweave.documents.translation import Check
from termweave.errors import DataError

BYTE_ORDER_MARK = "\ufeff"
LONGEST_LINE = 1 << 24  # bytes; what is longer is no text, and would not fit into constant memory


@dataclass(frozen=True)
class Options:
    """What a user may ask of a format. Formats ignore what does not concern them."""

    source_language: str = "en"
    """By whose rules sentences end; such as `de` or `zh-Hans`."""
    target_language: str | None = None
    """Written where a format has a place for it, such as the header of a .po file."""
    column: int | str = 1
    """.tsv: the column to translate, by number from 1 or by its name in the first line."""
    append: bool = False
    """.tsv: add a column with the translation instead of replacing the text."""
    header: bool = False
    """.tsv: the first line holds names; a column given by name implies it."""
    retranslate: bool = False
    """.po and XLIFF: translate also what already has a translation."""
    ignored_tags: frozenset[str] = frozenset()
    """HTML: elements whose content stays as it is, by their names in small letters."""
    review: bool = False
    """.po and XLIFF: mark new translations as to be reviewed."""
    mnemonics: bool = True
    """.po and XLIFF: take marks such as that of `_File` out of messages, and put them into the translations."""


class Through(Protocol):
    """Translates segments lazily, in order, one for one."""

    def __call__(self, segments: Iterable[Segment], check: Check | None = None) -> Iterator[Segment]: ...


class Document(Protocol):
    """An open document of some format."""

    total: int
    """The sum of the weights of its segments: bytes, or messages. 0 if that is not known, as with text from a pipe."""

    def translated(self, through: Through) -> Iterator[bytes]:
        """The whole document with its text translated, piece by piece."""
        ...


def read_whole(path: Path) -> str:
    """A file as text; for formats that can only be understood as a whole. Line ends stay as they are."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _not_utf8(path, line, data[error.start]) from None
    if (place := text.find("\0")) >= 0:
        raise _has_null(path, text.count("\n", 0, place) + 1)
    return text


def line_end_of(text: str) -> str:
    """How its lines end; a parser makes one kind of all."""
    return "\r\n" if "\r\n" in text and text.count("\r\n") == text.count("\n") else "\n"


def with_line_ends(text: str, line_end: str) -> str:
    return text if line_end == "\n" else text.replace("\n", line_end)


def decode_line(line: bytes, path: Path, number: int) -> str:
    """A line with its end as text."""
    if len(line) > LONGEST_LINE:
        raise DataError(f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MiB; break it into lines first")
    if b"\0" in line:
        raise _has_null(path, number)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, number, line[error.start]) from None


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file with their ends, one at a time."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            yield number, decode_line(line, path, number)


def _not_utf8(path: Path, line: int, byte: int) -> DataError:
    return DataError(f"{path}, line {line}: not UTF-8 (byte 0x{byte:02x}); convert the file to UTF-8 first")


def _has_null(path: Path, line: int) -> DataError:
    return DataError(f"{path}, line {line}: NUL character; this is no UTF-8 text (UTF-16?): convert it first")
