"""The best continuations of each sentence, out of beam · vocabulary, without sorting the vocabulary.

1. The largest value of every chunk of the vocabulary: one pass over the scores, the only one.
2. The `count` chunks with the largest of these, over all hypotheses of a sentence.
3. The `count` best tokens inside those chunks.

This is exact: a chunk that holds one of the best `count` tokens is among the best `count` chunks. Equal scores are
told apart by their place, the hypothesis first, then the token, so that the result never depends on how a device sorts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from termweave.accelerators import has_kernels
from termweave.decoding import selection_loops
from termweave.model.output import Scores
from termweave.model.score_loops import CHUNK

IMPOSSIBLE = float("-inf")


@dataclass(frozen=True)
class Candidates:
    """Continuations of each sentence, best first; (batch, count) each."""

    scores: Tensor  # log P of the whole hypothesis; −inf where there are not so many
    parents: Tensor  # which hypothesis is continued
    tokens: Tensor


def best_continuations(
    scores: Scores, so_far: Tensor, count: int, touched: Tensor, each: bool
) -> tuple[Candidates, Candidates | None]:
    """The best of each sentence, and with `each` the best of each hypothesis.

    so_far: (batch, beam), log P of the hypotheses that are continued. touched: (batch, n) the only tokens whose scores
    may have changed since the maxima were found that `scores` brings along, if it does.
    """
    if has_kernels(so_far.device):
        from termweave.decoding import selection_kernels

        maxima = chunk_maxima(scores.values) if scores.maxima is None else scores.maxima
        if selection_kernels.can_select(so_far.shape[1], maxima.shape[2]):
            found = selection_kernels.select(scores.values, maxima, so_far, scores.offset, touched, count, CHUNK, each)
            own = Candidates(found[3], _themselves(so_far), found[4]) if each else None
            return Candidates(*found[:3]), own
    if scores.maxima is None or so_far.device.type != "cpu":
        maxima = chunk_maxima(scores.values)
    else:
        maxima = scores.maxima
        selection_loops.correct_all(maxima, scores.values, touched)
    best = best_candidates(scores, so_far, count, maxima)
    return best, best_of_each(scores, so_far, maxima) if each else None


def best_candidates(scores: Scores, so_far: Tensor, count: int, maxima: Tensor) -> Candidates:
    """so_far: (batch, beam), log P of the hypotheses that are continued. maxima: of the chunks, see `chunk_maxima`."""
    if so_far.device.type == "cpu":
        return Candidates(*selection_loops.best(scores.values, so_far + scores.offset, maxima, count, CHUNK))
    return best_by_tensors(scores, so_far, count, maxima)


def best_by_tensors(scores: Scores, so_far: Tensor, count: int, maxima: Tensor) -> Candidates:
    """The same by operations that every device has."""
    _, beam, vocabulary = scores.values.shape
    base, chunks = so_far + scores.offset, maxima.shape[2]
    ranked = _best((maxima + base.unsqueeze(2)).flatten(1), min(count, beam * chunks))
    chosen = ranked.sort(dim=1).values  # in the order of their places, so that ties are too
    parents = (chosen // chunks).unsqueeze(2).expand(-1, -1, CHUNK).flatten(1)
    inside = torch.arange(CHUNK, device=chosen.device)
    tokens = ((chosen % chunks * CHUNK).unsqueeze(2) + inside).flatten(1)
    places = parents * vocabulary + tokens.clamp(max=vocabulary - 1)
    totals = scores.values.flatten(1).gather(1, places) + base.gather(1, parents)
    totals = totals.masked_fill(tokens >= vocabulary, IMPOSSIBLE)  # behind the last chunk's end
    best = _best(totals, min(count, totals.shape[1]))
    tokens = tokens.clamp(max=vocabulary - 1)
    return _filled_up(Candidates(totals.gather(1, best), parents.gather(1, best), tokens.gather(1, best)), count)


def best_of_each(scores: Scores, so_far: Tensor, maxima: Tensor) -> Candidates:
    """The best continuation of each hypothesis. maxima: of the chunks, see `chunk_maxima`."""
    vocabulary = scores.values.shape[2]
    values, chunk = maxima.max(dim=2, keepdim=True)
    inside = torch.arange(CHUNK, device=chunk.device)
    tokens = (chunk * CHUNK + inside).clamp(max=vocabulary - 1)
    best = scores.values.gather(2, tokens).argmax(dim=2, keepdim=True)
    own_scores = values.squeeze(2) + scores.offset + so_far
    return Candidates(own_scores, _themselves(so_far), tokens.gather(2, best).squeeze(2))


def _themselves(so_far: Tensor) -> Tensor:
    """(batch, beam): every hypothesis as its own parent."""
    return torch.arange(so_far.shape[1], device=so_far.device).expand(so_far.shape)


def scores_of(scores: Scores, so_far: Tensor, tokens: Tensor) -> Tensor:
    """(batch, n) tokens, −1 for none → (batch, beam, n): the scores of each hypothesis with each of them."""
    index = tokens.clamp(min=0).unsqueeze(1).expand(-1, scores.values.shape[1], -1)
    return scores.values.gather(2, index) + (so_far + scores.offset).unsqueeze(2)


def only_ending(scores: Scores, so_far: Tensor, end: int, count: int) -> Candidates:
    """The candidates where nothing may follow but the end mark."""
    totals, parents = (so_far + scores.offset + scores.values[:, :, end]).sort(dim=1, descending=True, stable=True)
    return _filled_up(Candidates(totals, parents, torch.full_like(parents, end)), count)


def choose(condition: Tensor, these: Candidates, those: Candidates) -> Candidates:
    """these where the condition (batch,) holds, those elsewhere."""
    rows = condition.unsqueeze(1)
    return Candidates(
        torch.where(rows, these.scores, those.scores),
        torch.where(rows, these.parents, those.parents),
        torch.where(rows, these.tokens, those.tokens),
    )


def chunk_maxima(values: Tensor) -> Tensor:
    """(batch, beam, vocabulary) → (batch, beam, chunks); the last chunk may be shorter."""
    batch, beam, vocabulary = values.shape
    whole = vocabulary // CHUNK
    maxima = values[:, :, : whole * CHUNK].view(batch, beam, whole, CHUNK).amax(dim=3)
    if vocabulary % CHUNK == 0:
        return maxima
    rest = values[:, :, whole * CHUNK :].amax(dim=2, keepdim=True)
    return torch.cat([maxima, rest], dim=2)


def _best(values: Tensor, count: int) -> Tensor:
    """Places of the largest values of each row, best first, equal ones by their place.

    The bits of a float, its sign taken into account, are a number of the same order. With the place below them no two
    are equal, so that `topk`, which promises nothing about ties, has no choice.
    """
    bits = values.view(torch.int32)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    places = torch.arange(values.shape[1], device=values.device)
    return (ordered * 2**32 - places).topk(count, dim=1).indices


def _filled_up(candidates: Candidates, count: int) -> Candidates:
    """Impossible ones at the end, where a small vocabulary has not enough."""
    missing = count - candidates.scores.shape[1]
    if missing <= 0:
        return candidates
    return Candidates(
        F.pad(candidates.scores, (0, missing), value=IMPOSSIBLE),
        F.pad(candidates.parents, (0, missing)),
        F.pad(candidates.tokens, (0, missing)),
    )
