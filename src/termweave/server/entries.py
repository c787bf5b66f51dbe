"""Glossary entries as DeepL's clients write them: a line for each, source and target, as TSV or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from termweave.constraints.glossary import GlossaryEntry
from termweave.errors import ConstraintError
from termweave.server.problems import Problem, bad_request

FORMATS = ("tsv", "csv")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def read_entries(text: str, kind: str) -> tuple[GlossaryEntry, ...]:
    """The entries of a table, or a problem that names the line."""
    if kind not in FORMATS:
        raise bad_request("Value for 'entries_format' not supported", f"use one of: {', '.join(FORMATS)}")
    entries: dict[str, GlossaryEntry] = {}
    for line, cells in _rows(text, kind):
        entry = _entry(line, cells)
        if entry.source in entries:
            raise _invalid(line, f"the source {entry.source!r} stands there twice; give each source once")
        entries[entry.source] = entry
    if not entries:
        raise bad_request("No entries provided", "a glossary needs at least one line: source, tab, target")
    return tuple(entries.values())


def _rows(text: str, kind: str) -> Iterator[tuple[int, list[str]]]:
    if kind == "tsv":
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, start=1) if line.strip())
        return
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        yield from ((reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells))
    except csv.Error as error:
        raise _invalid(reader.line_num, f'it is no line of CSV ({error}); quote cells as "…"') from None


def _entry(line: int, cells: Sequence[str]) -> GlossaryEntry:
    # A third and fourth column may name the languages, which are known already.
    if len(cells) not in (2, 4):
        raise _invalid(line, f"it has {len(cells)} columns; write source and target, with one separator between them")
    source, target = (cell.strip() for cell in cells[:2])
    for term in (source, target):
        if _CONTROL.search(term):
            raise _invalid(line, "it holds a control character; remove it")
    try:
        return GlossaryEntry(source, (target,))
    except ConstraintError as error:
        raise _invalid(line, str(error)) from None


def _invalid(line: int, why: str) -> Problem:
    return bad_request("Invalid glossary entries provided", f"line {line}: {why}")


def as_table(entries: Iterable[GlossaryEntry]) -> str:
    """As TSV, which has room for one target of each source: the preferred one. What is kept is its own target."""
    preferred: dict[str, str] = {}
    for entry in entries:
        if entry.policy != "forbid":
            preferred.setdefault(entry.source, entry.targets[0] if entry.targets else entry.source)
    return "\n".join(f"{source}\t{target}" for source, target in preferred.items())


def pack(entries: Iterable[GlossaryEntry]) -> str:
    """As they are stored."""
    rows = [[entry.source, list(entry.targets), entry.policy, entry.case, entry.note] for entry in entries]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def unpack(text: str) -> tuple[GlossaryEntry, ...]:
    rows: list[Any] = json.loads(text)
    return tuple(GlossaryEntry(source, tuple(targets), *rest) for source, targets, *rest in rows)
