"""Word alignment: the built-in aligner, eflomal if installed, Pharaoh files, symmetrisation, alignment error rate."""

from termweave.alignment.aligner import ALIGN_STEPS, align_words
from termweave.alignment.eflomal import align_with_eflomal
from termweave.alignment.error_rate import AlignmentErrorRate, alignment_error_rate
from termweave.alignment.files import AlignmentMethod, AlignmentReport, GoldFiles, align_files
from termweave.alignment.links import LINK, GoldLinks
from termweave.alignment.pharaoh import read_pharaoh, store_pharaoh, write_pharaoh
from termweave.alignment.symmetrisation import symmetrise
from termweave.alignment.words import WordIds, identical_words

__all__ = [
    "ALIGN_STEPS",
    "LINK",
    "AlignmentErrorRate",
    "AlignmentMethod",
    "AlignmentReport",
    "GoldFiles",
    "GoldLinks",
    "WordIds",
    "align_files",
    "align_with_eflomal",
    "align_words",
    "alignment_error_rate",
    "identical_words",
    "read_pharaoh",
    "store_pharaoh",
    "symmetrise",
    "write_pharaoh",
]
