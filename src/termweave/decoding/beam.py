"""Batched beam search: a state record and small named steps.

Hypotheses of one sentence stand side by side, (batch, beam). Each step extends all of them, keeps the best `beam`
unfinished ones, and moves those that ended into the sentence's finished list. A sentence whose finished list is full
and better than what is still open is done. Sentences that are done leave the batch when they are many enough to be
worth the copying of the others. With an automaton of constraints, `vdba` says which candidates are kept, and ends are
closed until everything is met; without one, or without constraints, this is plain beam search.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from termweave.decoding.automaton import Automaton
from termweave.decoding.candidates import (
    IMPOSSIBLE,
    Candidates,
    best_candidates,
    best_of_each,
    choose,
    chunk_maxima,
    only_ending,
    scores_of,
)
from termweave.decoding.vdba import Place, choose_by_bank
from termweave.model.cache import SelfAttentionCache
from termweave.model.coverage import Progress
from termweave.model.output import Scores
from termweave.model.transformer import DecoderMemory, Transformer

LEAVE = 0.25  # the share of sentences that must be done for them to leave the batch


@dataclass(frozen=True)
class SearchOptions:
    """How to search."""

    beam: int = 4  # hypotheses kept per sentence
    length_penalty: float = 1.0  # scores are divided by length to this power
    max_length: int = 256  # longest output, in subwords
    aware: bool = False  # with constraints: the model knows them, so that score comes before how much is met
    cut: bool = False  # at its limit an output is cut off, instead of being made to end


@dataclass(frozen=True)
class Marks:
    """The token ids the search must know."""

    begin: int
    end: int
    never: tuple[int, ...]  # tokens that are never produced: padding, begin, tags


@dataclass(frozen=True)
class Hypothesis:
    """One finished output, without begin and end marks."""

    tokens: tuple[int, ...]
    score: float  # log P divided by length ** length_penalty
    log_probability: float


@dataclass
class BeamState:
    """Everything about the sentences in the batch. What belongs to hypotheses is reordered in `_keep_best` alone."""

    sentences: Tensor  # (batch,) index of the sentence in the request
    limits: Tensor  # (batch,) most tokens an output may have
    searching: Tensor  # (batch,) False when the sentence is done, and merely waits to leave the batch
    tokens: Tensor  # (batch, beam, longest + 1) begin mark first; one hypothesis alone before the first step
    scores: Tensor  # (batch, beam) log P of each unfinished hypothesis
    progress: Progress | None  # what each hypothesis has produced of its constraints, if the model wants to know
    cache: SelfAttentionCache
    finished_tokens: Tensor  # (batch, beam, longest + 1) end mark and what follows it filled with the end mark
    finished_scores: Tensor  # (batch, beam) normalised; −inf where there is none
    finished_logs: Tensor  # (batch, beam) log P
    memory: DecoderMemory
    never: Tensor  # tokens that are never produced
    earliest: int  # no limit is reached before this step
    automaton: Automaton | None = None  # what the outputs must and must not contain
    place: Place | None = None  # where each hypothesis stands in it

    @property
    def step(self) -> int:
        """Tokens every hypothesis has, without the begin mark."""
        return self.cache.length


@torch.no_grad()
def beam_search(
    model: Transformer,
    memory: DecoderMemory,
    limits: Tensor,
    marks: Marks,
    options: SearchOptions,
    automaton: Automaton | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first. limits: (batch,) longest output of each."""
    state = _start(model, memory, limits.clamp(max=options.max_length), marks, options)
    if automaton is not None:
        state.automaton, state.place = automaton, Place.start(len(limits), limits.device)
    results: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    while True:
        scores = _extend(model, state)
        wished = _close_ends(state, scores, marks)
        candidates, places = _candidates(state, scores, wished, marks, options)
        _collect_finished(state, candidates, marks, options)
        _keep_best(state, candidates, places, marks)
        done = _done(state, options)
        if bool(done.any()):
            _emit(state, done, marks, results)
            state.searching &= ~done
            waiting = len(done) - int(state.searching.sum())
            if waiting == len(done):
                return results
            if waiting >= LEAVE * len(done):
                _leave(state)


def _start(
    model: Transformer, memory: DecoderMemory, limits: Tensor, marks: Marks, options: SearchOptions
) -> BeamState:
    batch, beam, device = len(limits), options.beam, limits.device
    length = int(limits.max()) + 1
    slots = memory.output.slots if memory.output else None
    return BeamState(
        sentences=torch.arange(batch, device=device),
        limits=limits,
        searching=torch.ones(batch, dtype=torch.bool, device=device),
        # All hypotheses begin alike, so the first step has but one.
        tokens=torch.full((batch, 1, length), marks.begin, dtype=torch.long, device=device),
        scores=torch.zeros(batch, 1, device=device),
        progress=slots.start(1) if slots else None,
        cache=model.start_cache(batch, beam),
        finished_tokens=torch.full((batch, beam, length), marks.end, dtype=torch.long, device=device),
        finished_scores=torch.full((batch, beam), float("-inf"), device=device),
        finished_logs=torch.full((batch, beam), float("-inf"), device=device),
        memory=memory,
        never=torch.tensor(marks.never, dtype=torch.long, device=device),
        earliest=int(limits.min()),
    )


def _extend(model: Transformer, state: BeamState) -> Scores:
    """The scores of what may follow each hypothesis."""
    states = model.step(state.tokens[:, :, state.step], state.cache, state.memory)
    scores = model.scores(states, state.memory.output, state.progress)
    scores.values.index_fill_(2, state.never, float("-inf"))
    return scores


