"""A file into a translated file: its format, the place of the translation, and going on after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from termweave.documents.document import Document, Options
from termweave.documents.html import Html, HtmlText
from termweave.documents.journal import journal, run_key
from termweave.documents.markdown import Markdown
from termweave.documents.plain import PlainText
from termweave.documents.po import Po
from termweave.documents.segments import Segment
from termweave.documents.sentences import Terms
from termweave.documents.table import Table
from termweave.documents.translation import Check, Progress, SegmentTranslator, Settled, Translate
from termweave.documents.xliff import Xliff
from termweave.documents.xml_text import XmlText
from termweave.errors import ConfigError, DataError
from termweave.storage import atomic_path, remove_stale

FORMATS: dict[str, Callable[[Path, Options], Document]] = {
    "txt": PlainText,
    "tsv": Table,
    "md": Markdown,
    "html": Html,
    "po": Po,
    "xliff": Xliff,
}
_SUFFIXES = {
    ".txt": "txt",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".po": "po",
    ".pot": "po",
    ".xliff": "xliff",
    ".xlf": "xliff",
}


@dataclass(frozen=True)
class Report:
    """What `translate_file` has done."""

    output: Path | None
    """The file written; None if the translation went to a stream."""
    segments: int
    sentences: int
    resumed: int
    """Sentences that an interrupted run had already translated."""
    in_pieces: int
    """Sentences translated piece by piece, for their markup did not survive otherwise."""
    unchanged: int
    """Segments left as they were, for their translation could not be written without breaking markup or directives."""


def translate_file(
    path: Path | str,
    output: Path | str | IO[bytes] | None,
    translate: Translate,
    options: Options | None = None,
    *,
    format: str | None = None,
    batch: int = 256,
    progress: Progress | None = None,
    key: str = "",
    terms: Terms | None = None,
    settled: Settled = lambda again, left: None,
) -> Report:
    """Translate a file; `translate` is given lists of sentences and gives back their translations.

    `output` is a path, an open binary stream, or None for the place `output_beside` names. The format follows from the
    suffix of `path`, unless `format` names it. `key` says what `translate` depends on, such as model and glossary: an
    interrupted run is only continued by one with the same key, input and options. Runs into a stream are not continued,
    nor are those from a pipe, which can be read only once. `terms` knows the terms of a glossary: no sentence ends
    inside one, and they are translated even if they hold no letter. `settled` is told after each batch which lines
    were translated again, in pieces, and which stayed as they were.
    """
    source = Path(path)
    options = options or Options()
    kind = format_of(source, format)
    if batch < 1:
        raise ConfigError(f"batch {batch}: at least one sentence must be translated at a time")
    if not source.exists():
        raise DataError(f"{source}: no such file")
    piped = source.is_fifo() or source.is_char_device()  # the second is a terminal
    if not piped and not source.is_file():
        raise DataError(f"{source} is no file")
    if output is None and piped:
        raise ConfigError(f"{source} is a pipe, and beside it is no place for its translation; name an output")
    if output is None:
        output = output_beside(source, options)
    if not isinstance(output, Path | str):
        translator = SegmentTranslator(translate, options.source_language, batch, terms, settled)
        for piece in _pieces(FORMATS[kind](source, options), translator, progress):
            output.write(piece)
        return _report(None, translator, 0)
    target = Path(output)
    if target.exists() and target.samefile(source):
        raise ConfigError(f"{target} would be overwritten by its own translation; name another output")
    if target.is_dir():
        raise ConfigError(f"{target} is a folder; name a file")
    document = FORMATS[kind](source, options)  # first of all: a file that cannot be read leaves nothing behind
    if piped:
        translator = SegmentTranslator(translate, options.source_language, batch, terms, settled)
        _write(target, _pieces(document, translator, progress))
        return _report(target, translator, 0)
    settings = run_key(source, kind, options, batch, key)
    with journal(target, settings, translate) as remembered:  # around it all: it must not go before the output stands
        translator = SegmentTranslator(remembered, options.source_language, batch, terms, settled)
        _write(target, _pieces(document, translator, progress))
    return _report(target, translator, remembered.resumed)


def translate_markup(
    text: str,
    kind: Literal["html", "xml"],
    translate: Translate,
    language: str = "en",
    *,
    ignored: frozenset[str] = frozenset(),
    splitting: frozenset[str] = frozenset(),
    terms: Terms | None = None,
) -> str:
    """A text with tags; they stay, and those inside a sentence move with its words.

    ignored: elements whose content stays as it is. splitting: tags of XML that no sentence goes across; of HTML they
    are known. terms: as in `translate_file`.
    """
    document: Document = (
        HtmlText(text, Options(language, ignored_tags=ignored)) if kind == "html" else XmlText(text, ignored, splitting)
    )
    return b"".join(_pieces(document, SegmentTranslator(translate, language, terms=terms), None)).decode()


def format_of(path: Path, name: str | None = None) -> str:
    """The name of a format, given or from the suffix of a path."""
    if name is not None:
        if name not in FORMATS:
            raise ConfigError(f"no format {name!r}; there are {', '.join(FORMATS)}")
        return name
    try:
        return _SUFFIXES[path.suffix.lower()]
    except KeyError:
        raise ConfigError(
            f"{path}: the suffix names no known format ({', '.join(_SUFFIXES)}); name one of {', '.join(FORMATS)}"
        ) from None


def output_beside(path: Path, options: Options) -> Path:
    """`letter.txt` into German is `letter.de.txt`, and so is `letter.en.txt` from English. A .pot becomes a .po."""
    if options.target_language is None:
        raise ConfigError(f"{path}: name an output, or the target language to have the output named after it")
    stem = path.stem
    if stem.lower().endswith("." + options.source_language.lower()):
        stem = stem[: -len(options.source_language) - 1]
    suffix = ".po" if path.suffix.lower() == ".pot" else path.suffix
    return path.with_name(f"{stem}.{options.target_language}{suffix}")


def _pieces(document: Document, translator: SegmentTranslator, progress: Progress | None) -> Iterator[bytes]:
    """The translated document, with word of how far it has come."""
    done = 0

    def through(segments: Iterable[Segment], check: Check | None = None) -> Iterator[Segment]:
        nonlocal done
        for segment in translator(segments, check):
            yield segment
            done += segment.weight
            if progress is not None and segment.weight and document.total:
                progress(done, document.total)

    return document.translated(through)


def _write(target: Path, pieces: Iterable[bytes]) -> None:
    remove_stale(target)
    with atomic_path(target) as temporary, temporary.open("wb") as file:
        for piece in pieces:
            file.write(piece)


def _report(output: Path | None, translator: SegmentTranslator, resumed: int) -> Report:
    counts = translator.counts
    return Report(output, counts.segments, counts.sentences, resumed, counts.in_pieces, counts.unchanged)
