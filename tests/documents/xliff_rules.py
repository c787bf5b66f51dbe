"""What the XLIFF specifications ask of a document, as far as a translator could break it; written from their text."""

from __future__ import annotations

from typing import Any

from lxml import etree

_UNIT_ORDER = ["source", "seg-source", "target", "context-group", "count-group", "prop-group", "note", "alt-trans"]
_INLINE = {"g", "x", "bx", "ex", "bpt", "ept", "ph", "it", "mrk", "sub", "pc", "sc", "ec", "cp", "sm", "em"}
_STATES = {
    "1": {"new", "translated", "needs-translation", "needs-review-translation", "final", "signed-off"},
    "2": {"initial", "translated", "reviewed", "final"},
}


def name(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def inline_elements(element: Any) -> list[str]:
    """Inline elements with their attributes, wherever they stand."""
    found = [child for child in element.iter() if child is not element and name(child)]
    return sorted(f"{name(child)} {sorted(child.attrib.items())}" for child in found)


def violations(data: bytes) -> list[str]:
    root = etree.fromstring(data)
    version = root.get("version", "").partition(".")[0]
    wrong = [] if name(root) == "xliff" and version in _STATES else ["no xliff"]
    units = [element for element in root.iter() if name(element) in ("trans-unit", "segment")]
    has_target = any(name(element) == "target" for element in root.iter())
    if version == "2" and has_target and not root.get("trgLang"):
        wrong.append("target without trgLang")
    for unit in units:
        children = [name(child) for child in unit if name(child)]
        order = [_UNIT_ORDER.index(child) for child in children if child in _UNIT_ORDER]
        if order != sorted(order) or children.count("source") != 1 or children.count("target") > 1:
            wrong.append(f"{children} in {unit.attrib}")
        target = next((child for child in unit if name(child) == "target"), None)
        state = (target if version == "1" else unit).get("state") if target is not None else None
        if state is not None and state not in _STATES[version]:
            wrong.append(f"state {state}")
        if target is None or state in ("final", "signed-off"):
            continue
        base = next((child for child in unit if name(child) == "seg-source"), None)
        source = base if base is not None else next(child for child in unit if name(child) == "source")
        if state == "translated" and inline_elements(source) != inline_elements(target):
            wrong.append(f"inline elements of {unit.attrib}")
        wrong += [
            f"{name(child)} in target" for child in target.iter() if child is not target and name(child) not in _INLINE
        ]
    return wrong
