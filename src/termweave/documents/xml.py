"""XML that cannot hurt: no entities, no network, no document type that defines anything, no depth without end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lxml import etree

from termweave.documents.document import line_end_of, with_line_ends
from termweave.errors import DataError

_DECLARATION = re.compile(r"\ufeff?<\?xml\s[^>]*\?>\s*")


def parse_xml(text: str, path: Path) -> Any:
    """The tree of the text of a file; `path` is its name in messages."""
    if "<!DOCTYPE" in text and "<!ENTITY" in text:
        line = text.count("\n", 0, text.index("<!ENTITY")) + 1
        raise DataError(f"{path}, line {line}: the file defines XML entities, which are not read for safety")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_pis=False, strip_cdata=False
    )
    try:
        tree = etree.ElementTree(etree.fromstring(text.encode(), parser))
    except etree.XMLSyntaxError as error:
        raise DataError(f"{path}, line {error.lineno}: not well-formed XML: {error.msg}") from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{path}: the XML cannot be read: {error}") from None
    if (tree.docinfo.encoding or "UTF-8").upper() not in ("UTF-8", "ASCII", "US-ASCII"):
        raise DataError(
            f"{path}, line 1: declares the encoding {tree.docinfo.encoding}; convert the file to UTF-8 first"
        )
    for entity in tree.iter(etree.Entity):
        raise DataError(f"{path}, line {entity.sourceline}: the XML entity {entity.text} is not defined")
    return tree


def write_xml(tree: Any, like: str) -> bytes:
    """The tree as bytes, with the declaration, the line ends and the last of them of the text it was read from."""
    declaration = _DECLARATION.match(like)
    text: str = etree.tostring(tree, encoding="unicode")
    end = "\n" if like.endswith("\n") and not text.endswith("\n") else ""
    before = declaration[0] if declaration else ""
    return (before + with_line_ends(text + end, line_end_of(like))).encode()


def local_name(element: Any) -> str:
    """The name without its namespace; empty for comments and instructions."""
    return str(element.tag).rpartition("}")[2] if isinstance(element.tag, str) else ""
