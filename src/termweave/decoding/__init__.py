"""Search, and `Translator`, the only façade over it."""

from termweave.decoding.translator import Translation, Translator

__all__ = ["Translation", "Translator"]
