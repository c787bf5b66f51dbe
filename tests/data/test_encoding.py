"""Ids, word ids, and where words lie in the ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.data.encoding import EncodingRules, TextPair, encode_chunk, locate_words
from termweave.data.folder import CONTENT, PUNCTUATION, STRADDLED
from termweave.text.subwords import Subwords
from termweave.text.words import normalise, split_words

TEXT = ["the old miller sells flour", "der alte müller verkauft mehl", "我们在村里买面粉 我们在村里卖面粉"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("subwords") / "tokenizer.model"
    Subwords.train(TEXT * 30, path, size=380, languages=["de", "en"])
    return path


def locate(subwords: Subwords, texts: list[str], language: str) -> list[list[tuple[int, int]]]:
    rows = subwords.encode_batch(texts)
    spans = [split_words(text, language) for text in texts]
    flat = np.array([span for row in spans for span in row], dtype=np.int64).reshape(-1, 2)
    first, last = locate_words(
        subwords,
        texts,
        np.array([index for row in rows for index in row], dtype=np.uint16),
        np.array([len(row) for row in rows]),
        flat,
        np.array([len(row) for row in spans]),
    )
    pairs = list(zip(first.tolist(), last.tolist(), strict=True))
    return [[pairs.pop(0) for _ in row] for row in spans]


SENTENCE = st.one_of(st.text(max_size=30), st.text(alphabet="the old müler我们在村里 ,👩", max_size=30)).map(normalise)


@given(texts=st.lists(SENTENCE.filter(bool), min_size=1, max_size=4), language=st.sampled_from(["de", "zh"]))
def test_tokens_of_a_word_spell_the_word(tokenizer: Path, texts: list[str], language: str) -> None:
    subwords = Subwords.load(tokenizer)
    for text, places in zip(texts, locate(subwords, texts, language), strict=True):
        ids = subwords.encode(text)
        edges = {0} | {end for _, end in subwords.spans(text, ids)} | {start for start, _ in subwords.spans(text, ids)}
        for (start, end), (first, last) in zip(split_words(text, language), places, strict=True):
            if STRADDLED not in (first, last):
                assert subwords.decode(ids[first:last]) == text[start:end]
            if first == STRADDLED:
                assert start not in edges
            if last == STRADDLED:
                assert end not in edges


def test_a_piece_across_two_chinese_words_straddles(tokenizer: Path) -> None:
    subwords = Subwords.load(tokenizer)
    text = "我们在村里"
    assert len(subwords.encode(text)) < len(split_words(text, "zh")), "the vocabulary has learned the phrase whole"
    assert any(STRADDLED in place for place in locate(subwords, [text], "zh")[0])


def test_encode_chunk(tokenizer: Path) -> None:
    rules = EncodingRules(tokenizer, ("de", "en"), max_tokens=30)
    pairs = [
        TextPair("Der Müller, der Müller", "the miller"),
        TextPair("zu lang " * 10, "too long"),
        TextPair("alte 12", "the the old", [(0, 4), (5, 7)], [(0, 7), (8, 11)]),
    ]
    chunk = encode_chunk(rules, pairs)
    subwords = Subwords.load(tokenizer)
    source, target = chunk.sides
    assert chunk.kept.tolist() == [True, False, True]
    assert source.id_lengths.tolist() == [len(subwords.encode(pairs[row].source)) for row in (0, 2)]
    assert subwords.decode(source.ids[: source.id_lengths[0]]) == pairs[0].source
    assert source.vocabulary == ["der", "müller", ",", "alte", "12"]
    assert source.words.tolist() == [0, 1, 2, 0, 1, 3, 4]
    assert source.word_lengths.tolist() == [5, 2]
    assert source.spans["flags"].tolist() == [0, CONTENT, PUNCTUATION, 0, CONTENT, CONTENT, 0]
    assert target.vocabulary == ["the", "miller", "the the", "old"], "given tokens are the words"


@given(
    texts=st.lists(SENTENCE.filter(bool), min_size=1, max_size=6),
    language=st.sampled_from(["de", "zh", "fr"]),
    max_tokens=st.sampled_from([12, 1000]),
)
def test_parts_put_together_equal_the_literal_way(
    tokenizer: Path, texts: list[str], language: str, max_tokens: int
) -> None:
    """With spans given, every word is looked at; without, every distinct part between spaces only once."""
    rules = EncodingRules(tokenizer, (language, language), max_tokens)
    spans = [split_words(text, language) for text in texts]
    fast = encode_chunk(rules, [TextPair(text, text) for text in texts])
    literal = encode_chunk(rules, [TextPair(text, text, row, row) for text, row in zip(texts, spans, strict=True)])
    assert fast.kept.tolist() == literal.kept.tolist()
    for name in ("ids", "id_lengths", "words", "word_lengths", "vocabulary", "spans"):
        assert list(getattr(fast.sides[0], name)) == list(getattr(literal.sides[0], name)), name


def test_a_chunk_of_which_nothing_is_kept(tokenizer: Path) -> None:
    chunk = encode_chunk(EncodingRules(tokenizer, ("de", "en"), 2), [TextPair(TEXT[1], TEXT[0])])
    assert not chunk.kept.any()
    assert all(len(side.ids) == len(side.words) == len(side.spans) == 0 for side in chunk.sides)
