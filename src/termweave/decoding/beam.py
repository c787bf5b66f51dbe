"""Plain batched beam search: a state record and small named steps.

Hypotheses of one sentence stand side by side, (batch, beam). Each step extends all of them, keeps the best `beam`
unfinished ones, and moves those that ended into the sentence's finished list. A sentence whose finished list is full
and better than what is still open leaves the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from termweave.model.attention import KeysValues
from termweave.model.transformer import DecoderMemory, Transformer


@dataclass(frozen=True)
class SearchOptions:
    """How to search."""

    beam: int = 4  # hypotheses kept per sentence
    length_penalty: float = 1.0  # scores are divided by length to this power
    max_length: int = 256  # longest output, in subwords


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
    """Everything about the sentences still in the batch."""

    sentences: Tensor  # (batch,) index of the sentence in the request
    tokens: Tensor  # (batch, beam, steps) begin mark first
    scores: Tensor  # (batch, beam) log P of each unfinished hypothesis
    finished_tokens: Tensor  # (batch, beam, limit + 1) end mark and what follows it filled with the end mark
    finished_scores: Tensor  # (batch, beam) normalised; −inf where there is none
    finished_logs: Tensor  # (batch, beam) log P
    past: list[KeysValues] | None
    memory: DecoderMemory
    limits: Tensor  # (batch,) most tokens an output may have


@torch.no_grad()
def beam_search(
    model: Transformer, memory: DecoderMemory, limits: Tensor, marks: Marks, options: SearchOptions
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first. limits: (batch,) longest output of each."""
    state = _start(memory, limits.clamp(max=options.max_length), marks, options)
    results: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    for step in range(int(state.limits.max()) + 1):
        candidates = _extend(model, state, marks, options)
        _collect_finished(state, candidates, marks, options)
        _keep_best(state, candidates, marks)
        done = _done(state, step, options)
        if bool(done.any()):
            _emit(state, done, marks, results)
            if bool(done.all()):
                break
            _leave(state, done)
    return results


def _start(memory: DecoderMemory, limits: Tensor, marks: Marks, options: SearchOptions) -> BeamState:
    batch, beam, device = len(limits), options.beam, limits.device
    scores = torch.full((batch, beam), float("-inf"), device=device)
    scores[:, 0] = 0.0  # all hypotheses begin alike: only one may speak at first
    length = int(limits.max()) + 1
    return BeamState(
        sentences=torch.arange(batch, device=device),
        tokens=torch.full((batch, beam, 1), marks.begin, dtype=torch.long, device=device),
        scores=scores,
        finished_tokens=torch.full((batch, beam, length), marks.end, dtype=torch.long, device=device),
        finished_scores=torch.full((batch, beam), float("-inf"), device=device),
        finished_logs=torch.full((batch, beam), float("-inf"), device=device),
        past=None,
        memory=memory,
        limits=limits,
    )


@dataclass(frozen=True)
class _Candidates:
    """The best 2 · beam continuations of each sentence, best first; (batch, 2 · beam) each."""

    scores: Tensor
    parents: Tensor
    tokens: Tensor


