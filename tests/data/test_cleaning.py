"""What is left out of the training text, and why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.data.cleaning import (
    CleaningRules,
    RawPair,
    SeenHashes,
    clean_chunk,
    drop_duplicates,
    overlap_key,
    overlap_keys,
)

RULES = CleaningRules("de", "en", max_characters=60, max_ratio=3.0)


def test_every_reason_is_counted() -> None:
    rules = CleaningRules("de", "en", 60, 3.0, overlap_keys(["Der Test ist geheim .", "A secret one !"]))
    pairs = [
        RawPair("Ein  Haus\u00a0steht hier.", "A house stands here."),
        RawPair("", "nothing"),
        RawPair("nichts", " \u200b "),
        RawPair("lang " * 20, "long " * 20),
        RawPair("Ja.", "This answer is far longer than it should be."),
        RawPair("der test ist GEHEIM.", "Something else."),
        RawPair("Etwas anderes.", "„A secret one”"),
        RawPair("Ein Haus steht hier.", "A house stands here."),
    ]
    (chunk,) = drop_duplicates([clean_chunk(rules, pairs)])
    assert [(pair.source, pair.target) for pair in chunk.pairs] == [("Ein Haus steht hier.", "A house stands here.")]
    assert chunk.rejected == {"empty": 2, "too_long": 1, "ratio": 1, "test_set": 2, "duplicate": 1}


def test_short_answers_may_differ_more() -> None:
    chunk = clean_chunk(RULES, [RawPair("Ja.", "Yes, it is."), RawPair("OK", "In Ordnung")])
    assert len(chunk.pairs) == 2


def test_chinese_characters_weigh_as_much_as_three_letters() -> None:
    rules = CleaningRules("zh", "en", 200, 3.0)
    pairs = [RawPair("机器翻译需要很多数据", "Machine translation needs a great deal of data")]
    assert len(clean_chunk(rules, pairs).pairs) == 1


@pytest.mark.parametrize(
    ("tokenised", "natural"),
    [
        ('" Yes , " he said .', "“Yes,” he said."),
        ("the dog 's bowl is n't full", "The dog's bowl isn't full."),
        ("die straße", "DIE STRASSE"),
        ("我们 在 这里 。", "我们在这里。"),
    ],
)
def test_overlap_ignores_tokenisation_case_and_punctuation(tokenised: str, natural: str) -> None:
    assert overlap_key(tokenised) == overlap_key(natural)


def test_text_without_letters_overlaps_with_nothing() -> None:
    assert overlap_keys(["...", "", "—"]) == frozenset()
    rules = CleaningRules("de", "en", 60, 3.0, overlap_keys(["...", "a"]))
    assert len(clean_chunk(rules, [RawPair("???", "!!!")]).pairs) == 1


def test_tokenised_pairs_are_joined_with_their_spans() -> None:
    chunk = clean_chunk(RULES, [RawPair("Ja , gut !", "Yes , \u200b good !", ((0, 0), (2, 3)))])
    (pair,) = chunk.pairs
    assert pair.source == "Ja, gut!"
    assert [pair.source[start:end] for start, end in pair.source_spans] == ["Ja", ",", "gut", "!"]
    assert len(pair.target_spans) == 5, "an invisible token keeps its number"
    assert pair.links == ((0, 0), (2, 3))


@given(st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=12))
def test_seen_hashes_agree_with_a_set(chunks: list[list[int]]) -> None:
    seen, reference = SeenHashes(), set[int]()
    for chunk in chunks:
        expected = []
        for value in chunk:
            expected.append(value not in reference)
            reference.add(value)
        assert seen.add(np.array(chunk, dtype=np.uint64)).tolist() == expected
        assert len(seen) == len(reference)
