"""Functions for compiled loops on a CPU, written so that they become vector instructions.

The library's exp takes numbers one by one: in attention, it took as long as all of the rest.
"""

from __future__ import annotations

from math import log2

import numba
import numpy as np

from termweave.storage import Array

LOG2_E = np.float32(log2(np.e))
LOWEST = np.float32(-126)  # of exponents; what is smaller is as good as nothing
FLOAT_BIAS, FLOAT_SHIFT = 127, 23  # of the exponent's bits in a number
# 2 ** x between 0 and 1, highest power first: the polynomial whose largest relative error is the smallest, 1e-7.
POWER = tuple(map(np.float32, (1.8775767e-3, 8.9893401e-3, 5.5826318e-2, 2.4015362e-1, 6.9315307e-1, 9.9999993e-1)))


@numba.njit(nogil=True, cache=True, fastmath=True)
def exponentiate(values: Array, bits: Array, count: int) -> None:
    """exp of the first `count` values, none above 0, in place. bits: integers of 32 bits, room to work in."""
    for index in range(count):
        exponent = max(values[index] * LOG2_E, LOWEST)
        whole = np.floor(exponent)
        part = exponent - whole
        power = POWER[0]
        for coefficient in POWER[1:]:
            power = power * part + coefficient
        values[index] = power
        bits[index] = (np.int32(whole) + FLOAT_BIAS) << FLOAT_SHIFT
    powers = bits.view(np.float32)
    for index in range(count):
        values[index] *= powers[index]


@numba.njit(nogil=True, cache=True, fastmath=True)
def dot(left: Array, right: Array, count: int) -> np.float32:
    total = np.float32(0)
    for at in range(count):
        total += left[at] * right[at]
    return total
