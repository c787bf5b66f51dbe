"""Evaluation sets: test sentences with constraints, one JSON object per line.

    {"source": "…", "target": "…", "constraints": [{"source": "…", "target": "…"}]}

A constraint may have "alternatives", a list of other targets that will do.

Constraints are extracted from word links and drawn by the very rules of training, so that a test measures what was
trained. There are two kinds of set, each with or without code-switching:

- `all` draws from all phrase pairs. Many of them a plain model translates as wanted anyway.
- `hard` draws only from phrase pairs whose target is not in a plain model's output for the sentence.

Both keep every sentence, in order, also those that got no constraint: BLEU then is that of the whole test set, and
comparable between sets and systems. The same seed gives the same file, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from termweave.config import SamplingConfig
from termweave.constraints.code_switching import replace_spans, switched_constraints
from termweave.constraints.constraint import Constraint
from termweave.constraints.occurrences import comparable, comparable_spans, count_occurrences
from termweave.constraints.phrases import WordSide, extract_phrases
from termweave.constraints.sampling import sample_constraints
from termweave.errors import ConstraintError, DataError
from termweave.storage import Array, write_text
from termweave.text.stopwords import is_content, is_punctuation
from termweave.text.words import Span, join_tokens, normalise, split_words

Link = tuple[int, int]

_UNLIMITED = 1 << 30  # evaluation has no limit on the tokens of a sentence's constraints


@dataclass(frozen=True)
class ConstrainedSentence:
    """A test sentence, its reference translation and what the translation must contain."""

    source: str
    target: str
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True)
class LinkedSentence:
    """A sentence pair with the spans of its words and the links between them."""

    source: str
    target: str
    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    links: tuple[Link, ...]  # positions in source_words and target_words


@dataclass(frozen=True)
class ConstraintSetOptions:
    """How constraints are drawn for an evaluation set."""

    source_language: str
    target_language: str
    seed: int = 1
    max_constraints: int = 3  # at most so many in a sentence, their number drawn uniformly
    max_words: int = 3  # longest source phrase, the length drawn uniformly
    code_switch: float = 0.0  # probability that a target constraint is replaced by its source, reference included


@dataclass(frozen=True)
class ConstraintSetSummary:
    """What a constraint set holds."""

    sentences: int
    constrained_sentences: int  # those with at least one constraint
    constraints: int

    def __str__(self) -> str:
        return (
            f"{self.sentences:,} sentences, {self.constrained_sentences:,} of them with constraints, "
            f"{self.constraints:,} constraints"
        )


def make_constraint_set(
    output: Path,
    source: Sequence[str],
    target: Sequence[str],
    links: Sequence[Sequence[Link]],
    options: ConstraintSetOptions,
    *,
    tokenised: bool,
    hard_against: Sequence[str] | None = None,
) -> ConstraintSetSummary:
    """The whole work of `termweave constraints`: lines of text and their links in, a JSON-lines file out."""
    link = link_tokenised if tokenised else link_text
    sentences = build_constraint_set(link(source, target, links, options), options, hard_against)
    write_constraint_set(output, sentences)
    numbers = [len(sentence.constraints) for sentence in sentences]
    return ConstraintSetSummary(len(numbers), sum(number > 0 for number in numbers), sum(numbers))


def read_constraint_set(path: Path) -> list[ConstrainedSentence]:
    """Read a JSON-lines file; duplicates are kept, anything unexpected is an error that names the line."""
    try:
        lines = path.read_bytes().decode("utf-8").removeprefix("\ufeff").split("\n")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; make it with `termweave constraints`") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); a constraint set is JSON lines") from None
    if lines[-1] == "":
        lines.pop()
    return [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def write_constraint_set(path: Path, sentences: Iterable[ConstrainedSentence]) -> None:
    """Write atomically; the same sentences give the same bytes."""
    rows = []
    for sentence in sentences:
        constraints = [_record(item) for item in sentence.constraints]
        row = {"source": sentence.source, "target": sentence.target, "constraints": constraints}
        rows.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_text(path, "".join(rows))


def _record(constraint: Constraint) -> dict[str, Any]:
    record: dict[str, Any] = {"source": constraint.source, "target": constraint.target}
    return record | {"alternatives": list(constraint.alternatives)} if constraint.alternatives else record


def _parse(line: str, where: str) -> ConstrainedSentence:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where} is not valid JSON ({error}); each line must be one object") from None
    except RecursionError:
        raise DataError(f"{where} is nested too deeply; each line must be one object") from None
    _require_keys(row, {"source": str, "target": str, "constraints": list}, where)
    constraints = []
    for number, given in enumerate(row["constraints"], start=1):
        item = {"alternatives": [], **given} if isinstance(given, dict) else given
        _require_keys(item, {"source": str, "target": str, "alternatives": list}, f"{where}, constraint {number}")
        try:
            constraints.append(Constraint(item["source"], item["target"], tuple(item["alternatives"])))
        except ConstraintError as error:
            raise DataError(f"{where}: {error}") from None
    return ConstrainedSentence(row["source"], row["target"], tuple(constraints))


def _require_keys(row: Any, keys: dict[str, type], where: str) -> None:
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected an object with the keys {', '.join(keys)}, got {row!r}")
    for key in row:
        if key not in keys:
            raise DataError(f"{where}: unknown key {key!r}; known are {', '.join(keys)}")
    for key, kind in keys.items():
        if key not in row:
            raise DataError(f"{where}: the key {key!r} is missing")
        if not isinstance(row[key], kind):
            expected = "a list" if kind is list else "text"
            raise DataError(f"{where}: {key!r} must be {expected}, got {row[key]!r}")


def link_tokenised(
    source: Sequence[str], target: Sequence[str], links: Sequence[Sequence[Link]], options: ConstraintSetOptions
) -> list[LinkedSentence]:
    """Sentences whose words are separated by spaces, as the gold sets are, made natural text again."""
    _require_equal_lengths(source=source, target=target, links=links)
    linked = []
    for number, (source_line, target_line, row) in enumerate(zip(source, target, links, strict=True), start=1):
        source_text, source_words = join_tokens(_tokens(source_line, number), options.source_language)
        target_text, target_words = join_tokens(_tokens(target_line, number), options.target_language)
        linked.append(LinkedSentence(source_text, target_text, tuple(source_words), tuple(target_words), tuple(row)))
    return linked


def link_text(
    source: Sequence[str], target: Sequence[str], links: Sequence[Sequence[Link]], options: ConstraintSetOptions
) -> list[LinkedSentence]:
    """Sentences of natural text, with links that count the words `text.words.split_words` finds."""
    _require_equal_lengths(source=source, target=target, links=links)
    linked = []
    for source_line, target_line, row in zip(source, target, links, strict=True):
        source_text, target_text = normalise(source_line), normalise(target_line)
        source_words = tuple(split_words(source_text, options.source_language))
        target_words = tuple(split_words(target_text, options.target_language))
        linked.append(LinkedSentence(source_text, target_text, source_words, target_words, tuple(row)))
    return linked


def _tokens(line: str, number: int) -> list[str]:
    tokens = normalise(line).split()
    if len(tokens) != len(line.split()):
        raise DataError(
            f"line {number}: a token is made of invisible characters only, so links cannot be counted; remove it"
        )
    return tokens


def _require_equal_lengths(**columns: Sequence[Any]) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        counts = ", ".join(f"{name} has {len(column)}" for name, column in columns.items())
        raise DataError(f"the files of a test set need as many lines each: {counts}")


def build_constraint_set(
    sentences: Sequence[LinkedSentence],
    options: ConstraintSetOptions,
    hard_against: Sequence[str] | None = None,
) -> list[ConstrainedSentence]:
    """The set `all`, or, given a plain model's output for each sentence, the set `hard`."""
    if hard_against is not None:
        _require_equal_lengths(test_set=sentences, model_output=hard_against)
    source = [comparable_spans(sentence.source, options.source_language) for sentence in sentences]
    target = [comparable_spans(sentence.target, options.target_language) for sentence in sentences]
    phrases, lengths = _extract(sentences, source, target, options)
    allowed = np.zeros(len(phrases), dtype=np.bool_)
    end = 0
    for index, sentence in enumerate(sentences):
        start, end = end, end + int(lengths[index])
        output = None if hard_against is None else comparable(hard_against[index], options.target_language)
        for position in range(start, end):
            words = _slice(target[index], phrases[position]["target_start"], phrases[position]["target_tokens"])
            allowed[position] = _is_allowed(sentence.target, words, output, options.target_language)
        lengths[index] = allowed[start:end].sum()
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    chosen, counts = sample_constraints(
        phrases[allowed],
        offsets,
        np.arange(len(sentences)),
        options.seed,
        0,
        SamplingConfig(options.max_constraints, options.max_words, empty_share=0.0, max_tokens=_UNLIMITED),
    )
    ends = np.cumsum(counts)
    return [
        _constrained(index, sentence, chosen[ends[index] - counts[index] : ends[index]], source, target, options)
        for index, sentence in enumerate(sentences)
    ]


