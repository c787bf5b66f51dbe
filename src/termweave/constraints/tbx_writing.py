"""Writing TBX, in each of the dialects that `tbx` reads. Every entry is a concept, in the order of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.constraints.tbx import PRIVATE_NAMESPACE, PRIVATE_PREFIX, Dialect, collapsed
from termweave.errors import DataError
from termweave.storage import write_text

_CODE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_OPENING_2008 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang={source}>
<martifHeader>
<fileDesc>
<sourceDesc><p>A glossary from {source_code} to {target_code}, written by Termweave.</p></sourceDesc>
</fileDesc>
<encodingDesc><p type="XCSURI">TBXXCS.xcs</p></encodingDesc>
</martifHeader>
<text><body>
"""
_OPENING_2019 = """<?xml version="1.0" encoding="UTF-8"?>
<tbx style="{style}" type="TBX-Basic" xml:lang={source} xmlns="urn:iso:std:iso:30042:ed-2"{namespaces}>
<tbxHeader>
<fileDesc>
<sourceDesc><p>A glossary from {source_code} to {target_code}, written by Termweave.</p></sourceDesc>
</fileDesc>
</tbxHeader>
<text><body>
"""
_DCT_NAMESPACES = f' xmlns:min="http://www.tbxinfo.net/ns/min" xmlns:termweave="{PRIVATE_NAMESPACE}"'


@dataclass(frozen=True)
class _Names:
    """What a dialect calls its elements."""

    root: str
    concept: str
    side: str
    section: str
    elements: bool = False  # categories are elements of their own (DCT), not values of an attribute


_NAMES: dict[str, _Names] = {
    "2008": _Names("martif", "termEntry", "langSet", "tig"),
    "dca": _Names("tbx", "conceptEntry", "langSec", "termSec"),
    "dct": _Names("tbx", "conceptEntry", "langSec", "termSec", elements=True),
}


def write_tbx(glossary: Glossary, path: Path, dialect: Dialect = "dca") -> None:
    source, target = glossary.source_language, glossary.target_language
    for side, code in (("source", source), ("target", target)):
        if not _CODE.fullmatch(code):
            given = f"{code!r} is no such code" if code else "none is known"
            raise DataError(f"{path}: TBX needs the code of the {side} language, and {given}; give --from and --to")
    if source.lower() == target.lower():
        raise DataError(f"{path}: source and target are both {source!r}; TBX tells the sides apart by their language")
    names = _NAMES[dialect]
    opening = (_OPENING_2008 if dialect == "2008" else _OPENING_2019).format(
        style=dialect,
        source=quoteattr(source),
        source_code=source,
        target_code=target,
        namespaces=_DCT_NAMESPACES if names.elements else "",
    )
    parts = [opening]
    for number, entry in enumerate(glossary.entries, start=1):
        _check(entry, number, path)
        parts.extend(line + "\n" for line in _concept(entry, number, names, source, target))
    parts.append(f"</body></text>\n</{names.root}>\n")
    write_text(path, "".join(parts))


def _check(entry: GlossaryEntry, number: int, path: Path) -> None:
    for text in (entry.source, *entry.targets, entry.note):
        if found := _NOT_IN_XML.search(text):
            where = f"line {entry.line} of the glossary" if entry.line else f"entry {number}"
            raise DataError(
                f"{path}: {where} holds the control character U+{ord(found[0]):04X}, which XML cannot hold; "
                f"remove it from {text!r}"
            )


def _concept(entry: GlossaryEntry, number: int, names: _Names, source: str, target: str) -> Iterator[str]:
    """The lines of one concept. What is as by default is not written, so that a simple glossary is a simple file."""
    yield f'<{names.concept} id="c{number}">'
    for key, value, default in (("policy", entry.policy, "must"), ("case", entry.case, "carry")):
        if value != default and names.elements:
            yield f"<termweave:{key}>{value}</termweave:{key}>"
        elif value != default:
            yield f'<admin type="{PRIVATE_PREFIX}{key}">{value}</admin>'
    if entry.note:
        yield _element("note", entry.note)
    if entry.source:
        yield from _side(names, source, [(entry.source, "")])
    yield from _side(names, target, _ranked(entry))
    yield f"</{names.concept}>"


def _ranked(entry: GlossaryEntry) -> list[tuple[str, str]]:
    """The target terms with the standard's word for how they may be used, which other programs understand too."""
    if entry.policy == "keep":
        return [(entry.source, "")]
    if entry.policy == "forbid":
        return [(text, "deprecatedTerm-admn-sts") for text in entry.targets]
    if len(entry.targets) == 1:
        return [(entry.targets[0], "")]
    return [
        (text, "admittedTerm-admn-sts" if place else "preferredTerm-admn-sts")
        for place, text in enumerate(entry.targets)
    ]


def _side(names: _Names, language: str, terms: list[tuple[str, str]]) -> Iterator[str]:
    yield f"<{names.side} xml:lang={quoteattr(language)}>"
    for text, status in terms:
        yield f"<{names.section}>{_element('term', text)}{_status(status, names)}</{names.section}>"
    yield f"</{names.side}>"


def _status(status: str, names: _Names) -> str:
    if not status:
        return ""
    if names.elements:
        return f"<min:administrativeStatus>{status}</min:administrativeStatus>"
    return f'<termNote type="administrativeStatus">{status}</termNote>'


def _element(name: str, text: str) -> str:
    preserved = "" if collapsed(text) == text else ' xml:space="preserve"'
    return f"<{name}{preserved}>{escape(text, {chr(13): '&#13;'})}</{name}>"
