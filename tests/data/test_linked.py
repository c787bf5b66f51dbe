"""Links of words become links of tokens, against pairs enumerated one by one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_corpus import toy_config, write_corpus

from termweave.alignment.links import LINK
from termweave.data.corpus import PreparedCorpus
from termweave.data.folder import STRADDLED, WORD_SPAN
from termweave.data.linked import DirectionLinks, LinkedStream, open_links, token_links
from termweave.data.prepare import prepare
from termweave.data.stream import plan_epoch
from termweave.errors import DataError
from termweave.storage import RaggedArray, read_json, write_json

# The words of a sentence: how many tokens each has, 0 where a token belongs to two words.
WORDS = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@st.composite
def sentences(draw: st.DrawFn):
    source, target = draw(WORDS), draw(WORDS)
    pairs = st.tuples(st.integers(0, len(source) - 1), st.integers(0, len(target) - 1))
    return source, target, sorted(draw(st.sets(pairs, max_size=6)))


def spans(words: list[int]) -> list[tuple[int, int, int]]:
    """WORD_SPANs, and a token between words that are not told apart."""
    rows, place = [], 0
    for tokens in words:
        rows.append((place, place + tokens, 0) if tokens else (STRADDLED, STRADDLED, 0))
        place += max(tokens, 1)
    return rows


@given(
    st.lists(sentences(), min_size=1, max_size=4), st.booleans(), st.integers(0, 1), st.randoms(use_true_random=False)
)
def test_every_token_of_linked_words_is_linked(corpus, backwards, lead, random):
    rows = [random.randrange(len(corpus)) for _ in range(3)]
    stored = [[(b, a) if backwards else (a, b) for a, b in links] for _, _, links in corpus]
    direction = DirectionLinks(
        RaggedArray.from_rows(stored, LINK),
        RaggedArray.from_rows([spans(source) for source, _, _ in corpus], WORD_SPAN),
        RaggedArray.from_rows([spans(target) for _, target, _ in corpus], WORD_SPAN),
        backwards,
    )
    found, linked = token_links(direction, np.array(rows), lead, (16, 20))
    expected: dict[int, float] = {}
    targets = set()
    for index, row in enumerate(rows):
        source, target, links = corpus[row]
        tokens = [
            (j, i)
            for a, b in links
            if source[a] and target[b]
            for i in range(*spans(source)[a][:2])
            for j in range(*spans(target)[b][:2])
        ]
        for j, i in tokens:
            share = Fraction(1, sum(other == j for other, _ in tokens))
            expected[(index * 16 + j) * 20 + lead + i] = float(share)
            targets.add((index, j))
    got = {place: share for place, share in zip(found.places.tolist(), found.shares.tolist(), strict=True) if share}
    assert got == pytest.approx(expected)
    assert linked == len(targets)
    assert len(found.places) % 64 == 0  # few shapes, and never none


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    folder = tmp_path_factory.mktemp("linked")
    write_corpus(folder, 300)
    tables = {"folder": str(folder / "prepared"), "directions": ["de-en", "en-de"], "workers": 1}
    prepare(toy_config(folder, data=tables))
    return PreparedCorpus.open(folder / "prepared")


def test_batches_of_a_prepared_corpus_hold_what_it_knows(corpus):
    """Words translate one by one here, so most links join a word with its translation, in both directions."""
    stream = LinkedStream(corpus.directions, open_links(corpus), corpus.subwords, batch_tokens=600, seed=1)
    pairs = {"de-en": set(), "en-de": set()}
    for planned in plan_epoch(corpus.directions, 600, 1, 0)[:20]:
        batch = stream.build(planned, 0)
        assert batch.links is not None
        width, source_width = batch.target.shape[1], batch.source.shape[1]
        weights: dict[tuple[int, int], float] = {}
        for place, share in zip(batch.links.places.tolist(), batch.links.shares.tolist(), strict=True):
            if not share:
                continue
            row, target, source = place // source_width // width, place // source_width % width, place % source_width
            weights[row, target] = weights.get((row, target), 0.0) + share
            ids = batch.target[row, target].item(), batch.source[row, source].item()
            names = corpus.subwords.pieces(ids)
            pairs[corpus.directions[planned.direction].name].add((names[1], names[0]))
        assert weights and all(total == pytest.approx(1) for total in weights.values())
        assert batch.weight == len(weights)
        moved = batch.map(lambda tensor: tensor.clone())
        assert moved.links is not None and moved.links.places.tolist() == batch.links.places.tolist()
    assert ("▁das", "▁the") in pairs["de-en"] and ("▁the", "▁das") in pairs["en-de"]
    assert ("▁the", "▁das") not in pairs["de-en"]


def test_links_that_are_not_there_yet(corpus):
    record = read_json(corpus.folder / "prepare.json")
    write_json(corpus.folder / "prepare.json", {**record, "steps": {"encode": record["steps"]["encode"]}})
    try:
        with pytest.raises(DataError, match="has no word links yet; run `termweave prepare` to its end first"):
            open_links(corpus)
    finally:
        write_json(corpus.folder / "prepare.json", record)
