"""Keys and values of constraints put before a layer's own on a CPU: one compiled loop instead of passes for
finding, adding, turning and joining.

`vectors.py` says what is to be done, in tensor operations that run anywhere and can be trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import torch
from torch import Tensor

from termweave.model import attention_loops
from termweave.model.attention import KeysValues
from termweave.model.loop_math import halves, single
from termweave.storage import Array

if TYPE_CHECKING:
    from termweave.model.vectors import FlatKeysValues


def can_join(own: KeysValues, extra: FlatKeysValues) -> bool:
    """Not where gradients are asked for. What is known of constraints is in half precision."""
    plain = all(tensor.dtype == torch.float32 for tensor in (*own, extra.bias))
    plain &= all(tensor.dtype in (torch.float32, torch.half) for tensor in extra[:2])
    asked_for = any(tensor.requires_grad for tensor in (*own, *extra[:3]))
    return plain and not asked_for and attention_loops.can_attend(own.keys)


def join(own: KeysValues, extra: FlatKeysValues, by_head: bool) -> KeysValues:
    """`with_constraints`. by_head: those of a head in one piece, as steps read them; else those of a token are.

    A token's are written a little faster, and torch's attention reads them a little faster too.
    """
    return KeysValues(
        *(_joined(*sides, extra.token, by_head) for sides in zip(own, extra[:2], extra.bias, strict=True))
    )


def _joined(own: Tensor, flat: Tensor, bias: Tensor, token: Tensor, by_head: bool) -> Tensor:
    batch, heads, length, width = own.shape
    keys = token.shape[1] + length
    if by_head:
        result = own.new_empty(batch, heads, keys, width)
    else:
        result = own.new_empty(batch, keys, heads, width).transpose(1, 2)
    _join(own.transpose(1, 2).numpy(), halves(flat), bias.numpy(), token.numpy(), result.transpose(1, 2).numpy())
    return result


@numba.njit(nogil=True, cache=True)
def _join(own: Array, flat: Array, bias: Array, token: Array, result: Array) -> None:
    """own: (batch, length, heads, width), as the result; flat: (tokens, heads · width), see `halves`; bias: (heads ·
    width,)."""
    batch, length, heads, width = own.shape
    slots = token.shape[1]
    for sentence in range(batch):
        for slot in range(slots):
            row = flat[token[sentence, slot]]
            for head in range(heads):
                to, start = result[sentence, slot, head], head * width
                seen, added = row[start : start + width], bias[start : start + width]
                for at in range(width):
                    to[at] = single(seen[at]) + added[at]
        for place in range(length):
            for head in range(heads):
                one, to = own[sentence, place, head], result[sentence, slots + place, head]
                for at in range(width):
                    to[at] = one[at]
