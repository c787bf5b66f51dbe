"""Reading TBX, the exchange format of term bases: ISO 30042 of 2008 and of 2019, the latter in both its styles.

What the three call things, and what becomes of it here:

| 2008                                    | 2019, style DCA | 2019, style DCT               | here                     |
|-----------------------------------------|-----------------|-------------------------------|--------------------------|
| martif                                  | tbx             | tbx                           | the file                 |
| termEntry                               | conceptEntry    | conceptEntry                  | one entry a source term  |
| langSet                                 | langSec         | langSec                       | a side                   |
| tig, ntig                               | termSec         | termSec                       | a term                   |
| termNote type="administrativeStatus"    | the same        | min:administrativeStatus      | order of targets, forbid |
| admin type="x-termweave-policy", -case  | the same        | policy, case in our namespace | policy and case rule     |

Preferred target terms come first. Deprecated, superseded and forbidden ones make a `forbid` entry of their own.
Entities are never expanded and nothing outside the file is opened; a reference to a DTD is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast
from xml.etree.ElementTree import ParseError

from termweave.constraints.glossary import CaseRule, Fault, Glossary, GlossaryEntry, Policy, primary
from termweave.errors import ConstraintError, DataError

Dialect = Literal["dca", "dct", "2008"]  # the two styles of 2019, and 2008
PRIVATE_NAMESPACE = "urn:termweave:glossary"
PRIVATE_PREFIX = "x-termweave-"

_DEEPEST = 64  # elements inside each other; real files have about ten
_XML = "{http://www.w3.org/XML/1998/namespace}"
_ROOTS = frozenset({"martif", "tbx"})
_CONCEPTS = frozenset({"termEntry", "conceptEntry"})
_SIDES = frozenset({"langSet", "langSec"})
_TERM_SECTIONS = frozenset({"tig", "ntig", "termSec"})
_TYPED = frozenset(
    {"termNote", "admin", "descrip", "adminNote"}
)  # DCA and 2008: the attribute `type` names the category
_CODES = frozenset({"bpt", "ept", "ph", "it", "ut", "sc", "ec"})  # markup of some document inside a term
_STATUSES = frozenset({"administrativeStatus", "normativeAuthorization"})
_PREFERRED = ("preferred",)
_REFUSED = ("deprecated", "superseded", "forbidden", "obsolete")
_SPACE = re.compile(r"[ \t\r\n]+")


def collapsed(text: str) -> str:
    """Text as it is read where `xml:space` does not preserve it: indentation and line breaks are no part of a term."""
    return _SPACE.sub(" ", text).strip(" ")


@dataclass(slots=True)
class _Node:
    """An element inside a concept. `parts` are texts and elements in their order."""

    name: str
    attributes: dict[str, str]
    line: int
    parts: list[str | _Node] = field(default_factory=list)

    @property
    def children(self) -> Iterator[_Node]:
        return (part for part in self.parts if isinstance(part, _Node))

    @property
    def descendants(self) -> Iterator[_Node]:
        for child in self.children:
            yield child
            yield from child.descendants

    @property
    def category(self) -> str:
        return self.attributes.get("type", "") if self.name in _TYPED else self.name

    @property
    def text(self) -> str:
        raw = "".join(self._texts())
        return raw if self.attributes.get(f"{_XML}space") == "preserve" else collapsed(raw)

    def _texts(self) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, str):
                yield part
            elif part.name not in _CODES:
                yield from part._texts()


@dataclass(frozen=True, slots=True)
class _Term:
    text: str
    line: int
    status: str
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        return self.status.startswith(_REFUSED)

    @property
    def preferred(self) -> bool:
        return self.status.startswith(_PREFERRED)


@dataclass(frozen=True)
class _Concept:
    line: int
    policy: str
    case: str
    notes: tuple[str, ...]
    terms: dict[str, list[_Term]]  # by language, as `_canonical` writes it


class _Builder:
    """What the parser calls: gathers concepts, and throws their elements away as soon as they are understood."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parser: Any = None  # set once there is one; it knows the line
        self.root_language = ""
        self.languages: dict[str, str] = {}  # canonical form → as first written, in the order of the file
        self.concepts: list[_Concept] = []
        self._depth = 0
        self._open: list[_Node] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.parser.CurrentLineNumber
        namespace, _, name = tag.rpartition("}")
        if namespace == "{" + PRIVATE_NAMESPACE:
            name = PRIVATE_PREFIX + name
        self._depth += 1
        if self._depth == 1:
            self._check_root(name, attributes, line)
        if self._depth > _DEEPEST:
            raise DataError(f"{self.path}, line {line}: elements are nested more than {_DEEPEST} deep; this is no TBX")
        if self._open or name in _CONCEPTS:
            node = _Node(name, attributes, line)
            if self._open:
                self._open[-1].parts.append(node)
            self._open.append(node)

    def _check_root(self, name: str, attributes: dict[str, str], line: int) -> None:
        if name not in _ROOTS:
            raise DataError(
                f"{self.path}, line {line}: the file begins with <{name}>, which is not TBX; "
                "TBX begins with <martif> or <tbx>"
            )
        self.root_language = attributes.get(f"{_XML}lang", "")

    def data(self, text: str) -> None:
        if self._open:
            self._open[-1].parts.append(text)

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._open:
            node = self._open.pop()
            if not self._open:
                self.concepts.append(self._concept(node))

    def close(self) -> None:
        pass

    def _concept(self, node: _Node) -> _Concept:
        markers = {child.category: child.text for child in node.children if child.category.startswith(PRIVATE_PREFIX)}
        terms: dict[str, list[_Term]] = {}
        for side in node.children:
            if side.name not in _SIDES:
                continue
            language = side.attributes.get(f"{_XML}lang") or side.attributes.get("lang") or ""
            if not language:
                raise DataError(f"{self.path}, line {side.line}: <{side.name}> without xml:lang; say which language")
            self.languages.setdefault(_canonical(language), language)
            terms.setdefault(_canonical(language), []).extend(self._terms(side))
        return _Concept(
            line=node.line,
            policy=markers.get(PRIVATE_PREFIX + "policy", ""),
            case=markers.get(PRIVATE_PREFIX + "case", ""),
            notes=_notes(node.children),
            terms=terms,
        )

    def _terms(self, side: _Node) -> Iterator[_Term]:
        for section in side.children:
            if section.name not in _TERM_SECTIONS:
                continue
            inside = list(section.descendants)
            status = next((node.text for node in inside if node.category in _STATUSES), "")
            written = next((node for node in inside if node.name == "term"), None)
            if written is None:
                raise DataError(f"{self.path}, line {section.line}: <{section.name}> holds no <term>; add or remove it")
            yield _Term(written.text, written.line, status, _notes(inside))


