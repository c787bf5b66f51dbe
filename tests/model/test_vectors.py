"""Constraint vectors: each constraint for itself, whatever the others are and wherever it stands."""

from __future__ import annotations

import pytest
import torch

from termweave.data.batches import constraints_from_ids
from termweave.model.products import frozen_linear
from termweave.model.vectors import FlatKeysValues

FIRST = ([5, 6, 7], [8, 9])
SECOND = ([10], [11, 12, 13])
THIRD = ([14, 15], [16])


def values_of(model, constraints, sentence, number):
    """V_c of one constraint of one sentence."""
    tensors = constraints_from_ids(constraints, 0)
    vectors = model.vectorise(tensors)
    padded = tensors.source.pad(vectors.values)
    return padded[sentence][tensors.source.number[sentence] == number]


def test_editing_one_constraint_leaves_the_vectors_of_another_unchanged(make_model):
    model = make_model()
    before = values_of(model, [[FIRST, SECOND]], 0, 1)
    after = values_of(model, [[FIRST, ([20, 21, 22], [23, 24, 25, 26])]], 0, 1)
    torch.testing.assert_close(before, after, rtol=0, atol=1e-6)
    assert before.shape == (3, 16)


def test_vectors_depend_on_the_constraint_itself(make_model):
    model = make_model()
    before = values_of(model, [[FIRST]], 0, 1)
    after = values_of(model, [[(FIRST[0], [8, 10])]], 0, 1)
    assert (before - after).abs().max() > 1e-3


def test_vectors_do_not_depend_on_place_or_company(make_model):
    model = make_model()
    alone = values_of(model, [[SECOND]], 0, 1)
    torch.testing.assert_close(alone, values_of(model, [[THIRD], [FIRST, THIRD, SECOND]], 1, 3), rtol=0, atol=1e-6)


def test_positions_restart_in_every_constraint():
    tensors = constraints_from_ids([[FIRST, SECOND], [THIRD]], 0)
    real = tensors.source.home < tensors.source.number.numel()
    assert tensors.source.positions[real].tolist() == [0, 1, 2, 0, 0, 1]
    assert tensors.target.positions[: len("89abc6")].tolist() == [0, 1, 0, 1, 2, 0]


def test_pad_and_pack_are_inverse():
    side = constraints_from_ids([[FIRST, SECOND], [], [THIRD]], 0).source
    flat = torch.randn(len(side.ids), 4)
    real = side.home < side.number.numel()
    torch.testing.assert_close(side.pack(side.pad(flat))[real], flat[real])
    assert (side.pad(flat)[side.number == 0] == 0).all()


@pytest.mark.parametrize("variant", ["paper", "released", "copy"])
def test_permuting_constraints_leaves_the_distribution_unchanged(make_model, make_batch, variant):
    model = make_model(variant=variant)
    source, target = [[5, 6, 7, 10, 14, 15]], [[8, 9, 20, 11]]
    results = []
    for order in ([FIRST, SECOND, THIRD], [THIRD, FIRST, SECOND], [SECOND, THIRD, FIRST]):
        batch = make_batch(source, target, [order])
        encoded = model.encode(batch.source, batch.constraints)
        results.append(model.log_probabilities(model.decode(batch.target_input, encoded), encoded.output))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=2e-5)
    torch.testing.assert_close(results[0], results[2], rtol=0, atol=2e-5)


def test_spread_is_pad_where_there_is_something():
    side = constraints_from_ids([[FIRST, SECOND], [], [THIRD]], 0).source
    flat = torch.randn(3, len(side.ids), 4)
    filled = side.number > 0
    assert torch.equal(side.spread(flat)[:, filled], side.pad(flat)[:, filled])


def test_products_are_done_once_for_tokens_that_come_again():
    side = constraints_from_ids([[FIRST, SECOND], [([5, 7, 7], [8])], [FIRST]], 0).source
    flat, weight = torch.randn(len(side.ids), 4), torch.randn(4, 2)
    rows: list[int] = []

    def product(given: torch.Tensor) -> torch.Tensor:
        rows.append(len(given))
        return given @ weight

    for token in range(len(side.ids)):  # embedded alike where they are alike
        same = (side.ids == side.ids[token]) & (side.positions == side.positions[token])
        flat[token] = flat[same.nonzero()[0, 0]]
    torch.testing.assert_close(side.once(product, flat), flat @ weight)
    # 5, 6 and 7 at their places, 10, 7 at the second place, and the filler
    assert rows == [6]


def test_inference_gives_the_vectors_of_training(make_model):
    model = make_model()
    tensors = constraints_from_ids([[FIRST, SECOND], [], [THIRD]], 0)
    real = tensors.source.home < tensors.source.number.numel()
    expected = model.vectorise(tensors).values[real]
    with torch.no_grad():
        torch.testing.assert_close(model.vectorise(tensors).values[real], expected)


@pytest.mark.parametrize("together", [False, True])
@torch.no_grad()
def test_folded_adapters_give_the_same_keys_and_values(make_model, together):
    model = make_model()
    tensors = constraints_from_ids([[FIRST, SECOND], [], [THIRD]], 0)
    source, target = model._embed_constraints(tensors)
    projection = model._projection()
    memory = model.constraint_memory
    expected = memory(source, target, tensors, projection)
    memory.fold(projection, None if together else frozen_linear)
    assert not memory.wants_projection
    filled = tensors.source.number > 0
    for own, other in zip(memory(source, target, tensors, None), expected, strict=True):
        spread = own.spread() if isinstance(own, FlatKeysValues) else own
        for one, two in zip(spread, other, strict=True):
            torch.testing.assert_close(one.transpose(1, 2)[filled], two.transpose(1, 2)[filled])