def _extract(
    sentences: Sequence[LinkedSentence],
    source: Sequence[Sequence[Span]],
    target: Sequence[Sequence[Span]],
    options: ConstraintSetOptions,
) -> tuple[Array, Array]:
    """Phrase pairs in units of comparable words; a phrase must begin and end where such words do."""
    for number, sentence in enumerate(sentences, start=1):
        for link in sentence.links:
            if not (0 <= link[0] < len(sentence.source_words) and 0 <= link[1] < len(sentence.target_words)):
                raise DataError(
                    f"sentence {number}: the link {link[0]}-{link[1]} points outside its "
                    f"{len(sentence.source_words)} source and {len(sentence.target_words)} target words; "
                    "the links belong to another text, or count from 1"
                )
    links = np.array([link for sentence in sentences for link in sentence.links], dtype=np.uint16).reshape(-1, 2)
    return extract_phrases(
        links[:, 0],
        links[:, 1],
        _offsets([sentence.links for sentence in sentences]),
        _side([(s.source, s.source_words) for s in sentences], source, options.source_language),
        _side([(s.target, s.target_words) for s in sentences], target, options.target_language),
        options.max_words,
    )


def _side(sentences: Sequence[tuple[str, Sequence[Span]]], units: Sequence[Sequence[Span]], language: str) -> WordSide:
    starts: list[int] = []
    ends: list[int] = []
    words: list[str] = []
    for (text, spans), compared in zip(sentences, units, strict=True):
        unit_at_start = {start: position for position, (start, _) in enumerate(compared)}
        unit_at_end = {end: position + 1 for position, (_, end) in enumerate(compared)}
        starts += [unit_at_start.get(start, -1) for start, _ in spans]
        ends += [unit_at_end.get(end, -1) for _, end in spans]
        words += [text[start:end] for start, end in spans]
    return WordSide(
        np.array(starts, dtype=np.int32),
        np.array(ends, dtype=np.int32),
        np.array([is_content(word, language) for word in words], dtype=np.uint8),
        np.array([is_punctuation(word) for word in words], dtype=np.uint8),
        _offsets([spans for _, spans in sentences]),
    )


