"""Parallel text from files: pairs of line-aligned text files, or TMX. Streams, so memory does not grow with the text.

Lines end at a line feed (or carriage return and line feed) and nowhere else: separators of Unicode such as U+2028 may
stand inside a sentence and must not shift the lines of one side against the other.
"""

from __future__ import annotations

import gzip
import lzma
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from xml.etree.ElementTree import Element, ParseError

from termweave.data.zst import open_zst
from termweave.errors import DataError

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".zst": open_zst}
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_BYTE_ORDER_MARK = "\ufeff"
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = frozenset({"bpt", "ept", "ph", "it", "ut"})  # TMX elements that hold markup of the document, not text


def open_binary(path: Path) -> IO[bytes]:
    """Open a plain, .gz, .xz or .zst file for reading bytes."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file")
    file: IO[bytes] = _OPENERS.get(path.suffix, open)(path, "rb")
    return file


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends."""
    number = 0
    for number, line in enumerate(read_raw_lines(path), start=1):
        yield decoded_line(line, path, number)
    if not number:
        raise DataError(f"{path} is empty")


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as they are, unpacked, with their ends."""
    number = 0
    with open_binary(path) as file:
        try:
            for number, line in enumerate(file, start=1):  # noqa: B007
                yield line
        except damages() as error:
            raise DataError(f"{path}: the compressed file is cut off or damaged after line {number}: {error}") from None


def damages() -> tuple[type[Exception], ...]:
    """What reading a damaged file may raise."""
    zstandard = sys.modules.get("zstandard")  # not loaded unless such a file was opened
    return (*_DAMAGED, zstandard.ZstdError) if zstandard else _DAMAGED


def decoded_line(line: bytes, path: Path, number: int) -> str:
    """A line of UTF-8 without its end, and without the mark some programs put before the first."""
    if b"\0" in line:
        raise DataError(f"{path}, line {number}: NUL byte; this is no UTF-8 text (UTF-16?): convert it first")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: invalid UTF-8 at byte {error.start + 1} of the line "
            f"(0x{line[error.start]:02x}); convert the file to UTF-8 first"
        ) from None
    text = text.removesuffix("\n").removesuffix("\r")
    return text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text


def read_together(*paths: Path) -> Iterator[tuple[str, ...]]:
    """The lines of several files side by side; it is an error if one has more lines than another."""
    streams = [read_lines(path) for path in paths]
    count = 0
    while True:
        lines = [next(stream, None) for stream in streams]
        complete = tuple(line for line in lines if line is not None)
        if len(complete) < len(lines):
            break
        yield complete
        count += 1
    if not complete:
        return
    counts = [count + (line is not None) + sum(1 for _ in stream) for line, stream in zip(lines, streams, strict=True)]
    listed = ", ".join(f"{path} has {number:,} lines" for path, number in zip(paths, counts, strict=True))
    raise DataError(f"the files are not parallel: {listed}")


def read_tmx(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """The pairs of two languages in a TMX file; units that lack one of them are passed over.

    "en" takes regional variants (en-US) too; of several, the first. Text inside highlighted passages is kept, codes of
    the document's own markup are left out.
    """
    from defusedxml.common import DefusedXmlException  # here, so that plain text is read where it is not installed

    found: set[str] = set()
    count = 0
    with open_binary(path) as file:
        try:
            for unit in _translation_units(file):
                variants = _variants(unit)
                found.update(variants)
                if source in variants and target in variants:
                    count += 1
                    yield variants[source], variants[target]
        except ParseError as error:
            raise DataError(f"{path} is not well-formed XML: {error}") from None
        except DefusedXmlException as error:
            raise DataError(f"{path} uses XML entities, which are not read for safety: {error}") from None
        except damages() as error:
            raise DataError(f"{path}: the compressed file is cut off or damaged: {error}") from None
        except (LookupError, ValueError) as error:  # the parser's words for encodings it does not know
            raise DataError(f"{path} cannot be decoded ({error}); convert the file to UTF-8 first") from None
        except RecursionError:
            raise DataError(f"{path}: a segment after unit {count:,} is nested too deeply") from None
    if not count:
        held = ", ".join(sorted(found)) or "no translation units"
        raise DataError(f"{path} has no unit with both {source} and {target}; it holds: {held}")


def _translation_units(file: IO[bytes]) -> Iterator[Element]:
    """Each `tu` element in turn; finished ones are thrown away, or the whole file would pile up in memory."""
    import defusedxml.ElementTree

    body: Element | None = None
    for event, element in defusedxml.ElementTree.iterparse(file, events=("start", "end")):
        name = _local_name(element)
        if event == "start" and name == "body":
            body = element
        elif event == "end" and name == "tu":
            yield element
            if body is not None:
                body.clear()


def _variants(unit: Element) -> dict[str, str]:
    variants: dict[str, str] = {}
    for variant in unit:
        if _local_name(variant) != "tuv":
            continue
        code = variant.get(_XML_LANGUAGE) or variant.get("lang") or ""
        language = code.replace("_", "-").split("-")[0].lower()
        for segment in variant:
            if _local_name(segment) == "seg":
                variants.setdefault(language, "".join(_segment_text(segment)))
    return variants


def _segment_text(element: Element) -> Iterator[str]:
    if element.text:
        yield element.text
    for child in element:
        if _local_name(child) not in _CODES:
            yield from _segment_text(child)
        if child.tail:
            yield child.tail


def _local_name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]
