"""Constraint sets for evaluation: links from a file, or from the aligner run on the test set and training text."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

from termweave.alignment import LINK, WordIds, align_words, identical_words, read_pharaoh
from termweave.constraints.evaluation_sets import (
    ConstraintSetOptions,
    ConstraintSetSummary,
    Link,
    make_constraint_set,
)
from termweave.data.folder import RECORD, SIDES, PairFolder, reverse
from termweave.data.parallel import chunked
from termweave.data.readers import read_lines, read_together
from termweave.errors import ConfigError, DataError
from termweave.storage import RaggedArray, read_json
from termweave.text.words import normalise, split_words

_CHUNK = 5000  # sentence pairs whose words are held in memory at a time


def make_test_constraints(
    source: Path,
    target: Path,
    output: Path,
    options: ConstraintSetOptions,
    *,
    links: Path | None = None,
    prepared: Path | None = None,
    pairs: int = 200_000,
    hard_against: Path | None = None,
) -> ConstraintSetSummary:
    """Write the constraint set of a test set. Exactly one of `links` and `prepared` says where its links come from."""
    if (links is None) == (prepared is None):
        raise ConfigError("give either --links (of a test set in words) or --prepared (to learn links from)")
    options = _checked_languages(options)
    lines = list(read_together(source, target))
    if links is not None:
        rows: list[list[Link]] = [sorted(row.possible) for row in read_pharaoh(links)]
    else:
        assert prepared is not None
        rows = learn_links(lines, prepared, (options.source_language, options.target_language), pairs)
    return make_constraint_set(
        output,
        [line[0] for line in lines],
        [line[1] for line in lines],
        rows,
        options,
        tokenised=links is not None,
        hard_against=None if hard_against is None else list(read_lines(hard_against)),
    )


def _checked_languages(options: ConstraintSetOptions) -> ConstraintSetOptions:
    """The options with their languages in lower case, as prepared folders have them."""
    languages = options.source_language.lower(), options.target_language.lower()
    if any(not language or "-" in language for language in languages):
        raise ConfigError(
            f"--languages {'-'.join(languages)}: not two languages; write both languages, for example de-en"
        )
    return dataclasses.replace(options, source_language=languages[0], target_language=languages[1])


def learn_links(
    lines: Sequence[Sequence[str]], prepared: Path, languages: tuple[str, str], pairs: int
) -> list[list[Link]]:
    """Links of the test lines, aligned together with the first `pairs` sentence pairs of a prepared corpus."""
    training = islice(_clean_text(prepared, languages), pairs)
    test = ((normalise(source), normalise(target)) for source, target in lines)
    with tempfile.TemporaryDirectory(dir=prepared, prefix=".links.") as name:
        folder = Path(name)
        with WordIds(folder / "source") as source, WordIds(folder / "target") as target:
            for chunk in chunked(chain(training, test), _CHUNK):
                source.extend([_words(pair[0], languages[0]) for pair in chunk])
                target.extend([_words(pair[1], languages[1]) for pair in chunk])
        sides = source.open(), target.open()
        align_words(
            *sides,
            folder / "links",
            source_words=source.size,
            target_words=target.size,
            identical=identical_words(source, target),
        )
        links = RaggedArray.open(folder / "links", LINK)
        return [links[row].tolist() for row in range(len(links) - len(lines), len(links))]


def _words(text: str, language: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text, language)]


def _clean_text(prepared: Path, languages: tuple[str, str]) -> Iterable[tuple[str, str]]:
    """The cleaned sentence pairs of a prepared corpus, in the order of `languages`; what is missing, is found here."""
    name = "-".join(languages)
    stored = read_json(prepared / RECORD).get("pairs", [])
    if name not in stored and reverse(name) not in stored:
        raise DataError(f"{prepared} holds no {name} text; it holds: {', '.join(stored) or 'nothing'}")
    swapped = name not in stored
    folder = PairFolder(prepared, reverse(name) if swapped else name)
    pairs = read_together(*(folder.text(side) for side in SIDES))
    return ((second, first) if swapped else (first, second) for first, second in pairs)
