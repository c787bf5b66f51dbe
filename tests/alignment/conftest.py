"""A made-up language pair: a dictionary, reordered translation, function words with no counterpart."""

from collections.abc import Callable

import numpy as np
import pytest

Pairs = list[tuple[list[int], list[int], set[tuple[int, int]]]]


@pytest.fixture
def invent_text() -> Callable[..., Pairs]:
    """Makes (source words, target words, true links). Target word k translates source word k, for k from 5.

    Words below 5 are function words of either side without a counterpart; neighbouring words sometimes swap.
    """

    def invent(sentences: int, words: int = 200, seed: int = 0) -> Pairs:
        random = np.random.default_rng(seed)
        frequencies = 1 / np.arange(3, words + 3)
        frequencies /= frequencies.sum()
        pairs: Pairs = []
        for _ in range(sentences):
            length = int(random.integers(3, 14))
            content = (5 + random.choice(words, size=length, p=frequencies, replace=False)).tolist()
            order = list(range(length))
            for k in range(length - 1):
                if random.random() < 0.15:
                    order[k], order[k + 1] = order[k + 1], order[k]
            source, source_places = _with_function_words(content, random)
            target, target_places = _with_function_words([content[k] for k in order], random)
            links = {(source_places[k], target_places[place]) for place, k in enumerate(order)}
            pairs.append((source, target, links))
        return pairs

    return invent


def _with_function_words(content: list[int], random: np.random.Generator) -> tuple[list[int], list[int]]:
    words, places = [], []
    for word in content:
        if random.random() < 0.2:
            words.append(int(random.integers(5)))
        places.append(len(words))
        words.append(word)
    return words, places
