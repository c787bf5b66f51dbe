"""Neural machine translation that keeps to a glossary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from termweave.constraints.constraint import Constraint
    from termweave.constraints.glossary import Glossary, GlossaryEntry
    from termweave.decoding.terminology import Receipt, Terminology
    from termweave.decoding.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = [
    "Constraint",
    "Glossary",
    "GlossaryEntry",
    "Receipt",
    "Terminology",
    "Translation",
    "Translator",
    "__version__",
]

_HOMES = {
    "Constraint": "termweave.constraints.constraint",
    "Glossary": "termweave.constraints.glossary",
    "GlossaryEntry": "termweave.constraints.glossary",
    "Receipt": "termweave.decoding.terminology",
    "Terminology": "termweave.decoding.terminology",
    "Translation": "termweave.decoding.translator",
    "Translator": "termweave.decoding.translator",
}


def __getattr__(name: str) -> Any:
    """Load the public names on first use: importing torch takes seconds that `termweave --help` should not cost."""
    if name not in _HOMES:
        raise AttributeError(f"module 'termweave' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
