"""Whole documents: their text is found, translated by a function that is given, and put back; all else stays."""

from termweave.documents.document import Options
from termweave.documents.files import FORMATS, Report, output_beside, translate_file, translate_markup
from termweave.documents.sentences import Sentence, join_sentences, split_sentences
from termweave.documents.tokens import TOKEN
from termweave.documents.translation import Progress, Translate, translate_text

__all__ = [
    "FORMATS",
    "TOKEN",
    "Options",
    "Progress",
    "Report",
    "Sentence",
    "Translate",
    "join_sentences",
    "output_beside",
    "split_sentences",
    "translate_file",
    "translate_markup",
    "translate_text",
]
