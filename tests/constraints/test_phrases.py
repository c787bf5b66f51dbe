"""Phrase extraction against a brute-force reading of the rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.constraints.phrases import PHRASE, WordSide, extract_phrases
from termweave.errors import DataError


@dataclass(frozen=True)
class Word:
    start: int
    end: int
    kind: str  # "content", "stop" or "punctuation"


@dataclass(frozen=True)
class Sentence:
    source: list[Word]
    target: list[Word]
    links: list[tuple[int, int]]


def brute_force(sentence: Sentence, max_words: int) -> set[tuple[int, int, int, int, int]]:
    """Try every pair of spans and apply each rule literally."""
    found = set()
    for i in range(len(sentence.source)):
        for j in range(i, len(sentence.source)):
            for low in range(len(sentence.target)):
                for high in range(low, len(sentence.target)):
                    if is_phrase(sentence, i, j, low, high, max_words):
                        source, target = sentence.source[i : j + 1], sentence.target[low : high + 1]
                        found.add(
                            (
                                source[0].start,
                                target[0].start,
                                source[-1].end - source[0].start,
                                target[-1].end - target[0].start,
                                j - i + 1,
                            )
                        )
    return found


def is_phrase(sentence: Sentence, i: int, j: int, low: int, high: int, max_words: int) -> bool:
    source, target = sentence.source[i : j + 1], sentence.target[low : high + 1]
    inside = [(s, t) for s, t in sentence.links if i <= s <= j]
    linked_targets = {t for _, t in inside}
    rules = [
        len(source) <= max_words,
        all(any(s == word for s, _ in sentence.links) for word in range(i, j + 1)),
        bool(linked_targets) and min(linked_targets) == low and max(linked_targets) == high,
        all(i <= s <= j for s, t in sentence.links if low <= t <= high),
        len(target) - 1 < 1.6 * (len(source) - 1) + 1,
        all(word.kind != "punctuation" for word in source + target),
        any(word.kind == "content" for word in source),
        any(word.kind == "content" for word in target),
        min(source[0].start, source[-1].end, target[0].start, target[-1].end) >= 0,
        source[-1].end - source[0].start <= 255,
        target[-1].end - target[0].start <= 255,
    ]
    return all(rules)


@st.composite
def sides(draw: st.DrawFn) -> list[Word]:
    words, position = [], 0
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["content", "content", "stop", "punctuation"]))
        length = draw(st.sampled_from([1, 1, 1, 2, 3, 130]))
        broken_start, broken_end = draw(st.integers(0, 9)) == 0, draw(st.integers(0, 9)) == 0
        words.append(Word(-1 if broken_start else position, -1 if broken_end else position + length, kind))
        position += length
    return words


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    source, target = draw(sides()), draw(sides())
    link = st.tuples(st.integers(0, len(source) - 1), st.integers(0, len(target) - 1))
    links = draw(st.lists(link, max_size=9))
    if draw(st.booleans()):  # mostly diagonal links, so that long phrases occur
        links += [(k, k) for k in range(min(len(source), len(target)))]
    return Sentence(source, target, links)


def side(rows: list[list[Word]]) -> WordSide:
    words = [word for row in rows for word in row]
    return WordSide(
        np.array([word.start for word in words], dtype=np.int32),
        np.array([word.end for word in words], dtype=np.int32),
        np.array([word.kind == "content" for word in words], dtype=np.uint8),
        np.array([word.kind == "punctuation" for word in words], dtype=np.uint8),
        offsets(rows),
    )


def offsets(rows: list[list[Word]] | list[list[tuple[int, int]]]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)


def extract(chunk: list[Sentence], max_words: int) -> list[list[tuple[int, ...]]]:
    links = [link for sentence in chunk for link in sentence.links]
    phrases, lengths = extract_phrases(
        np.array([s for s, _ in links], dtype=np.uint16),
        np.array([t for _, t in links], dtype=np.uint16),
        offsets([sentence.links for sentence in chunk]),
        side([sentence.source for sentence in chunk]),
        side([sentence.target for sentence in chunk]),
        max_words,
    )
    assert phrases.dtype == PHRASE
    assert lengths.sum() == len(phrases)
    rows = [tuple(map(int, phrase))[:5] for phrase in phrases.tolist()]
    ends = np.cumsum(lengths)
    return [rows[end - length : end] for end, length in zip(ends, lengths, strict=True)]


@settings(max_examples=400, deadline=None)
@given(st.lists(sentences(), min_size=1, max_size=4), st.integers(1, 4))
def test_equals_brute_force(chunk: list[Sentence], max_words: int) -> None:
    for found, sentence in zip(extract(chunk, max_words), chunk, strict=True):
        assert len(found) == len(set(found))
        assert set(found) == brute_force(sentence, max_words)


def plain(count: int) -> list[Word]:
    return [Word(k, k + 1, "content") for k in range(count)]


def test_worked_example() -> None:
    # 0 1 2 / 0 1 2 with the last two words swapped: the pair 1–2 is a phrase, 0–1 is not (2 lies between).
    found = extract([Sentence(plain(3), plain(3), [(0, 0), (1, 2), (2, 1)])], 3)
    assert found == [[(0, 0, 1, 1, 1), (0, 0, 3, 3, 3), (1, 2, 1, 1, 1), (1, 1, 2, 2, 2), (2, 1, 1, 1, 1)]]


def test_unlinked_target_word_inside_is_kept() -> None:
    found = extract([Sentence(plain(2), plain(3), [(0, 0), (1, 2)])], 2)
    assert (0, 0, 2, 3, 2) in found[0]


@pytest.mark.parametrize(("source_words", "most_target_words"), [(1, 1), (2, 3), (3, 5)])
def test_length_rule(source_words: int, most_target_words: int) -> None:
    for target_words in range(source_words, 8):
        links = [(min(k, source_words - 1), k) for k in range(target_words)]
        found = extract([Sentence(plain(source_words), plain(target_words), links)], 3)
        whole = (0, 0, source_words, target_words, source_words)
        assert (whole in found[0]) == (target_words <= most_target_words)


def test_no_sentences_and_no_links() -> None:
    assert extract([], 3) == []
    assert extract([Sentence(plain(2), plain(2), []), Sentence([], plain(1), [])], 3) == [[], []]


@pytest.mark.parametrize("link", [(2, 0), (0, 2)])
def test_link_to_a_missing_word_names_the_sentence(link: tuple[int, int]) -> None:
    good = Sentence(plain(2), plain(2), [(0, 0)])
    with pytest.raises(DataError, match=r"sentence 2 .*align it again"):
        extract([good, Sentence(plain(2), plain(2), [link])], 3)


def test_sentence_counts_must_agree() -> None:
    one = side([plain(1)])
    with pytest.raises(DataError, match="links of 2 sentences"):
        extract_phrases(np.zeros(0), np.zeros(0), np.zeros(3, dtype=np.int64), one, one, 3)
