"""Batches side by side: the same results in the same order, and torch's threads as they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from termweave.decoding.crew import FEWEST_TOKENS, MOST, by_crew, crew_size, share_of


@pytest.fixture
def two_threads() -> Iterator[None]:
    own = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(own)


@pytest.mark.parametrize(
    "batch_tokens, tokens, crew, expected",
    [
        (4096, 100_000, 1, 4096),
        (4096, 100_000, 2, 2048),
        (4096, 3000, 2, 1500),
        (4096, 3001, 2, 1501),
        (4096, 100, 2, FEWEST_TOKENS),  # one batch: too little to share
        (100, 100_000, 2, 100),  # never more than was asked for
    ],
)
def test_all_have_work_and_together_no_more_than_may_be(batch_tokens, tokens, crew, expected):
    assert share_of(batch_tokens, tokens, crew) == expected


def test_results_come_in_the_order_of_the_items_from_several_threads(two_threads):
    both = threading.Barrier(2)  # broken, unless two threads are at work at once

    def work(item: int) -> tuple[int, int, str]:
        both.wait(timeout=30)
        return item, torch.get_num_threads(), threading.current_thread().name

    found = list(by_crew(work, range(4), 2))
    assert [item for item, _, _ in found] == [0, 1, 2, 3]
    assert {threads for _, threads, _ in found} == {1} and len({name for *_, name in found}) == 2
    assert torch.get_num_threads() == 2
    fresh: list[int] = []
    other = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert fresh == [2]  # what threads begin with is as it was, too


def test_a_single_item_stays_where_it_is(two_threads):
    assert list(by_crew(lambda _: threading.current_thread(), [0], 2)) == [threading.current_thread()]


def test_an_error_comes_through_and_the_rest_is_left(two_threads):
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 0:
            raise ValueError("no")
        time.sleep(0.01)
        return item

    with pytest.raises(ValueError, match="no"):
        list(by_crew(work, range(1000), 2))
    assert len(begun) < 1000


def test_a_gpu_gets_one_batch_after_the_other(two_threads):
    assert crew_size(torch.device("cpu")) == 2 <= MOST
    assert crew_size(torch.device("cuda")) == 1
