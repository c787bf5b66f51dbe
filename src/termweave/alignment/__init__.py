"""Word alignment: the built-in aligner, eflomal if installed, Pharaoh files, symmetrisation, alignment error rate."""

from termweave.alignment.aligner import ALIGN_STEPS, align_words
from termweave.alignment.links import LINK, GoldLinks
from termweave.alignment.symmetrisation import symmetrise

__all__ = ["ALIGN_STEPS", "LINK", "GoldLinks", "align_words", "symmetrise"]
