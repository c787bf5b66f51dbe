"""Constraint sets for evaluation: links from a file, or from the aligner run on the test set and training text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from termweave.alignment import LINK, align_words, read_pharaoh
from termweave.constraints.evaluation_sets import (
    ConstraintSetOptions,
    ConstraintSetSummary,
    Link,
    make_constraint_set,
)
from termweave.data.folder import RECORD, SIDES, WORD, PairFolder, reverse
from termweave.data.readers import read_lines, read_together
from termweave.errors import ConfigError, DataError
from termweave.storage import RaggedArray, read_json
from termweave.text.words import normalise, split_words


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
    if not (options.source_language and options.target_language):
        raise ConfigError("--languages: write both languages, for example de-en")
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


def learn_links(
    lines: Sequence[Sequence[str]], prepared: Path, languages: tuple[str, str], pairs: int
) -> list[list[Link]]:
    """Links of the test lines, aligned together with the first `pairs` sentence pairs of a prepared corpus."""
    training = islice(_clean_text(prepared, languages), pairs)
    text = [*training, *((normalise(source), normalise(target)) for source, target in lines)]
    words = [_WordNumbers(language) for language in languages]
    rows = [RaggedArray.from_rows([words[side].row(pair[side]) for pair in text], WORD) for side in (0, 1)]
    with tempfile.TemporaryDirectory(dir=prepared) as folder:
        output = Path(folder) / "links"
        align_words(rows[0], rows[1], output, source_words=len(words[0].known), target_words=len(words[1].known))
        found = RaggedArray.open(output, LINK)
        first = len(text) - len(lines)
        return [[(int(a), int(b)) for a, b in found[row].tolist()] for row in range(first, len(text))]


def _clean_text(prepared: Path, languages: tuple[str, str]) -> Iterable[tuple[str, str]]:
    """The cleaned sentence pairs of a prepared corpus, in the order of `languages`."""
    name = "-".join(languages)
    stored = read_json(prepared / RECORD).get("pairs", [])
    if name not in stored and reverse(name) not in stored:
        raise DataError(f"{prepared} holds no {name} text; it holds: {', '.join(stored) or 'nothing'}")
    swapped = name not in stored
    folder = PairFolder(prepared, reverse(name) if swapped else name)
    for first, second in read_together(*(folder.text(side) for side in SIDES)):
        yield (second, first) if swapped else (first, second)


class _WordNumbers:
    """Numbers casefolded words in order of appearance."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.known: dict[str, int] = {}

    def row(self, text: str) -> list[int]:
        known = self.known
        return [
            known.setdefault(text[start:end].casefold(), len(known)) for start, end in split_words(text, self.language)
        ]