def _notes(nodes: Iterator[_Node] | Sequence[_Node]) -> tuple[str, ...]:
    return tuple(note for node in nodes if node.name == "note" and (note := node.text))


def read_tbx(
    path: Path, source_language: str = "", target_language: str = "", faults: list[Fault] | None = None
) -> Glossary:
    """The entries of two languages in a TBX file; concepts that lack one of them are passed over and counted.

    Without languages given, the file must have two; the source is that of the root element, or else the first. A code
    without a region takes the first region there is: `en` finds `en-GB`.
    """
    builder = _parsed(path)
    source, target = _sides(builder, source_language, target_language)
    entries: list[GlossaryEntry] = []
    passed_over = 0
    for concept in builder.concepts:
        count = len(entries)
        try:
            entries.extend(_entries(concept, concept.terms.get(source, []), concept.terms.get(target, [])))
        except ConstraintError as error:
            if faults is None:
                raise DataError(f"{path}, line {concept.line}: {error}") from None
            faults.append((concept.line, str(error)))
        else:
            passed_over += len(entries) == count
    if not entries and not faults:
        held = ", ".join(builder.languages.values()) or "no concepts at all"
        raise DataError(
            f"{path} has no concept with terms in both {source_language or source} and {target_language or target}; "
            f"it holds: {held}"
        )
    spelt = builder.languages
    return Glossary(
        tuple(entries),
        source_language or spelt.get(source, builder.root_language),
        target_language or spelt.get(target, target),
        passed_over,
    )


