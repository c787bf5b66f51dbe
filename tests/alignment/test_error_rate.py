"""Alignment error rate, worked out by hand."""

import pytest

from termweave.alignment import LINK, GoldLinks, alignment_error_rate
from termweave.errors import DataError
from termweave.storage import RaggedArray


def gold(sure: set[tuple[int, int]], possible: set[tuple[int, int]] = frozenset()) -> GoldLinks:
    return GoldLinks(frozenset(sure), frozenset(sure | set(possible)))


def test_sure_and_possible() -> None:
    # A = {00, 11, 12, 30}, S = {00, 11, 22}, P = S + {12}: |A∩S| = 2, |A∩P| = 3.
    result = alignment_error_rate([gold({(0, 0), (1, 1), (2, 2)}, {(1, 2)})], [[(0, 0), (1, 1), (1, 2), (3, 0)]])
    assert result.error_rate == pytest.approx(1 - 5 / 7)
    assert result.precision == pytest.approx(3 / 4)
    assert result.recall == pytest.approx(2 / 3)
    assert (result.links, result.sure, result.sentences) == (4, 3, 1)


def test_counts_are_summed_over_sentences() -> None:
    links = RaggedArray.from_rows([[(0, 0)], [], [(1, 1), (0, 1)]], LINK)
    result = alignment_error_rate([gold({(0, 0)}), gold({(0, 0)}), gold({(1, 1)})], links)
    assert result.error_rate == pytest.approx(1 - 4 / 6)
    assert result.precision == pytest.approx(2 / 3)
    assert result.recall == pytest.approx(2 / 3)


def test_perfect_empty_and_repeated() -> None:
    assert alignment_error_rate([gold({(0, 0)})], [[(0, 0), (0, 0)]]).error_rate == 0
    assert alignment_error_rate([gold(set())], [[]]).error_rate == 0
    assert alignment_error_rate([gold({(0, 0)})], [[]]).error_rate == 1


def test_text_form() -> None:
    result = alignment_error_rate([gold({(0, 0), (1, 1)})], [[(0, 0)]])
    assert str(result) == "AER 33.3, precision 100.0, recall 50.0 (1 links, 2 sure, 1 sentences)"


def test_different_numbers_of_sentences() -> None:
    with pytest.raises(DataError, match="1 sentences have gold links, 2 have predicted ones"):
        alignment_error_rate([gold(set())], [[], []])
