"""Functions for compiled loops on a CPU, written so that they become vector instructions.

The library's exp takes numbers one by one: in attention, it took as long as all of the rest.
"""

from __future__ import annotations

from math import log, log2
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.extending import intrinsic
from torch import Tensor

from termweave.storage import Array

LOG2_E = np.float32(log2(np.e))
LOWEST = np.float32(-126)  # of exponents; what is smaller is as good as nothing
HALF_BITS = 0x8FFFE000 - 2**32  # sign, exponent and fraction of half precision, behind a shift by 13
FLOAT_BIAS, FLOAT_SHIFT = np.int32(127), np.int32(23)  # of the exponent's bits in a number
# 2 ** x between 0 and 1, highest power first: the polynomial whose largest relative error is the smallest, 1e-7.
POWER = tuple(map(np.float32, (1.8775767e-3, 8.9893401e-3, 5.5826318e-2, 2.4015362e-1, 6.9315307e-1, 9.9999993e-1)))

# log(1 + x) / x where 1 + x lies between √½ and √2, likewise; the relative error is 3e-8.
LOGARITHM = tuple(
    map(
        np.float32,
        (
            *(8.7211480e-2, -1.4367507e-1, 1.4952941e-1, -1.6562338e-1, 1.9956768e-1),
            *(-2.5002075e-1, 3.3334187e-1, -4.9999988e-1, 9.9999997e-1),
        ),
    )
)
LOG_2 = np.float32(log(2))
ROOT = np.int32(0x3F3504F3)  # the bits of √½


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


def _float_as_bits(typing: Any, number: Any) -> Any:
    """The other way round."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return numba.int32(numba.float32), generate


def _single(typing: Any, number: Any) -> Any:
    """A number of an array in single precision, or the one that 16 bits stand for, see `halves`.

    Those of bfloat16 are the first half of it. Those of half precision, shifted to where single precision has them,
    stand for a number that is too small by a power of two.
    """

    def keep(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    def widen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        wide = builder.sext(arguments[0], ir.IntType(32))
        placed = builder.and_(builder.shl(wide, wide.type(13)), wide.type(HALF_BITS))
        return builder.fmul(builder.bitcast(placed, kind), kind(2.0**112))

    def lengthen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = builder.zext(arguments[0], ir.IntType(32))
        return builder.bitcast(builder.shl(wide, wide.type(16)), context.get_value_type(signature.return_type))

    return numba.float32(number), {numba.int16: widen, numba.uint16: lengthen}.get(number, keep)


def _stored(typing: Any, number: Any, like: Any) -> Any:
    """A number in single precision as an array of such a kind holds it: as it is, or as the 16 bits nearest to it."""

    def keep(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    def shorten(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], ir.IntType(32))
        kind = bits.type
        odd = builder.and_(builder.lshr(bits, kind(16)), kind(1))
        return builder.trunc(builder.lshr(builder.add(builder.add(bits, kind(0x7FFF)), odd), kind(16)), ir.IntType(16))

    return like(number, like), shorten if like == numba.uint16 else keep


as_float: Any = intrinsic(_bits_as_float)
as_bits: Any = intrinsic(_float_as_bits)
maximum: Any = intrinsic(_maximum)
single: Any = intrinsic(_single)
stored: Any = intrinsic(_stored)


def halves(tensor: Tensor) -> Array:
    """A tensor for `single`: bits, with a sign for half precision and without for bfloat16, which loops do not know."""
    if tensor.dtype == torch.bfloat16:
        short: Array = tensor.view(torch.int16).numpy().view(np.uint16)
        return short
    array: Array = tensor.view(torch.int16).numpy() if tensor.dtype == torch.half else tensor.numpy()
    return array


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
def logarithm(value: np.float32) -> np.float32:
    """Of a number that is above 2 ** −126."""
    bits = as_bits(value)
    exponent = np.int32(bits - ROOT) >> FLOAT_SHIFT  # so that what is left lies between √½ and √2
    part = as_float(bits - (exponent << FLOAT_SHIFT)) - np.float32(1)
    series = LOGARITHM[0]
    for coefficient in LOGARITHM[1:]:
        series = series * part + coefficient
    result: np.float32 = np.float32(exponent) * LOG_2 + part * series
    return result


@numba.njit(nogil=True, cache=True, fastmath=True)
def exponentiate(values: Array, count: int) -> None:
    """`exponential` of the first `count` values, in place."""
    for index in range(count):
        values[index] = exponential(values[index])


@numba.njit(nogil=True, cache=True, fastmath=True)
def dot(left: Array, right: Array, count: int) -> np.float32:
    """right: see `halves`."""
    total = np.float32(0)
    for at in range(count):
        total += left[at] * single(right[at])
    return total


@numba.njit(nogil=True, cache=True, fastmath=True)
def largest_of(values: Array, count: int) -> np.float32:
    """Of the first `count` values."""
    largest: np.float32 = values[0]
    for at in range(1, count):
        largest = maximum(largest, values[at])
    return largest
