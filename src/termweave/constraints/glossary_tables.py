"""Glossaries as tables: TSV and CSV.

With a first line of column names (`source`, `target`, `policy`, `case`, `note`, in any order; every further `target`
holds an alternative), or without one: then the columns are these five in this order, and those on the right may be
missing. Cells are quoted as spreadsheets do it: "…", with every inner mark doubled.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from termweave.constraints.glossary import CaseRule, Fault, Glossary, GlossaryEntry, Policy, primary
from termweave.errors import ConstraintError, DataError
from termweave.storage import atomic_path

COLUMNS = ("source", "target", "policy", "case", "note")
DELIMITERS = {".tsv": "\t", ".csv": ","}
_CODE = re.compile(
    r"[a-z]{2,3}(?:[-_](?:hans|hant|latn|cyrl))?(?:[-_](?:[a-z]{2}|\d{3}))?"
)  # and no other word: de-luxe
_ISO_639 = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el
en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu
ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na
nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so
sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
_LANGUAGES = frozenset(_ISO_639.split())
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

Row = tuple[int, list[str]]  # the line it begins on, its cells


def read_table(
    path: Path, source_language: str = "", target_language: str = "", faults: list[Fault] | None = None
) -> Glossary:
    """The entries of a .tsv or .csv file, a row each.

    A row that is no entry is an error, or is added to `faults`, if such a list is given, and left out.
    """
    text = _decoded(path.read_bytes(), path)
    rows = _rows(text, _delimiter(text, path), path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path} holds no entries; write a line for each: source, target")
    columns = _header(first[1], primary(source_language), primary(target_language), path, first[0])
    entries: list[GlossaryEntry] = []
    for line, cells in rows if columns else _chained(first, rows):
        try:
            entries.append(_entry(cells, columns, line))
        except ConstraintError as error:
            if faults is None:
                raise DataError(f"{path}, line {line}: {error}") from None
            faults.append((line, str(error)))
    if not entries and not faults:
        raise DataError(f"{path} holds column names and no entries; write a line for each")
    return Glossary(tuple(entries), source_language, target_language)


def _chained(first: Row, rows: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rows


def _decoded(data: bytes, path: Path) -> str:
    if data.startswith(_UTF16_MARKS):
        raise DataError(f"{path}, line 1: this is UTF-16; save the file as UTF-8 and try again")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8 and try again"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{path}, line {line}: NUL byte; this is no UTF-8 text (UTF-16?): save it as UTF-8")
    return text


def _delimiter(text: str, path: Path) -> str:
    """Spreadsheets of many countries write semicolons into a .csv; the first line tells, as one cell is no entry."""
    delimiter = DELIMITERS[path.suffix.lower()]
    if delimiter == ",":
        first = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
        try:
            counts = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in ",;"}
        except csv.Error:  # whoever reads the rows says where and why
            return delimiter
        if counts[","] < 2 <= counts[";"]:
            return ";"
    return delimiter


def _rows(text: str, delimiter: str, path: Path) -> Iterator[Row]:
    """Rows that are not empty. A row may span lines, inside quotes; its line is the one it begins on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{path}, line {line}: {error}; a cell that begins with a quotation mark must be quoted whole, "
                'with "" for every mark inside it'
            ) from None
        if any(cell.strip() for cell in cells):
            yield line, cells


def _header(cells: Sequence[str], source: str, target: str, path: Path, line: int) -> list[str]:
    """The column names, or an empty list if the first row is an entry already.

    Names are `source` and `target`, or the codes of the two languages.
    """
    names = [cell.strip().casefold() for cell in cells]
    codes = {source: "source", target: "target"} if source and target else {}
    while names and not names[-1]:
        names.pop()
    given = [name for name in names if _CODE.fullmatch(name) and primary(name) in _LANGUAGES]
    is_header = len(given) > 1 and all(name in given or name in COLUMNS for name in names)
    names = [codes.get(primary(name), name) if _CODE.fullmatch(name) else name for name in names]
    if not {"source", "target"} <= set(names):
        if codes and is_header:
            raise DataError(
                f"{path}, line {line}: its columns are {' and '.join(given)}, not {source} and {target}; give one "
                "of these languages, or, if the line is an entry, write a line above it: `source` and `target`"
            )
        return []
    for name in names:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, 1)
            hint = f"did you mean {near[0]!r}?" if near else "rename it `note` or remove it"
            raise DataError(f"{path}, line {line}: unknown column {name!r}; {hint} Known: {', '.join(COLUMNS)}")
        if name != "target" and names.count(name) > 1:
            raise DataError(f"{path}, line {line}: the column {name!r} stands twice; keep one")
    return names


def _entry(cells: list[str], columns: Sequence[str], line: int) -> GlossaryEntry:
    values: dict[str, str] = {}
    targets: list[str] = []
    names = columns or COLUMNS
    if any(cell.strip() for cell in cells[len(names) :]):
        raise ConstraintError(
            f"{len(cells)} cells where there are {len(names)} columns; "
            "quote cells that hold the separator, and name more columns in the first line for alternatives"
        )
    for name, cell in zip(names, cells, strict=False):
        if name != "target":
            values[name] = cell
        elif cell.strip():
            targets.append(cell)
    if len(cells) < 2 and not columns:
        raise ConstraintError("one cell only; a row is at least source and target, with a tab or comma between them")
    try:
        return GlossaryEntry(
            source=values["source"],
            targets=tuple(targets),
            policy=cast(Policy, values.get("policy", "").strip().lower() or "must"),
            case=cast(CaseRule, values.get("case", "").strip().lower() or "carry"),
            note=values.get("note", ""),
            line=line,
        )
    except ConstraintError as error:
        if columns or "unknown" not in str(error):
            raise
        raise ConstraintError(f"{error} (a line of column names must include `source` and `target`)") from None


def write_table(glossary: Glossary, path: Path) -> None:
    """Write a .tsv or .csv file with column names; columns that no entry needs are left out."""
    delimiter = DELIMITERS[path.suffix.lower()]
    entries = glossary.entries
    width = max((len(entry.targets) for entry in entries), default=1) or 1
    defaults = {"policy": "must", "case": "carry", "note": ""}
    used = [name for name, default in defaults.items() if any(getattr(entry, name) != default for entry in entries)]
    rows: list[list[str]] = [["source", *["target"] * width, *used]]
    for entry in entries:
        padding = [""] * (width - len(entry.targets))
        rows.append([entry.source, *entry.targets, *padding, *(getattr(entry, name) for name in used)])
    with atomic_path(path) as temporary:
        temporary.write_bytes("".join(_written(row, delimiter) for row in rows).encode("utf-8"))


def _written(cells: Iterable[str], delimiter: str) -> str:
    quoted = [
        '"' + cell.replace('"', '""') + '"' if any(mark in cell for mark in (delimiter, '"', "\r", "\n")) else cell
        for cell in cells
    ]
    return delimiter.join(quoted) + "\n"
