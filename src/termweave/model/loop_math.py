"""Functions for compiled loops on a CPU, written so that they become vector instructions.

The library's exp takes numbers one by one: in attention, it took as long as all of the rest.
"""

from __future__ import annotations

from math import log2
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from termweave.storage import Array

LOG2_E = np.float32(log2(np.e))
LOWEST = np.float32(-126)  # of exponents; what is smaller is as good as nothing
FLOAT_BIAS, FLOAT_SHIFT = np.int32(127), np.int32(23)  # of the exponent's bits in a number
# 2 ** x between 0 and 1, highest power first: the polynomial whose largest relative error is the smallest, 1e-7.
POWER = tuple(map(np.float32, (1.8775767e-3, 8.9893401e-3, 5.5826318e-2, 2.4015362e-1, 6.9315307e-1, 9.9999993e-1)))


def _bits_as_float(typing: Any, bits: Any) -> Any:
    """The number that 32 bits stand for. A loop that has to look at memory for that takes three times as long."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return numba.float32(numba.int32), generate


def _maximum(typing: Any, left: Any, right: Any) -> Any:
    """The larger of two numbers. Of the built-in `max` no vector instructions come where it is that of a whole row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        single = arguments[0].type
        own = builder.module.declare_intrinsic("llvm.maxnum", [single], ir.FunctionType(single, [single, single]))
        return builder.call(own, arguments, fastmath=("fast",))

    return numba.float32(numba.float32, numba.float32), generate


as_float: Any = intrinsic(_bits_as_float)
maximum: Any = intrinsic(_maximum)


@numba.njit(nogil=True, cache=True, fastmath=True)
def exponential(value: np.float32) -> np.float32:
    """exp of a number that is not above 0."""
    exponent = max(value * LOG2_E, LOWEST)
    whole = np.floor(exponent)
    part = exponent - whole
    power = POWER[0]
    for coefficient in POWER[1:]:
        power = power * part + coefficient
    result: np.float32 = power * as_float((np.int32(whole) + FLOAT_BIAS) << FLOAT_SHIFT)
    return result


@numba.njit(nogil=True, cache=True, fastmath=True)
def exponentiate(values: Array, count: int) -> None:
    """`exponential` of the first `count` values, in place."""
    for index in range(count):
        values[index] = exponential(values[index])


@numba.njit(nogil=True, cache=True, fastmath=True)
def dot(left: Array, right: Array, count: int) -> np.float32:
    total = np.float32(0)
    for at in range(count):
        total += left[at] * right[at]
    return total


@numba.njit(nogil=True, cache=True, fastmath=True)
def largest_of(values: Array, count: int) -> np.float32:
    """Of the first `count` values."""
    largest: np.float32 = values[0]
    for at in range(1, count):
        largest = maximum(largest, values[at])
    return largest