def _extend(model: Transformer, state: BeamState, marks: Marks, options: SearchOptions) -> _Candidates:
    position = state.tokens.shape[2] - 1
    states, state.past = model.step(state.tokens[:, :, -1], position, state.past, state.memory)
    logs = model.log_probabilities(states, state.memory.output, prefix=state.tokens[:, :, 1:])
    logs[:, :, list(marks.never)] = float("-inf")
    at_limit = (position >= state.limits)[:, None, None]
    ending = torch.zeros(logs.shape[-1], dtype=torch.bool, device=logs.device)
    ending[marks.end] = True
    logs = logs.masked_fill(at_limit & ~ending, float("-inf"))  # at the limit a hypothesis can only end
    totals = (state.scores.unsqueeze(2) + logs).flatten(1)
    scores, flat = totals.topk(min(2 * options.beam, totals.shape[1]), dim=1)
    vocabulary = logs.shape[-1]
    return _Candidates(scores, flat // vocabulary, flat % vocabulary)


def _collect_finished(state: BeamState, candidates: _Candidates, marks: Marks, options: SearchOptions) -> None:
    """Ends among the best `beam` candidates compete for a place in the finished list."""
    beam = state.tokens.shape[1]
    ends = candidates.tokens[:, :beam] == marks.end
    length = state.tokens.shape[2]  # tokens with the end mark, without the begin mark
    logs = candidates.scores[:, :beam].masked_fill(~ends, float("-inf"))
    pool_scores = torch.cat([state.finished_scores, logs / length**options.length_penalty], dim=1)
    pool_logs = torch.cat([state.finished_logs, logs], dim=1)
    new = torch.full_like(state.finished_tokens, marks.end)
    parents = candidates.parents[:, :beam].unsqueeze(2).expand(-1, -1, length - 1)
    new[:, :, : length - 1] = state.tokens[:, :, 1:].gather(1, parents)
    state.finished_scores, best = pool_scores.topk(beam, dim=1)
    state.finished_logs = pool_logs.gather(1, best)
    pool = torch.cat([state.finished_tokens, new], dim=1)
    state.finished_tokens = pool.gather(1, best.unsqueeze(2).expand(-1, -1, pool.shape[2]))


def _keep_best(state: BeamState, candidates: _Candidates, marks: Marks) -> None:
    """The best `beam` candidates that did not end become the hypotheses."""
    beam = state.tokens.shape[1]
    open_scores = candidates.scores.masked_fill(candidates.tokens == marks.end, float("-inf"))
    state.scores, best = open_scores.topk(beam, dim=1)
    parents = candidates.parents.gather(1, best)
    chosen = candidates.tokens.gather(1, best).unsqueeze(2)
    history = state.tokens.gather(1, parents.unsqueeze(2).expand(-1, -1, state.tokens.shape[2]))
    state.tokens = torch.cat([history, chosen], dim=2)
    rows = (parents + torch.arange(len(parents), device=parents.device).unsqueeze(1) * beam).flatten()
    assert state.past is not None
    state.past = [KeysValues(past.keys[rows], past.values[rows]) for past in state.past]


def _done(state: BeamState, step: int, options: SearchOptions) -> Tensor:
    """(batch,) Is the finished list full, and would the best open hypothesis not get into it by ending now?"""
    ending_now = state.scores[:, 0] / (step + 2) ** options.length_penalty
    full: Tensor = state.finished_scores[:, -1] >= ending_now
    return full | (step >= state.limits)


def _emit(state: BeamState, done: Tensor, marks: Marks, results: list[list[Hypothesis]]) -> None:
    rows = done.nonzero().flatten()
    sentences = state.sentences[rows].tolist()
    tokens = state.finished_tokens[rows].tolist()
    scores, logs = state.finished_scores[rows].tolist(), state.finished_logs[rows].tolist()
    for index, sentence in enumerate(sentences):
        for row, score, log in zip(tokens[index], scores[index], logs[index], strict=True):
            if score > float("-inf"):
                results[sentence].append(Hypothesis(tuple(row[: row.index(marks.end)]), score, log))


def _leave(state: BeamState, done: Tensor) -> None:
    """Drop finished sentences from the batch."""
    rows = (~done).nonzero().flatten()
    beam = state.tokens.shape[1]
    flat = (rows.unsqueeze(1) * beam + torch.arange(beam, device=rows.device)).flatten()
    assert state.past is not None
    state.past = [KeysValues(past.keys[flat], past.values[flat]) for past in state.past]
    state.memory = state.memory.select(rows)
    for name in ("sentences", "tokens", "scores", "finished_tokens", "finished_scores", "finished_logs", "limits"):
        setattr(state, name, getattr(state, name)[rows])