def _parsed(path: Path) -> _Builder:
    from defusedxml.common import DefusedXmlException  # here, so that tables are read where it is not installed
    from defusedxml.ElementTree import DefusedXMLParser

    builder = _Builder(path)
    parser = DefusedXMLParser(target=builder)
    builder.parser = parser
    try:
        parser.feed(path.read_bytes())
        parser.close()
    except ParseError as error:
        line = error.position[0]
        raise DataError(f"{path}, line {line}: not well-formed XML ({error}); mend or export the file anew") from None
    except DefusedXmlException as error:
        line = parser.parser.CurrentLineNumber
        raise DataError(
            f"{path}, line {line}: the file declares XML entities, which are not read for safety ({error}); "
            "write the text itself in their place"
        ) from None
    except (LookupError, ValueError) as error:  # the parser's words for encodings it does not know
        raise DataError(f"{path}, line 1: the file cannot be decoded ({error}); save it as UTF-8") from None
    return builder


def _canonical(language: str) -> str:
    return language.strip().replace("_", "-").lower()


def _sides(builder: _Builder, source: str, target: str) -> tuple[str, str]:
    """The canonical codes of the two sides."""
    found = list(builder.languages)
    root = _canonical(builder.root_language)
    chosen_source = _chosen(source, found) if source else ""
    chosen_target = _chosen(target, [code for code in found if code != chosen_source]) if target else ""
    rest = [code for code in found if code not in (chosen_source, chosen_target)]
    if not source and not target and len(rest) == 2:
        chosen_source = root if (root := _chosen(root, found)) in found else found[0]
        rest.remove(chosen_source)
    elif not source and len(found) == 1 and root not in found:  # forbidden targets only: there is no source term
        chosen_source, rest = root, found
    if not chosen_source and chosen_target and len(rest) == 1:
        chosen_source = rest[0]
    if not chosen_target and chosen_source and len(rest) == 1:
        chosen_target = rest[0]
    if not chosen_source or not chosen_target or chosen_source == chosen_target:
        held = ", ".join(builder.languages.values()) or "none"
        raise DataError(
            f"{builder.path}, line 1: which languages? The file holds {held}; "
            "name the source and the target (--from, --to)"
        )
    return chosen_source, chosen_target


def _chosen(language: str, found: Sequence[str]) -> str:
    """The code in the file that `language` means, or itself if there is none."""
    wanted = _canonical(language)
    if wanted in found:
        return wanted
    return next((code for code in found if primary(code) == primary(wanted)), wanted)


def _entries(concept: _Concept, sources: Sequence[_Term], targets: Sequence[_Term]) -> Iterator[GlossaryEntry]:
    """A concept as entries: one for each source term, and another for the targets that are refused."""
    for term in (*sources, *targets):
        if not term.text.strip():
            raise ConstraintError(f"the term on line {term.line} is empty; write its text or remove it")
    policy = cast(Policy, concept.policy or "must")
    refused = [term for term in targets if term.refused or policy == "forbid"]
    allowed = sorted((term for term in targets if term not in refused), key=lambda term: not term.preferred)
    if not sources and policy == "forbid" and refused:
        yield _entry(concept, None, refused, policy)
    for source in sources:
        if allowed or policy == "keep":
            yield _entry(concept, source, allowed, policy)
        if refused:
            yield _entry(concept, source, refused, "forbid")


def _entry(concept: _Concept, source: _Term | None, targets: Sequence[_Term], policy: Policy) -> GlossaryEntry:
    terms = [source, *targets] if source else list(targets)
    notes = dict.fromkeys((*concept.notes, *(note for term in terms for note in term.notes)))
    return GlossaryEntry(
        source=source.text if source else "",
        targets=tuple(term.text for term in targets),
        policy=policy,
        case=cast(CaseRule, concept.case or "carry"),
        note="\n".join(notes),
        line=terms[0].line,
    )
