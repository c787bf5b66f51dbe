"""Laying out ragged rows and constraints, against loops that do the same one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.data.batches import (
    FLAT_MULTIPLE,
    WIDTH_MULTIPLE,
    constraints_from_ids,
    lay_out_constraints,
    pad_rows,
    round_up,
)

PADDING = 0
PHRASE = st.lists(st.integers(1, 99), min_size=1, max_size=5)
SENTENCES = st.lists(st.lists(PHRASE, max_size=4), min_size=1, max_size=6)
RAGGED = st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=6)

relaxed = settings(deadline=None, max_examples=100)


def numbers(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@relaxed
@given(rows=RAGGED, more=st.integers(0, 3))
def test_pad_rows(rows, more):
    width = max(map(len, rows)) + more
    values = numbers([value for row in rows for value in row])
    padded = pad_rows(values, numbers([len(row) for row in rows]), width, -7)
    assert padded.tolist() == [row + [-7] * (width - len(row)) for row in rows]


def laid_out_twice(sentences: list[list[list[int]]]):
    """The same phrases on both sides."""
    phrases = [phrase for sentence in sentences for phrase in sentence]
    flat = numbers([token for phrase in phrases for token in phrase]), numbers([len(phrase) for phrase in phrases])
    return lay_out_constraints(flat, flat, numbers([len(sentence) for sentence in sentences]), PADDING)


def side(sentences: list[list[list[int]]]):
    return laid_out_twice(sentences).source


@relaxed
@given(SENTENCES)
def test_constraint_side(sentences):
    laid_out = side(sentences)
    flat = [
        (token, position, row, slot, number)
        for row, sentence in enumerate(sentences)
        for slot, (token, position, number) in enumerate(
            (token, position, number)
            for number, phrase in enumerate(sentence, start=1)
            for position, token in enumerate(phrase)
        )
    ]
    batch, width = laid_out.number.shape
    longest = max(sum(map(len, sentence)) for sentence in sentences)
    assert batch == len(sentences)
    assert width == round_up(max(longest, 1), WIDTH_MULTIPLE)
    filler = len(laid_out.ids) - len(flat)
    assert 0 <= filler < FLAT_MULTIPLE or not flat
    assert len(laid_out.ids) % FLAT_MULTIPLE == 0
    assert laid_out.ids.tolist() == [entry[0] for entry in flat] + [0] * filler
    assert laid_out.positions.tolist() == [entry[1] for entry in flat] + [0] * filler
    assert laid_out.home.tolist() == [entry[2] * width + entry[3] for entry in flat] + [batch * width] * filler
    expected = np.zeros((batch, width), dtype=int)
    for _, _, row, slot, number in flat:
        expected[row, slot] = number
    assert laid_out.number.tolist() == expected.tolist()
    tokens = {(row, slot): token for token, (_, _, row, slot, _) in enumerate(flat)}
    assert laid_out.token_of_slot().tolist() == [
        [tokens.get((row, slot), 0) for slot in range(width)] for row in range(batch)
    ]
    assert torch.equal(replace(laid_out, token=None).token_of_slot(), laid_out.token_of_slot())


@relaxed
@given(SENTENCES)
def test_packing_undoes_padding(sentences):
    laid_out = side(sentences)
    tokens = sum(len(phrase) for sentence in sentences for phrase in sentence)
    flat = torch.arange(1.0, len(laid_out.ids) + 1).unsqueeze(1).expand(-1, 3).contiguous()
    padded = laid_out.pad(flat)
    assert torch.equal(laid_out.pack(padded)[:tokens], flat[:tokens])
    # Filler tokens, whose vectors are not zero, have left no trace in empty slots.
    assert torch.equal(padded[..., 0] != 0, laid_out.number > 0)


@relaxed
@given(SENTENCES)
def test_target_tokens_stand_in_their_slots(sentences):
    tokens = laid_out_twice(sentences).target_tokens
    for row, sentence in enumerate(sentences):
        expected = [token for phrase in sentence for token in phrase]
        assert tokens[row].tolist() == expected + [PADDING] * (tokens.shape[1] - len(expected))


def test_constraints_from_ids():
    sentences = [[([5, 6], [8])], [], [([7], [9, 10, 11]), ([5], [12])]]
    tensors = constraints_from_ids(sentences, PADDING)
    assert tensors is not None
    assert tensors.source.number.tolist() == [[1, 1, 0, 0, 0, 0, 0, 0], [0] * 8, [1, 2, 0, 0, 0, 0, 0, 0]]
    assert tensors.target.number.tolist() == [[1, 0, 0, 0, 0, 0, 0, 0], [0] * 8, [1, 1, 1, 2, 0, 0, 0, 0]]
    assert tensors.target_tokens[2].tolist() == [9, 10, 11, 12, 0, 0, 0, 0]
    assert tensors.source.ids[:4].tolist() == [5, 6, 7, 5]
    assert tensors.target.positions[:5].tolist() == [0, 0, 1, 2, 0]
    assert constraints_from_ids([[], []], PADDING) is None


def test_moving_a_batch_moves_all_of_it(make_batch):
    batch = make_batch([[5, 6]], [[7]], [[([5], [7])]]).to(torch.device("meta"))
    assert batch.constraints is not None
    parts = [batch, batch.constraints, batch.constraints.source, batch.constraints.target]
    tensors = [value for part in parts for value in vars(part).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 4 + 1 + 5 + 5
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert batch.tokens == 2


@pytest.mark.parametrize("count", [1, 8, 9, 16])
def test_batches_that_are_to_be_alike(count):
    """Eight tokens or nine, in one sentence or in all: the sizes are the same, and so is what they hold."""
    sentences = [[([1] * count, [2] * count)], [([3], [4])] * 3] * 8
    tensors, plain = (constraints_from_ids(sentences, PADDING, alike) for alike in (True, False))
    for side, own in ((tensors.source, plain.source), (tensors.target, plain.target)):
        used = 8 * (count + 3)
        assert side.number.shape == (16, 16)
        assert len(side.ids) in (64, 128, 192)
        assert torch.equal(side.ids[:used], own.ids[:used])
        assert (side.home[used:] == side.number.numel()).all()
        assert torch.equal(
            side.pad(side.ids[:, None]).flatten(1).sum(dim=1), own.pad(own.ids[:, None]).flatten(1).sum(dim=1)
        )


def test_flat_sizes_are_few_and_not_much_larger_than_what_they_hold():
    sizes = set()
    for total in (1, 64, 65, 500, 513, 640, 641, 736, 768, 769, 800, 1000, 1024, 1025, 2048):
        tensors = constraints_from_ids([[([1] * total, [2])], [([1], [2])]], PADDING, alike=True)
        size = len(tensors.source.ids)
        assert len(tensors.target.ids) == size  # fewer combinations than if each side had its own
        assert total + 1 <= size < max(5 * (total + 1) / 4, total + 1 + FLAT_MULTIPLE)
        sizes.add(size)
    assert sizes == {64, 128, 512, 640, 768, 896, 1024, 1280, 2560}
