"""`Automaton.missing` as a compiled loop, and what makes it short: which phrases go on from a node at all."""

from __future__ import annotations

from typing import NamedTuple

import numba

from termweave.decoding.automaton import ALWAYS
from termweave.storage import Array

FAR = 2**40  # more tokens than are ever missing


class Tables(NamedTuple):
    """Those of an `Automaton`, of all its sentences or of one."""

    tokens: Array
    next_node: Array
    open_end: Array
    completes: Array
    lowest: Array
    forbidden: Array
    gains: Array
    inner_gains: Array
    savings: Array
    phrase_bits: Array
    bit_length: Array


@numba.njit(nogil=True, cache=True)
def note_savings(
    gains: Array, inner_gains: Array, completes: Array, bit_length: Array, phrases: int, savings: Array
) -> None:
    """`Automaton.savings` of one sentence's nodes, and `phrases` of them."""
    for node in range(len(savings)):
        first, last, most = 0, 0, 0
        for phrase in range(phrases):
            saved = max(gains[node, phrase], inner_gains[node, phrase])
            if saved:
                first, last, most = phrase if last == 0 else first, phrase + 1, max(most, saved)
        savings[node, 0], savings[node, 1] = first, last
        savings[node, 2] = most + tokens_of(bit_length, ~completes[node])


@numba.njit(nogil=True, cache=True)
def closed(completes: int, lowest: int, bits: int, is_ordered: bool) -> int:
    """`Automaton.closed`, given what the node completes."""
    if is_ordered:
        return int(bits | ((bits + 1) & completes))
    return int(bits | (((bits & completes) << 1 | lowest) & completes))


@numba.njit(nogil=True, cache=True)
def barred(needed: int, bits: int) -> bool:
    """`Automaton.barred`, given what the node needs for that."""
    return bool(needed != 0 and needed & ~(bits | ALWAYS) == 0)


@numba.njit(nogil=True, cache=True)
def missing_of(own: Tables, node: int, bits: int, is_ordered: bool) -> int:
    done = closed(own.completes[node], own.lowest[node], bits, is_ordered)
    missing, inside = tokens_of(own.bit_length, done), tokens_of(own.bit_length, bits)
    phrases = own.phrase_bits, own.gains, own.inner_gains, own.savings
    return missing_at(missing, inside, phrases, node, bits, done, is_ordered, barred(own.forbidden[node], bits))


@numba.njit(nogil=True, cache=True)
def missing_at(
    missing: int,  # tokens of all that is not met, if the word ended here
    missing_inside: int,  # the same if it goes on
    phrases: tuple[Array, Array, Array, Array],
    node: int,
    bits: int,
    done: int,  # the bits if the word ended here
    is_ordered: bool,
    stuck: bool,
) -> int:
    """`Automaton.missing`; stuck: the node is barred."""
    phrase_bits, gains, inner_gains, savings = phrases
    wanted, wanted_inside = (done + 1, bits + 1) if is_ordered else (~done, ~bits)
    saved, saved_inside = 0, 0
    for phrase in range(savings[node, 0], savings[node, 1]):
        own = phrase_bits[phrase]
        saved = max(saved, gains[node, phrase] if own & wanted else 0)
        saved_inside = max(saved_inside, inner_gains[node, phrase] if own & wanted_inside else 0)
    return int(min(missing - saved + int(stuck), missing_inside - saved_inside + int(stuck and not saved_inside)))


@numba.njit(nogil=True, cache=True)
def tokens_of(bit_length: Array, reached: int) -> int:
    """Those of all bits that are not reached."""
    missing = 0
    for bit in range(len(bit_length)):
        missing += bit_length[bit] * (~reached >> bit & 1)
    return missing