def _offsets(rows: Sequence[Sequence[Any]]) -> Array:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)


def _slice(spans: Sequence[Span], start: int, count: int) -> Sequence[Span]:
    return spans[int(start) : int(start) + int(count)]


def _is_allowed(text: str, spans: Sequence[Span], output: Sequence[str] | None, language: str) -> bool:
    """Whether a phrase can be a constraint on its own, and the plain model's output lacks it.

    Cut out of its sentence, a phrase may split into other words ("'s" without its noun); such a constraint could not
    be found again, not even in the reference.
    """
    phrase = tuple(text[start:end] for start, end in spans)
    if comparable(text[spans[0][0] : spans[-1][1]], language) != phrase:
        return False
    return output is None or count_occurrences(output, phrase) == 0


def _constrained(
    index: int,
    sentence: LinkedSentence,
    chosen: Array,
    source: Sequence[Sequence[Span]],
    target: Sequence[Sequence[Span]],
    options: ConstraintSetOptions,
) -> ConstrainedSentence:
    """Cut the chosen phrases out of the text, and switch some of them."""
    source_texts, target_spans = [], []
    for phrase in chosen:
        words = _slice(source[index], phrase["source_start"], phrase["source_tokens"])
        source_texts.append(sentence.source[words[0][0] : words[-1][1]])
        words = _slice(target[index], phrase["target_start"], phrase["target_tokens"])
        target_spans.append((words[0][0], words[-1][1]))
    switched = switched_constraints(options.seed, index, len(chosen), options.code_switch)
    replacements = [text if flag else None for text, flag in zip(source_texts, switched, strict=True)]
    constraints = tuple(
        Constraint(text, sentence.target[start:end] if replacement is None else replacement)
        for text, (start, end), replacement in zip(source_texts, target_spans, replacements, strict=True)
    )
    new_target = replace_spans(sentence.target, target_spans, replacements)
    return ConstrainedSentence(sentence.source, new_target, constraints)
