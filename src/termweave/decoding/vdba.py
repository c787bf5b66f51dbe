"""Vectorised dynamic beam allocation: which continuations survive so that all constraints are met in the end.

After Hu et al. (2019). The candidates of a sentence are its best continuations, each hypothesis' own best, and every
token of a constraint and the end after every hypothesis: so there is always one that leads to the goal. They fall into
banks by how many constraint tokens are still missing. For a plain model places go round: the best of each bank first,
from the fullest bank down, then the second best, and so on. A model that knows its constraints meets them in its own
good time, so there the best of all comes first, then whatever is ahead of everything better than itself: constraints
that were pressed in too early are not kept for being many. A hypothesis that would rather end, with something still
missing, must go on with that. Nothing here loops over sentences, hypotheses or constraints, so the number of tensor
operations is the same for every batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from termweave.accelerators import has_kernels
from termweave.decoding import bank_loops
from termweave.decoding.automaton import Automaton
from termweave.decoding.candidates import IMPOSSIBLE, Candidates, scores_of
from termweave.decoding.missing_loops import FAR
from termweave.model.output import Scores


@dataclass(frozen=True)
class Place:
    """Where hypotheses stand in the automaton; (batch, n) each."""

    nodes: Tensor
    bits: Tensor

    @staticmethod
    def start(batch: int, hypotheses: int, device: torch.device) -> Place:
        zeros = torch.zeros(batch, hypotheses, dtype=torch.long, device=device)
        return Place(zeros, zeros)

    def gather(self, chosen: Tensor) -> Place:
        return Place(self.nodes.gather(1, chosen), self.bits.gather(1, chosen))

    def select(self, rows: Tensor) -> Place:
        return Place(self.nodes[rows], self.bits[rows])


def close_ends(automaton: Automaton, place: Place, scores: Scores, end: int) -> tuple[Tensor, Scores]:
    """No hypothesis may end before it has met its constraints, or with something forbidden: closed in place.

    Returns the scores of the ends that were closed, (batch, beam), −inf where none was; and the scores, without maxima
    that more than the ends have made wrong.
    """
    values, states = scores.values, (place.nodes, place.bits)
    kernels = _kernels(values.device)
    if kernels and not automaton.closes_more_than_ends:
        return kernels.close(automaton, states, values, end), scores
    if values.device.type == "cpu" and values.is_contiguous():
        maxima = None if automaton.never is not None else scores.maxima
        return bank_loops.close(automaton, states, values, end, maxima), replace(scores, maxima=maxima)
    without = replace(scores, maxima=None) if automaton.closes_more_than_ends else scores
    return close_by_tensors(automaton, place, values, end), without


def close_by_tensors(automaton: Automaton, place: Place, values: Tensor, end: int) -> Tensor:
    """The same by operations that every device has."""
    ends = values[:, :, end].clone()
    automaton.close(values, place.nodes, place.bits, end)
    return ends.masked_fill(values[:, :, end] > IMPOSSIBLE, IMPOSSIBLE)


def choose_by_bank(
    automaton: Automaton,
    place: Place,
    best: Candidates,  # of the sentence
    own_best: Candidates,  # of each hypothesis
    scores: Scores,
    so_far: Tensor,  # (batch, beam) log P of the hypotheses
    wished: Tensor,  # (batch, beam) scores of the ends that are closed, see `close_ends`
    limits: Tensor,  # (batch,) most tokens of an output
    length: Tensor,  # () tokens of the candidates
    end: int,
    count: int,
    aware: bool,  # the model knows its constraints
) -> tuple[Candidates, Place]:
    """`count` candidates in the order of preference, and where they stand."""
    kernels = _kernels(so_far.device)
    if kernels and kernels.can_choose(best.tokens.shape[1], so_far.shape[1], automaton):
        chosen = kernels.choose(
            automaton,
            (place.nodes, place.bits),
            (best.scores, best.parents, best.tokens),
            (own_best.scores, own_best.tokens),
            scores.values,
            so_far,
            scores.offset,
            wished,
            limits,
            length,
            end,
            count,
            aware,
        )
        return Candidates(chosen.scores, chosen.parents, chosen.tokens), Place(chosen.nodes, chosen.bits)
    base, given = so_far + scores.offset, (wished, limits, length, end, count, aware)
    if so_far.device.type != "cpu":
        token_scores = scores_of(scores, so_far, F.pad(automaton.tokens, (0, 1), value=end))
        return choose_by_tensors(automaton, place, best, own_best, token_scores, base, *given)
    states = place.nodes, place.bits
    candidates, after = bank_loops.choose(automaton, states, best, own_best, scores.values, base, *given)
    return candidates, Place(*after)


def choose_by_tensors(
    automaton: Automaton,
    place: Place,
    best: Candidates,
    own_best: Candidates,
    token_scores: Tensor,  # (batch, beam, columns + 1) of each hypothesis with the automaton's tokens, and with the end
    base: Tensor,  # (batch, beam) what every score of a hypothesis begins with
    wished: Tensor,
    limits: Tensor,
    length: Tensor,
    end: int,
    count: int,
    aware: bool,
) -> tuple[Candidates, Place]:
    """The same by operations that every device has."""
    tokens, beam = F.pad(automaton.tokens, (0, 1), value=end), base.shape[1]
    candidates = _all_candidates(best, own_best, tokens, token_scores)
    after, banned = _follow(automaton, place, candidates)
    before_and_after = (torch.cat([a, b], dim=1) for a, b in ((place.nodes, after.nodes), (place.bits, after.bits)))
    before, missing = automaton.missing(*before_and_after).tensor_split([beam], dim=1)
    # An end leads nowhere; that it comes only when nothing is missing has been seen to already.
    ends = candidates.tokens == end
    missing = missing.masked_fill(ends, 0)
    # A hypothesis that would rather end must go on with what is missing.
    most = torch.where(wished + base > own_best.scores, before - 1, FAR).minimum((limits - length).unsqueeze(1))
    impossible = (banned & ~ends) | (missing > most.gather(1, candidates.parents))
    totals = candidates.scores.masked_fill(impossible, IMPOSSIBLE)
    order = (climb if aware else allocate)(totals, -missing, count)
    kept = Candidates(totals.gather(1, order), candidates.parents.gather(1, order), candidates.tokens.gather(1, order))
    return kept, after.gather(order)


def _kernels(device: torch.device) -> ModuleType | None:
    """The same in fewer calls, where they run."""
    if not has_kernels(device):
        return None
    from termweave.decoding import bank_kernels

    return bank_kernels


def _all_candidates(best: Candidates, own_best: Candidates, tokens: Tensor, token_scores: Tensor) -> Candidates:
    """The three kinds, side by side; what stands there twice is made impossible once."""
    again = (own_best.tokens.unsqueeze(2) == best.tokens.unsqueeze(1)) & (
        own_best.parents.unsqueeze(2) == best.parents.unsqueeze(1)
    )
    own_scores = own_best.scores.masked_fill(again.any(dim=2), IMPOSSIBLE)
    plain_tokens = torch.cat([best.tokens, own_best.tokens], dim=1)
    listed = (plain_tokens.unsqueeze(2) == tokens.unsqueeze(1)).any(dim=2)
    plain_scores = torch.cat([best.scores, own_scores], dim=1).masked_fill(listed, IMPOSSIBLE)
    each = tokens.unsqueeze(1).expand(token_scores.shape)
    parents = torch.arange(each.shape[1], device=tokens.device)[None, :, None].expand(each.shape)
    return Candidates(
        torch.cat([plain_scores, token_scores.masked_fill(each < 0, IMPOSSIBLE).flatten(1)], dim=1),
        torch.cat([best.parents, own_best.parents, parents.flatten(1)], dim=1),
        torch.cat([plain_tokens, each.flatten(1).clamp(min=0)], dim=1),
    )


def _follow(automaton: Automaton, place: Place, candidates: Candidates) -> tuple[Place, Tensor]:
    """Where the candidates lead, and which of them would complete something forbidden."""
    before = place.gather(candidates.parents)
    each = automaton.tokens.shape[1] + 1  # the end has no column of its own, and leads nowhere
    plain = candidates.tokens.shape[1] - each * place.nodes.shape[1]
    # What stands among the plain candidates although it has a column is impossible: all there are other tokens.
    other = automaton.vocabulary_open_end[candidates.tokens[:, :plain]].long() + each - 1
    own = torch.arange(each, device=other.device).repeat(len(other), place.nodes.shape[1])
    columns = torch.cat([other, own], dim=1)
    nodes, bits, banned = automaton.advance(before.nodes, before.bits, candidates.tokens, columns)
    return Place(nodes, bits), banned


def allocate(scores: Tensor, banks: Tensor, count: int) -> Tensor:
    """(batch, n) → indices (batch, count): the best of each bank, fullest first, then the second best of each, …"""
    by_score = scores.argsort(dim=1, descending=True, stable=True)
    place = torch.arange(scores.shape[1], device=scores.device).expand(scores.shape)
    banks = banks.gather(1, by_score)
    by_bank = banks.argsort(dim=1, descending=True, stable=True)
    sorted_banks = banks.gather(1, by_bank)
    begins = torch.ones_like(sorted_banks, dtype=torch.bool)
    begins[:, 1:] = sorted_banks[:, 1:] != sorted_banks[:, :-1]
    rank = place - torch.where(begins, place, 0).cummax(dim=1).values
    order = by_score.gather(1, by_bank)
    rank = torch.where(scores.gather(1, order) == IMPOSSIBLE, scores.shape[1], rank)
    # `order` goes from the fullest bank down, so a stable sort by rank keeps that among equals.
    return order.gather(1, rank.argsort(dim=1, stable=True)[:, :count])


def climb(scores: Tensor, banks: Tensor, count: int) -> Tensor:
    """(batch, n) → indices (batch, count): first those in a fuller bank than all that score better, then the others.

    Among both the best comes first. Once the best of all has met everything, this is the plain order.
    """
    order = scores.argsort(dim=1, descending=True, stable=True)
    banks = banks.gather(1, order)
    ahead = torch.ones_like(banks, dtype=torch.bool)  # the best of all has nothing before it
    ahead[:, 1:] = banks[:, 1:] > banks.cummax(dim=1).values[:, :-1]
    # What is impossible has the lowest score: it must stay behind the others, however much it would meet.
    first = ahead & (scores.gather(1, order) > IMPOSSIBLE)
    return order.gather(1, (~first).byte().argsort(dim=1, stable=True)[:, :count])
