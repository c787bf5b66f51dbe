"""Glossary files: the format is told by the name, `.tsv`, `.csv` or `.tbx`."""

from __future__ import annotations

from pathlib import Path

from termweave.constraints.glossary import Fault, Glossary
from termweave.constraints.glossary_tables import DELIMITERS, read_table, write_table
from termweave.constraints.tbx import Dialect, read_tbx
from termweave.constraints.tbx_writing import write_tbx
from termweave.errors import DataError

_TBX_SUFFIXES = (".tbx", ".xml")


def read_glossary(
    path: str | Path, source_language: str = "", target_language: str = "", faults: list[Fault] | None = None
) -> Glossary:
    """Read a glossary; entries stand as in the file, each with its line. `Glossary.merged` joins duplicates.

    Tables do not say what languages they are in; a TBX file of more than two must be told which. Rows that are no
    entries are errors, unless a list `faults` is there to take them.
    """
    path = Path(path)
    suffix = _suffix(path)
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a glossary file")
    read = read_tbx if suffix in _TBX_SUFFIXES else read_table
    return read(path, source_language, target_language, faults)


def write_glossary(glossary: Glossary, path: str | Path, dialect: Dialect = "dca") -> None:
    """Write a glossary, whole or not at all. TBX comes in three dialects, see `Dialect`."""
    path = Path(path)
    if _suffix(path) in _TBX_SUFFIXES:
        write_tbx(glossary, path, dialect)
    else:
        write_table(glossary, path)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in DELIMITERS and suffix not in _TBX_SUFFIXES:
        raise DataError(f"{path}: a glossary is a .tsv, .csv or .tbx file; rename it to say which it is")
    return suffix
