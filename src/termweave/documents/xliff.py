"""XLIFF 1.2 and 2.0 (.xliff, .xlf).

Units with a target keep it, unless its state says that it is still to be translated; what is approved or final is never
touched. Inline elements move with their words. Units under `translate="no"` are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

from termweave.documents.document import Options, Through, read_whole
from termweave.documents.mnemonics import through_plain
from termweave.documents.segments import Segment
from termweave.documents.xliff_inline import Inline
from termweave.documents.xml import local_name, parse_xml, write_xml
from termweave.errors import ConfigError, DataError

_XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_TO_TRANSLATE = ("new", "needs-translation")


@dataclass(frozen=True)
class _Unit:
    """What holds `source` and `target`: a trans-unit of 1.2, a segment of 2.0."""

    element: Any
    source: Any
    inline: Inline


class Xliff:
    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.options = options
        self._text = read_whole(path)
        self._tree = parse_xml(self._text, path)
        root = self._tree.getroot()
        version = root.get("version", "")
        if local_name(root) != "xliff" or version.partition(".")[0] not in ("1", "2"):
            raise DataError(f"{path}, line {root.sourceline}: not an XLIFF file of version 1.2 or 2.0")
        self._is_first = version.startswith("1.")
        self._units = list(self._find(root, translate=True, keeps_space=False))
        self.total = len(self._units)
        self._name_language(root)

    def _name_language(self, root: Any) -> None:
        """Set the target language where it is missing; another one than asked for is an error."""
        name = "target-language" if self._is_first else "trgLang"
        wanted = self.options.target_language
        for element in [child for child in root if local_name(child) == "file"] if self._is_first else [root]:
            present = element.get(name)
            if present and wanted and _primary(present) != _primary(wanted):
                raise ConfigError(
                    f"{self.path}, line {element.sourceline}: its target language is {present!r}, not {wanted!r}; "
                    f"translate into {present!r}, or change {name} in the file"
                )
            if not present and wanted:
                element.set(name, wanted)
            elif not present and not self._is_first and self._units:
                raise ConfigError(f"{self.path}: says no target language (trgLang); name it")

    def _find(self, element: Any, translate: bool, keeps_space: bool) -> Iterator[_Unit]:
        for child in element:
            name = local_name(child)
            wanted = {"no": False, "yes": True}.get(child.get("translate", ""), translate) if name else translate
            space = {"preserve": True, "default": False}.get(child.get(_XML_SPACE, ""), keeps_space) if name else False
            if name in ("trans-unit", "segment"):
                if wanted and (unit := self._unit(child, space)) is not None:
                    yield unit
            elif name in ("file", "body", "group", "unit"):
                yield from self._find(child, wanted, space)

    def _unit(self, element: Any, keeps_space: bool) -> _Unit | None:
        source = _child(element, "source")
        if source is None:
            raise DataError(f"{self.path}, line {element.sourceline}: {local_name(element)} without a source")
        segmented = _child(element, "seg-source")
        base = source if segmented is None else segmented
        if not self._is_wanted(element) or _is_empty(base):
            return None
        space = {"preserve": True, "default": False}.get(base.get(_XML_SPACE, ""), keeps_space)
        return _Unit(element, base, Inline(base, space))

    def _is_wanted(self, element: Any) -> bool:
        if element.get("approved") == "yes" or element.get("state") == "final":
            return False
        target = _child(element, "target")
        if target is None or self.options.retranslate or target.get("state") in _TO_TRANSLATE:
            return True
        return _is_empty(target)

    def translated(self, through: Through) -> Iterator[bytes]:
        segments = (Segment(unit.inline.parts, weight=1) for unit in self._units)
        if self.options.mnemonics:
            through = through_plain(through, self.options.target_language or self._tree.getroot().get("trgLang", ""))
        for unit, segment in zip(self._units, through(segments), strict=True):
            target = self._target(unit)
            unit.inline.write(target, segment.parts)
            if self._is_first:
                target.set("state", "needs-review-translation" if self.options.review else "translated")
                target.set("state-qualifier", "leveraged-mt")
            else:
                unit.element.set("state", "translated")
                unit.element.attrib.pop("subState", None)
        yield write_xml(self._tree, self._text)

    def _target(self, unit: _Unit) -> Any:
        """The target of a unit, emptied; a new one stands behind the source, indented like it."""
        target = _child(unit.element, "target")
        if target is not None:
            for child in list(target):
                target.remove(child)
            target.text = None
            return target
        target = etree.Element(unit.source.tag.removesuffix(local_name(unit.source)) + "target")
        for name in (_XML_LANGUAGE, _XML_SPACE):
            if unit.source.get(name):
                target.set(name, unit.source.get(name))
        if target.get(_XML_LANGUAGE) and self.options.target_language:
            target.set(_XML_LANGUAGE, self.options.target_language)
        elif target.get(_XML_LANGUAGE):
            del target.attrib[_XML_LANGUAGE]
        target.tail = unit.source.tail
        unit.source.tail = _indentation(unit)
        unit.element.insert(unit.element.index(unit.source) + 1, target)
        return target


def _is_empty(target: Any) -> bool:
    """No text and no code: other programs lay out the segments of what is still to be translated, `<mrk/>`."""
    codes = (child for child in target.iterdescendants() if local_name(child) not in ("", "mrk"))
    return next(codes, None) is None and not "".join(target.itertext(etree.Element)).strip()


def _indentation(unit: _Unit) -> str | None:
    """The space before the source, so that the target stands below it. Anything else than space is no indentation."""
    before = unit.source.getprevious()
    space = unit.element.text if before is None else before.tail
    return space if space and not space.strip() else None


def _child(element: Any, name: str) -> Any:
    return next((child for child in element if local_name(child) == name), None)


def _primary(language: str) -> str:
    return language.replace("_", "-").partition("-")[0].lower()
