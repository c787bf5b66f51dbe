"""Vectorised functions against those of the library."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch

from termweave.model.loop_math import dot, exponentiate, halves, single, stored


def test_powers():
    values = np.random.default_rng(0).uniform(-80, 0, 5000).astype(np.float32)
    values[:2] = 0.0, -1e30
    expected = np.exp(values.astype(np.float64))
    exponentiate(values, len(values))
    np.testing.assert_allclose(values, expected, rtol=2e-5, atol=1e-37)  # the exponent itself is rounded
    np.testing.assert_allclose(values[expected > 0.01], expected[expected > 0.01], rtol=1e-6)


def test_only_so_many():
    values = np.array([-1, -2, -3], np.float32)
    exponentiate(values, 2)
    np.testing.assert_allclose(values, [np.exp(-1), np.exp(-2), -3], rtol=1e-6)
    assert dot(np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32), 2) == 14


@numba.njit
def copy(numbers, kept, read):
    for at in range(len(numbers)):
        kept[at] = stored(numbers[at], kept[0])
        read[at] = single(kept[at])


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_what_is_kept_in_fewer_bits_is_rounded_as_torch_does(kind):
    numbers = torch.cat([torch.randn(5000), torch.tensor([0.0, -0.0, 1.00390625, 1.01171875, 3e38, 1e-30])])
    kept, read = torch.zeros(len(numbers), dtype=kind), torch.zeros(len(numbers))
    copy(numbers.numpy(), halves(kept), read.numpy())
    assert torch.equal(kept, numbers.to(kind))
    assert torch.equal(read, numbers.to(kind).float())
