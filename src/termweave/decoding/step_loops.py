"""What follows from the candidates of a step, on a CPU: a compiled loop instead of some fifty small operations.

`beam.py` says what is to be done, in `_collect_finished`, `_keep_best` and `_done`. At the end of a batch, when few
sentences are left, those operations took longer than the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from termweave.accelerators import laid_out
from termweave.decoding.vdba import Place
from termweave.model.cache import FixedCache
from termweave.model.coverage import Progress
from termweave.storage import Array

if TYPE_CHECKING:
    from termweave.decoding.beam import BeamState
    from termweave.decoding.candidates import Candidates

IMPOSSIBLE = np.float32(-np.inf)


class Finished(NamedTuple):
    """Lists that are changed, (batch, beam, …), and what says how long they get."""

    scores: Array
    logs: Array
    tokens: Array
    enough: Array  # (batch,)


class Followed(NamedTuple):
    """Tokens of constraints, (batch, slots), and how far they have been produced, (batch, hypotheses, slots)."""

    tokens: Array
    first: Array
    last: Array
    running: Array
    done: Array
    used: Array


def can_finish(state: BeamState) -> bool:
    return state.scores.device.type == "cpu" and state.guidance is None and not isinstance(state.cache, FixedCache)


def finish(
    state: BeamState, candidates: Candidates, places: Place | None, norms: tuple[Tensor, Tensor], end: int, cut: bool
) -> None:
    """norms: (batch,) what log P is divided by, of outputs that end in this step, and of those that end in the next."""
    batch, beam, width = len(state.tokens), state.cache.beam, state.tokens.shape[2]
    length = state.cache.length
    scores = torch.empty(batch, beam)
    newest, parents, kept = (torch.empty(batch, beam, dtype=torch.long) for _ in range(3))
    tokens, searching = torch.empty(batch, beam, width, dtype=torch.long), state.searching.clone()
    _finish(
        _arrays(*laid_out(candidates.scores, candidates.parents, candidates.tokens)),
        Finished(*_arrays(state.finished_scores, state.finished_logs, state.finished_tokens, state.enough)),
        state.tokens.numpy(),
        _arrays(*laid_out(state.limits, *norms)),
        _arrays(scores, parents, newest, kept, tokens),
        searching.numpy(),
        state.cache.ancestry.numpy(),
        length,
        end,
        cut,
    )
    state.scores, state.newest, state.tokens, state.searching = scores, newest, tokens, searching
    state.place = None if places is None else places.gather(kept)
    if state.progress is not None:
        state.progress = _followed(state, parents, newest)


def _arrays(*tensors: Tensor) -> tuple[Array, ...]:
    return tuple(tensor.numpy() for tensor in tensors)


def _followed(state: BeamState, parents: Tensor, tokens: Tensor) -> Progress:
    """`Slots.follow`."""
    assert state.memory.output is not None and state.memory.output.slots is not None and state.progress is not None
    slots, progress = state.memory.output.slots, state.progress
    own = laid_out(slots.tokens, slots.first, slots.last, progress.running, progress.done, progress.used)
    after = Progress(*(torch.empty(*parents.shape, slots.tokens.shape[1], dtype=torch.bool) for _ in range(3)))
    _follow(
        Followed(*_arrays(*own)),
        _arrays(parents, tokens),
        _arrays(after.running, after.done, after.used),
    )
    return after


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _finish(
    candidates: tuple[Array, ...],  # scores, parents, tokens
    finished: Finished,
    before: Array,  # (batch, hypotheses, width) tokens
    bounds: tuple[Array, ...],  # limits, and the norms of this step and of the next
    after: tuple[Array, ...],  # scores, parents, newest, which candidates those are, tokens
    searching: Array,
    ancestry: Array,
    length: int,
    end: int,
    cut: bool,
) -> None:
    beam = after[0].shape[1]
    ancestors = np.empty((beam, length), ancestry.dtype)
    for row in range(len(searching)):
        limit, norm, next_norm = bounds[0][row], bounds[1][row], bounds[2][row]
        own = candidates[0][row], candidates[1][row], candidates[2][row]
        if searching[row]:
            _collect(own, finished, before, row, norm, length, end, beam, cut and length >= limit)
        _keep(own, before, after, row, length, end)
        for index in range(beam):
            ancestors[index] = ancestry[row, after[1][row, index], :length]
        ancestry[row, :, :length] = ancestors
        worst = finished.scores[row, finished.enough[row] - 1]
        at_limit = length >= limit if cut else length > limit
        if worst >= after[0][row].max() / next_norm or at_limit:
            searching[row] = False


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _collect(
    own: tuple[Array, Array, Array],
    finished: Finished,
    before: Array,
    row: int,
    norm: np.float32,
    length: int,
    end: int,
    beam: int,
    all_end: bool,
) -> None:
    """Ends among the best `beam` candidates, into the finished list; of equal scores the earlier one comes first."""
    scores, logs, tokens = finished.scores[row], finished.logs[row], finished.tokens[row]
    for index in range(min(beam, len(own[0]))):
        score = own[0][index] / norm
        if not (all_end or own[2][index] == end) or not score > scores[beam - 1]:
            continue
        place = beam - 1
        while place and score > scores[place - 1]:
            scores[place], logs[place], tokens[place] = scores[place - 1], logs[place - 1], tokens[place - 1]
            place -= 1
        scores[place], logs[place] = score, own[0][index]
        tokens[place] = before[row, own[1][index]]
        tokens[place, length] = own[2][index]


@numba.njit(nogil=True, cache=True)
def _keep(
    own: tuple[Array, Array, Array],
    before: Array,
    after: tuple[Array, ...],
    row: int,
    length: int,
    end: int,
) -> None:
    """The first candidates that did not end become the hypotheses; where they are too few, others that lead nowhere."""
    scores, parents, newest, kept, tokens = after
    beam, place = scores.shape[1], 0
    for ended in (False, True):
        for index in range(len(own[0])):
            if place < beam and (own[2][index] == end or own[0][index] == IMPOSSIBLE) == ended:
                scores[row, place] = IMPOSSIBLE if ended else own[0][index]
                parents[row, place], newest[row, place], kept[row, place] = own[1][index], own[2][index], index
                tokens[row, place] = before[row, own[1][index]]
                tokens[row, place, length] = own[2][index]
                place += 1


@numba.njit(nogil=True, cache=True)
def _follow(own: Followed, chosen: tuple[Array, ...], after: tuple[Array, ...]) -> None:
    parents, newest = chosen
    batch, beam = parents.shape
    for row in range(batch):
        for index in range(beam):
            parent, token = parents[row, index], newest[row, index]
            running, done, used = after[0][row, index], after[1][row, index], after[2][row, index]
            for slot in range(len(running)):
                here = own.tokens[row, slot] == token
                begun = own.first[row, slot] == slot or (slot > 0 and own.running[row, parent, slot - 1])
                running[slot] = here and begun
                used[slot] = own.used[row, parent, slot] or here
            for slot in range(len(running)):
                done[slot] = own.done[row, parent, slot] or running[own.last[row, slot]]
