"""The built-in aligner on made-up text whose true links are known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from termweave.alignment import ALIGN_STEPS, LINK, GoldLinks, align_words, alignment_error_rate
from termweave.errors import ConfigError, DataError
from termweave.storage import RaggedArray

WORDS = 205


def align(path: Path, source: list[Any], target: list[Any], **options: Any) -> RaggedArray:
    sides = RaggedArray.from_rows(source, np.int32), RaggedArray.from_rows(target, np.int32)
    options = {"source_words": WORDS, "target_words": WORDS, "threads": 1, **options}
    align_words(*sides, path, **options)
    return RaggedArray.open(path, LINK)


def test_recovers_a_dictionary_with_reordering(tmp_path: Path, invent_text: Callable[..., Any]) -> None:
    pairs = invent_text(1500)
    links = align(tmp_path / "links", [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    gold = [GoldLinks(frozenset(truth), frozenset(truth)) for _, _, truth in pairs]
    result = alignment_error_rate(gold, links)
    assert result.error_rate < 0.03, str(result)


def test_rows_are_sorted_and_inside_the_sentence(tmp_path: Path, invent_text: Callable[..., Any]) -> None:
    pairs = invent_text(300)
    links = align(tmp_path / "links", [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    for row, (source, target, _) in enumerate(pairs):
        found = links[row].tolist()
        assert found == sorted(set(found))
        assert all(i < len(source) and j < len(target) for i, j in found)


@pytest.mark.parametrize("threads", [1, 3])
def test_same_input_same_links(tmp_path: Path, invent_text: Callable[..., Any], threads: int) -> None:
    pairs = invent_text(400)
    source, target = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    first = align(tmp_path / "first", source, target, threads=threads)
    second = align(tmp_path / "second", source, target, threads=threads)
    assert np.array_equal(first.values, second.values)
    assert np.array_equal(first.offsets, second.offsets)


def test_empty_sides_give_empty_rows(tmp_path: Path, invent_text: Callable[..., Any]) -> None:
    pairs = invent_text(300)
    source = [[], [7, 8], *(pair[0] for pair in pairs), []]
    target = [[7], [], *(pair[1] for pair in pairs), []]
    links = align(tmp_path / "links", source, target, threads=2)
    assert len(links) == 303
    assert [len(links[row]) for row in (0, 1, 302)] == [0, 0, 0]


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_no_text_at_all(tmp_path: Path, rows: list[Any]) -> None:
    assert align(tmp_path / "links", rows, rows, threads=4).lengths.tolist() == [0] * len(rows)
    assert len(align(tmp_path / "none", rows, rows, source_words=0, target_words=0)) == len(rows)


def test_identical_spelling_helps_words_seen_once(tmp_path: Path, invent_text: Callable[..., Any]) -> None:
    """A new name and a new number in one sentence: only their spelling tells which is which."""
    pairs = invent_text(300)
    source = [*(pair[0] for pair in pairs), [5, WORDS, WORDS + 1]]
    target = [*(pair[1] for pair in pairs), [5, WORDS, WORDS + 1]]
    identical = np.full(WORDS + 2, -1)
    identical[WORDS:] = [WORDS + 1, WORDS]
    sizes = {"source_words": WORDS + 2, "target_words": WORDS + 2}
    found = align(tmp_path / "links", source, target, identical=identical, **sizes)[300].tolist()
    assert {(1, 2), (2, 1)} <= set(found)


def test_very_long_sentences_are_aligned_at_their_beginning(tmp_path: Path, invent_text: Callable[..., Any]) -> None:
    pairs = invent_text(300)
    long = np.random.default_rng(0).integers(5, WORDS, size=3000)
    links = align(tmp_path / "links", [*(p[0] for p in pairs), long], [*(p[1] for p in pairs), long])
    assert len(links[300]) > 500
    assert max(links[300].tolist()) < (1024, 1024)


def test_progress_is_reported(tmp_path: Path, invent_text: Callable[..., Any]) -> None:
    pairs = invent_text(50)
    steps: list[int] = []
    align(
        tmp_path / "links", [p[0] for p in pairs], [p[1] for p in pairs], advance=lambda amount=1: steps.append(amount)
    )
    assert sum(steps) == ALIGN_STEPS


@pytest.mark.parametrize(
    ("source", "target", "options", "error", "message"),
    [
        ([[1]], [], {}, DataError, "1 source sentences but 0 target sentences"),
        ([[WORDS]], [[1]], {}, DataError, "source word ids must lie between 0 and 204"),
        ([[1]], [[-1]], {}, DataError, "target word ids must lie between 0 and 204"),
        ([[1]], [[1]], {"identical": np.zeros(3, np.int32)}, DataError, "3 entries for 205 source words"),
        ([[1]], [[1]], {"threads": -1}, ConfigError, "threads: -1 is not possible"),
    ],
)
def test_wrong_input(
    tmp_path: Path, source: list[Any], target: list[Any], options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        align(tmp_path / "links", source, target, **options)
    assert not list(tmp_path.iterdir())
