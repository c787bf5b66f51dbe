"""Code-switching: a target constraint is replaced by its own source, in the constraint and in the reference alike.

The translation of "Das Haus brennt" under the constraint Haus → Haus is then "The Haus burns". No bilingual
dictionary helps with that, so code-switched sentences show whether a model follows constraints or merely agrees
with them. As in sampling, what happens to a sentence depends on (seed, epoch, row) alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from termweave.constraints.phrases import MAX_TOKENS
from termweave.constraints.randomness import advance, seed_number, stream, unit
from termweave.storage import Array, RaggedArray

PURPOSE = 2  # of the random stream, see `randomness`

Span = tuple[int, int]


@dataclass(frozen=True)
class WordMarks:
    """What the token-level switch must know of the vocabulary to keep words apart.

    A phrase cut out of one sentence may lack the leading-space mark its new place needs (it stood after a bracket,
    or its language has no spaces); the lone space token is then put before it.
    """

    starts_word: Array  # bool (vocabulary): whether the token begins with the space mark
    space: int  # the token that is only the space mark, or -1 if there is none: such phrases then stay as they are


def switched_constraints(seed: int, row: int, count: int, probability: float) -> list[bool]:
    """Which of the `count` constraints of sentence `row` are switched in an evaluation set."""
    switched = np.zeros(count, dtype=np.bool_)
    _switches(seed_number(seed), 0, row, probability, switched)
    return [bool(flag) for flag in switched]


def replace_spans(text: str, spans: Sequence[Span], replacements: Sequence[str | None]) -> str:
    """`text` with each of the disjoint `spans` replaced; None leaves a span as it is.

    Where a replacement would grow together with its neighbour into one word, as alphabetic words inside Chinese text
    do, a space comes between them.
    """
    replaced, done = "", 0
    pairs = zip(spans, replacements, strict=True)
    for (start, end), replacement in sorted(pairs, key=lambda pair: pair[0]):
        if replacement is not None:
            replaced = _joined(_joined(replaced, text[done:start]), replacement)
            done = end
    return _joined(replaced, text[done:])


def _joined(left: str, right: str) -> str:
    merges = bool(left and right) and _is_alphabetic(left[-1]) and _is_alphabetic(right[0])
    return f"{left} {right}" if merges else left + right


def _is_alphabetic(character: str) -> bool:
    return character.isalnum() and unicodedata.east_asian_width(character) not in {"W", "F"}


def code_switch_tokens(
    source: RaggedArray,
    target: RaggedArray,
    phrases: RaggedArray,
    rows: Array,
    seed: int,
    epoch: int,
    probability: float,
    marks: WordMarks,
) -> tuple[RaggedArray, RaggedArray]:
    """New target ids and new phrases of a batch of sentences.

    `source`, `target` (ids) and `phrases` (PHRASE, disjoint within a sentence) have one row per sentence of the
    batch; `rows` are their rows in the corpus, which fix the randomness. The order of the phrases is kept; of their
    fields, only the target spans change. A sentence may become longer than it was.
    """
    most = len(target.values) + int(phrases.values["source_tokens"].sum()) + len(phrases.values)
    ids = np.empty(most, dtype=target.values.dtype)
    lengths = np.zeros(len(rows), dtype=np.int64)
    moved = np.array(phrases.values)
    total = _switch_tokens(
        (np.asarray(source.values), np.asarray(source.offsets)),
        (np.asarray(target.values), np.asarray(target.offsets)),
        np.asarray(phrases.offsets),
        moved,
        np.ascontiguousarray(rows, dtype=np.int64),
        seed_number(seed),
        epoch,
        probability,
        np.ascontiguousarray(marks.starts_word, dtype=np.bool_),
        marks.space,
        ids,
        lengths,
    )
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    return RaggedArray(ids[:total].copy(), offsets), RaggedArray(moved, np.asarray(phrases.offsets))


def replace_source_tokens(
    source: RaggedArray, target: RaggedArray, phrases: RaggedArray, marks: WordMarks
) -> tuple[RaggedArray, RaggedArray]:
    """New source ids and new phrases of a batch of sentences: every constraint stands in the place of its source.

    That is code-switching of all constraints, seen from the other side. Arguments as in `code_switch_tokens`.
    """
    rows, offsets = np.arange(len(source)), np.asarray(phrases.offsets)
    turned = RaggedArray(_other_way_round(phrases.values), offsets)
    replaced, moved = code_switch_tokens(target, source, turned, rows, seed=0, epoch=0, probability=1.0, marks=marks)
    return replaced, RaggedArray(_other_way_round(moved.values), offsets)


def _other_way_round(phrases: Array) -> Array:
    """Source and target of PHRASEs change their names."""
    turned = np.array(phrases)
    for field in ("start", "tokens"):
        turned[f"source_{field}"], turned[f"target_{field}"] = phrases[f"target_{field}"], phrases[f"source_{field}"]
    return turned


@numba.njit(nogil=True, cache=True)
def _switches(seed: np.uint64, epoch: int, row: int, probability: float, switched: Array) -> None:
    state = stream(seed, epoch, row, PURPOSE)
    for index in range(len(switched)):
        state = advance(state)
        switched[index] = unit(state) < probability


@numba.njit(nogil=True, cache=True)
def _switch_tokens(
    source: tuple[Array, Array],
    target: tuple[Array, Array],
    phrase_offsets: Array,
    phrases: Array,
    rows: Array,
    seed: np.uint64,
    epoch: int,
    probability: float,
    starts_word: Array,
    space: int,
    ids: Array,
    lengths: Array,
) -> int:
    source_values, source_offsets = source
    target_values, target_offsets = target
    total = 0
    for index in range(len(rows)):
        here = phrases[phrase_offsets[index] : phrase_offsets[index + 1]]
        switched = np.zeros(len(here), dtype=np.bool_)
        _switches(seed, epoch, rows[index], probability, switched)
        lengths[index] = _switch_sentence(
            source_values[source_offsets[index] : source_offsets[index + 1]],
            target_values[target_offsets[index] : target_offsets[index + 1]],
            here,
            switched,
            starts_word,
            space,
            ids[total:],
        )
        total += lengths[index]
    return total


@numba.njit(nogil=True, cache=True)
def _switch_sentence(
    source: Array, target: Array, phrases: Array, switched: Array, starts_word: Array, space: int, ids: Array
) -> int:
    """Write the new target to the front of `ids`, move the target spans of `phrases`; returns the new length."""
    starts, order = np.empty(len(phrases), dtype=np.int64), np.empty(len(phrases), dtype=np.int64)
    for number in range(len(phrases)):  # from left to right; numba's own sorting must not be cached
        starts[number] = phrases[number].target_start
        place = number
        while place > 0 and starts[order[place - 1]] > starts[number]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = number
    length, done = 0, 0  # tokens written, tokens of the old target dealt with
    for index in order:
        first = starts[index]
        last = first + phrases[index].target_tokens
        ids[length : length + first - done] = target[done:first]
        length += first - done
        done = last
        source_first = np.int64(phrases[index].source_start)
        source_tokens = np.int64(phrases[index].source_tokens)
        glued = starts_word[target[first]] and not starts_word[source[source_first]]
        new_tokens = source_tokens + (1 if glued else 0)
        phrases[index].target_start = length
        if not switched[index] or new_tokens > MAX_TOKENS or (glued and space < 0):
            ids[length : length + last - first] = target[first:last]
            length += last - first
            continue
        phrases[index].target_tokens = new_tokens
        if glued:
            ids[length] = space
            length += 1
        ids[length : length + source_tokens] = source[source_first : source_first + source_tokens]
        length += source_tokens
    ids[length : length + len(target) - done] = target[done:]
    return length + len(target) - done