def _close_ends(state: BeamState, scores: Scores, marks: Marks) -> Tensor | None:
    """No hypothesis may end before it has met its constraints, or with something forbidden.

    Returns the scores of the ends that were closed, (batch, beam), −inf where none was; None without constraints.
    """
    if state.automaton is None or state.place is None:
        return None
    ends = scores.values[:, :, marks.end].clone()
    state.automaton.close(scores.values, state.place.nodes, state.place.bits, marks.end)
    return ends.masked_fill(scores.values[:, :, marks.end] > IMPOSSIBLE, IMPOSSIBLE)


def _candidates(
    state: BeamState, scores: Scores, wished: Tensor | None, marks: Marks, options: SearchOptions
) -> tuple[Candidates, Place | None]:
    """The best 2 · beam continuations of each sentence: enough to keep `beam` of them even if all of them can end."""
    count = 2 * options.beam
    maxima = chunk_maxima(scores.values)
    best, places = best_candidates(scores, state.scores, count, maxima), None
    if state.automaton is not None and state.place is not None and wished is not None:
        tokens = F.pad(state.automaton.tokens, (0, 1), value=marks.end)
        own_best = best_of_each(scores, state.scores, maxima)
        best, places = choose_by_bank(
            state.automaton,
            state.place,
            best,
            own_best,
            tokens,
            scores_of(scores, state.scores, tokens),
            wants_end=wished + scores.offset + state.scores > own_best.scores,
            room=state.limits - state.step,
            end=marks.end,
            count=count,
            aware=options.aware,
        )
    if state.step <= state.earliest:
        return best, places
    at_limit = state.step > state.limits  # the step being taken is counted already
    return choose(at_limit, only_ending(scores, state.scores, marks.end, count), best), places


def _collect_finished(state: BeamState, candidates: Candidates, marks: Marks, options: SearchOptions) -> None:
    """Ends among the best `beam` candidates compete for a place in the finished list."""
    beam, length = options.beam, state.step  # tokens with the end mark, without the begin mark
    tokens = candidates.tokens[:, :beam]
    ends = tokens == marks.end
    if options.cut:
        ends = ends | (length >= state.limits).unsqueeze(1)
    logs = candidates.scores[:, :beam].masked_fill(~ends, float("-inf"))
    pool_scores = torch.cat([state.finished_scores, logs / length**options.length_penalty], dim=1)
    pool_logs = torch.cat([state.finished_logs, logs], dim=1)
    parents = candidates.parents[:, :beam].unsqueeze(2).expand(-1, -1, length - 1)
    new = torch.cat([state.tokens[:, :, 1:length].gather(1, parents), tokens.unsqueeze(2)], dim=2)
    listed = state.finished_tokens[:, :, :length]  # nothing in the list is longer yet
    state.finished_scores, best = pool_scores.topk(beam, dim=1)
    state.finished_logs = pool_logs.gather(1, best)
    pool = torch.cat([listed, new], dim=1)
    listed.copy_(pool.gather(1, best.unsqueeze(2).expand(-1, -1, length)))


def _keep_best(state: BeamState, candidates: Candidates, places: Place | None, marks: Marks) -> None:
    """The first `beam` candidates that did not end become the hypotheses."""
    ends = (candidates.tokens == marks.end) | (candidates.scores == IMPOSSIBLE)
    kept = ends.byte().argsort(dim=1, stable=True)[:, : state.cache.beam]
    state.scores = candidates.scores.masked_fill(ends, IMPOSSIBLE).gather(1, kept)
    parents = candidates.parents.gather(1, kept)
    tokens = candidates.tokens.gather(1, kept)
    state.cache.reorder(parents)
    state.tokens = state.tokens.gather(1, parents.unsqueeze(2).expand(-1, -1, state.tokens.shape[2]))
    if state.step < state.tokens.shape[2]:  # at the longest limit there is no next step
        state.tokens[:, :, state.step] = tokens
    if state.progress is not None:
        assert state.memory.output is not None and state.memory.output.slots is not None
        state.progress = state.memory.output.slots.advance(state.progress.reorder(parents), tokens)
    state.place = None if places is None else places.gather(kept)


def _done(state: BeamState, options: SearchOptions) -> Tensor:
    """(batch,) Is the finished list full, and would the best open hypothesis not get into it by ending now?"""
    ending_now = state.scores.amax(dim=1) / (state.step + 1) ** options.length_penalty
    full: Tensor = state.finished_scores[:, -1] >= ending_now
    at_limit = state.step >= state.limits if options.cut else state.step > state.limits
    return state.searching & (full | at_limit)


def _emit(state: BeamState, done: Tensor, marks: Marks, results: list[list[Hypothesis]]) -> None:
    rows = done.nonzero().flatten()
    sentences = state.sentences[rows].tolist()
    tokens = state.finished_tokens[rows].tolist()
    scores, logs = state.finished_scores[rows].tolist(), state.finished_logs[rows].tolist()
    for index, sentence in enumerate(sentences):
        for row, score, log in zip(tokens[index], scores[index], logs[index], strict=True):
            if score > float("-inf"):
                results[sentence].append(Hypothesis(tuple(row[: row.index(marks.end)]), score, log))


def _leave(state: BeamState) -> None:
    """Drop from the batch the sentences that are done."""
    rows = state.searching.nonzero().flatten()
    state.cache.select(rows)
    state.memory = state.memory.select(rows)
    state.progress = state.progress.select(rows) if state.progress else None
    state.automaton = state.automaton.select(rows) if state.automaton else None
    state.place = state.place.select(rows) if state.place else None
    for name in ("sentences", "limits", "searching", "tokens", "scores"):
        setattr(state, name, getattr(state, name)[rows])
    for name in ("finished_tokens", "finished_scores", "finished_logs"):
        setattr(state, name, getattr(state, name)[rows])
