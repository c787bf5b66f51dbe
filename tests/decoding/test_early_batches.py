"""Batches are made when they are needed, or a little earlier."""

from __future__ import annotations

from termweave.decoding.batching import Early


def test_items_come_in_order_whenever_they_are_made():
    made: list[int] = []

    def item(number: int) -> int:
        made.append(number)
        return number

    items = Early(item(number) for number in range(3))
    assert made == []  # nothing before its time
    assert next(items) == 0
    items.make()
    items.make()  # once is enough
    assert made == [0, 1]
    assert list(items) == [1, 2]
    items.make()
    assert list(items) == []
