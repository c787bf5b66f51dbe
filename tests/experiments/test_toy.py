"""The toy corpus: seeded, ambiguous, with links that are right."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from termweave.config import load_config
from termweave.constraints.evaluation_sets import read_constraint_set
from termweave.errors import ConfigError
from termweave.evaluation.scores import evaluate
from termweave.experiments import toy_lexicon as lexicon
from termweave.experiments.toy import TokenPair, generate, write_toy_corpus


@pytest.fixture(scope="module")
def pairs() -> list[TokenPair]:
    return generate(2000, seed=3)


def test_links_join_words_and_their_translations(pairs: list[TokenPair]) -> None:
    tables = (lexicon.PEOPLE, lexicon.THINGS)
    nouns = {german.split()[-1]: english for table in tables for german, english in table}
    names = set(lexicon.NAMES)
    for pair in pairs:
        linked: dict[int, list[str]] = defaultdict(list)
        for source, target in pair.links:
            linked[source].append(pair.target[target])
        for position, word in enumerate(pair.source):
            if word in nouns:
                assert " ".join(linked[position]) in nouns[word]
            elif word in names or word == ".":
                assert linked[position] == [word]
            elif word in {"hat", ","}:
                assert linked[position] == []
            else:
                assert linked[position]  # nothing else is left unlinked


def test_word_order_differs(pairs: list[TokenPair]) -> None:
    crossing = sum(list(pair.links) != sorted(pair.links, key=lambda link: link[::-1]) for pair in pairs)
    assert crossing > len(pairs) / 2


def test_size_of_sentences_and_vocabulary(pairs: list[TokenPair]) -> None:
    words = [[token for token in pair.source if token not in {".", ","}] for pair in pairs]
    assert all(4 <= len(row) <= 12 for row in words)
    assert len({word.lower() for row in words for word in row if not word.isdigit()}) <= 300
    assert len({pair.source for pair in pairs}) == len(pairs)


def test_translations_are_ambiguous(pairs: list[TokenPair]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        for source, target in pair.links:
            counts[pair.source[source]][pair.target[target]] += 1
    expected = {"Haus": {"house", "building", "home"}, "gekauft": {"bought", "purchased", "acquired"}}
    for word, translations in expected.items():
        assert set(counts[word]) == translations
        assert 0.3 < max(counts[word].values()) / counts[word].total() < 0.7


def test_articles_agree(pairs: list[TokenPair]) -> None:
    for pair in pairs:
        for article, following in zip(pair.target, pair.target[1:], strict=False):
            if article in {"a", "an", "A", "An"}:
                assert (article.lower() == "an") == (following[0] in "aeiou")
    text = {" ".join(pair.source) for pair in pairs}
    assert any(" einen alten " in line for line in text)
    assert not any(" ein alte " in line or " den alte " in line for line in text)


def test_files(tmp_path: Path) -> None:
    corpus = write_toy_corpus(tmp_path / "toy", sentences=200, seed=4)
    train = [path.read_text(encoding="utf-8").splitlines() for path in corpus.train]
    test = [path.read_text(encoding="utf-8").splitlines() for path in corpus.test]
    assert len(train[0]) == len(train[1]) == 200
    assert not set(train[0]) & set(test[0])
    tokens = [path.read_text(encoding="utf-8").splitlines() for path in corpus.test_tokens]
    links = corpus.test_links.read_text(encoding="utf-8").splitlines()
    assert len(tokens[0]) == len(tokens[1]) == len(links) == len(test[0])
    for source, target, row in zip(*tokens, links, strict=True):
        for link in row.split():
            first, second = map(int, link.split("-"))
            assert first < len(source.split())
            assert second < len(target.split())
    sentences = read_constraint_set(corpus.test_set)
    assert [sentence.source for sentence in sentences] == test[0]
    reference = evaluate(test[1], sentences, "en")
    assert reference.success.phrase_level == 100
    assert reference.success.total > len(sentences)
    config = load_config(corpus.config)
    assert Path(config.corpora[0].source) == corpus.train[0]
    assert Path(config.validation.file) == corpus.validation_set


def test_same_seed_same_files(tmp_path: Path) -> None:
    contents = []
    for folder, seed in (("one", 4), ("two", 4), ("three", 5)):
        corpus = write_toy_corpus(tmp_path / folder, sentences=100, seed=seed)
        contents.append([path.read_bytes() for path in (*corpus.train, corpus.test_links, corpus.validation_set)])
    assert contents[0] == contents[1]
    assert all(one != three for one, three in zip(contents[0], contents[2], strict=True))


def test_too_small(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="100 or more"):
        write_toy_corpus(tmp_path, sentences=5, seed=1)
