"""Batched beam search: a state record and small named steps.

Hypotheses of one sentence stand side by side, (batch, beam). Each step extends all of them, keeps the best `beam`
unfinished ones, and moves those that ended into the sentence's finished list. A sentence whose finished list is full
and better than what is still open is done. Sentences that are done leave the batch when they are many enough to be
worth the copying of the others. With an automaton of constraints, `vdba` says which candidates are kept, and ends are
closed until everything is met; without one, or without constraints, this is plain beam search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from termweave.accelerators import has_kernels, sent
from termweave.data.batches import ConstraintTensors
from termweave.decoding import step_loops
from termweave.decoding.automaton import Automaton
from termweave.decoding.candidates import IMPOSSIBLE, Candidates, best_continuations, choose, only_ending
from termweave.decoding.cdalign import Guidance, Guide
from termweave.decoding.vdba import Place, choose_by_bank, close_ends
from termweave.model.cache import FixedCache, SelfAttentionCache
from termweave.model.coverage import Progress
from termweave.model.output import Scores
from termweave.model.transformer import DecoderMemory, Transformer

NOBODY = -1
NO_LENGTH = 2**30  # is beyond what is usual
LEAVE = 0.25  # worth the copying of the others, on the whole
AHEAD = 6  # steps a device may be asked for at first before anybody looks at what came of them


@dataclass(frozen=True)
class SearchOptions:
    """How to search."""

    beam: int = 4  # hypotheses kept per sentence
    length_penalty: float = 1.0  # scores are divided by length to this power
    max_length: int = 256  # longest output, in subwords
    aware: bool = False  # with constraints: the model knows them, so that score comes before how much is met
    cut: bool = False  # at its limit an output is cut off, instead of being made to end
    # Finished outputs that a sentence which must meet something waits for; 0: as many as the beam. Steps do not depend
    # on it, so that those recorded for one number serve for all.
    enough: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Marks:
    """The token ids the search must know."""

    begin: int
    end: int
    never: tuple[int, ...]  # tokens that are never produced: padding, begin, tags


class Hypothesis(NamedTuple):  # made by the hundreds while a device waits: a frozen dataclass takes three times as long
    """One finished output, without begin and end marks."""

    tokens: tuple[int, ...]
    score: float  # log P divided by length ** length_penalty; the length counts up to what is `usual`, see there
    log_probability: float


@dataclass
class BeamState:
    """Everything about the sentences in the batch. What belongs to hypotheses is reordered in `_keep_best` alone."""

    sentences: Tensor  # (batch,) index of the sentence in the request; NOBODY where a row only fills up the batch
    limits: Tensor  # (batch,) most tokens an output may have
    searching: Tensor  # (batch,) False when the sentence is done, and merely waits to leave the batch
    newest: Tensor  # (batch, beam) the last token of each hypothesis; one hypothesis alone before the first step
    tokens: Tensor  # (batch, beam, longest + 2) begin mark first, then those so far; end marks behind them
    scores: Tensor  # (batch, beam) log P of each unfinished hypothesis
    progress: Progress | None  # what each hypothesis has produced of its constraints, if the model wants to know
    cache: SelfAttentionCache
    finished_tokens: Tensor  # (batch, beam, longest + 2) likewise
    finished_scores: Tensor  # (batch, beam) normalised; −inf where there is none
    finished_logs: Tensor  # (batch, beam) log P
    enough: Tensor  # (batch,) finished outputs the sentence waits for
    usual: Tensor  # (batch,) length beyond which an output no longer gains by being long
    deadlines: Tensor  # (batch,) length by which an output has met all that it must
    memory: DecoderMemory
    never: Tensor  # tokens that are never produced
    # (batch, n) the only tokens whose scores may have changed since the maxima of `Scores` were last right.
    touched: Tensor
    automaton: Automaton | None = None  # what the outputs must and must not contain
    place: Place | None = None  # where each hypothesis stands in it
    guidance: Guidance | None = None  # which constraints are put where the alignment points to

    @property
    def length(self) -> Tensor:
        """() tokens of every hypothesis, with those the step under way adds, without the begin mark."""
        return self.cache.position


class Steps(Protocol):
    """How steps are taken: as they come, or recorded and replayed."""

    @property
    def leave(self) -> float:
        """The share of the rows that must be done for them to leave the batch."""
        ...

    @property
    def multiple(self) -> int:
        """The sizes of constraints' tables are multiples of this."""
        ...

    def encode(self, source: Tensor, constraints: ConstraintTensors | None) -> DecoderMemory:
        """All the search needs of sentences (batch, length); it may lie where that of the next ones will lie."""
        ...

    def start_cache(self, batch: int, beam: int) -> SelfAttentionCache: ...

    def size(self, sentences: int) -> int:
        """How many rows a batch of so many sentences gets."""
        ...

    def fitting(self, sentences: int) -> int:
        """The largest number of sentences, up to this one, that needs no more rows than sentences."""
        ...

    def width(self, longest: int) -> int:
        """How much room sentences of so many tokens get."""
        ...

    def enter(self, state: BeamState) -> BeamState:
        """Called before the first step and whenever sizes have changed: the state to go on with."""
        ...

    def advance(self, state: BeamState, near_limit: bool) -> None:
        """One step of all hypotheses. near_limit: some sentence may have reached its limit."""
        ...

    def searching(self, state: BeamState) -> int:
        """How many sentences are not done yet, or were not a step ago."""
        ...


@dataclass(frozen=True)
class PlainSteps:
    """Every operation when it is asked for, on sizes as they are."""

    model: Transformer
    marks: Marks
    options: SearchOptions
    multiple = 1

    @property
    def leave(self) -> float:
        return LEAVE

    def encode(self, source: Tensor, constraints: ConstraintTensors | None) -> DecoderMemory:
        return self.model.decoder_memory(self.model.encode(source, constraints))

    def start_cache(self, batch: int, beam: int) -> SelfAttentionCache:
        return self.model.start_cache(batch, beam)

    def size(self, sentences: int) -> int:
        return sentences

    def fitting(self, sentences: int) -> int:
        return sentences

    def width(self, longest: int) -> int:
        return longest

    def enter(self, state: BeamState) -> BeamState:
        return state

    def advance(self, state: BeamState, near_limit: bool) -> None:
        scores = extend(self.model, state)
        take_step(state, scores, self.marks, self.options, near_limit)

    def searching(self, state: BeamState) -> int:
        return int(state.searching.sum())


@torch.no_grad()
def beam_search(
    model: Transformer,
    memory: DecoderMemory,
    limits: Tensor,
    marks: Marks,
    options: SearchOptions,
    automaton: Automaton | None = None,
    steps: Steps | None = None,
    guide: Guide | None = None,
    usual: Tensor | None = None,
    deadlines: Tensor | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first. limits: (batch,) longest output of each.

    The limits are wanted on the host: to read them from a device, it would have to wait for the encoder.
    usual: (batch,) lengths up to which scores are divided by length. An output that must meet what the model would not
    say is otherwise the better for every easy token it puts between.
    deadlines: (batch,) lengths by which outputs have met all that they must; None: the limits.
    meanwhile: what the host may do while a device has steps to take; not called where a search is over before.
    """
    steps = steps or PlainSteps(model, marks, options)
    limits = limits.cpu().clamp(max=options.max_length)
    earliest = int(limits.min())  # no limit is reached before this step
    last = int(limits.max()) + (0 if options.cut else 1)  # all are done after this one
    state = _start(memory, limits, marks, options, automaton, steps, usual, deadlines)
    state.guidance = guide.start(state.newest.shape[1]) if guide else None
    if (size := steps.size(len(limits))) > len(limits):
        _select(state, _filled_up(torch.arange(len(limits), device=state.limits.device), size))
    state = steps.enter(state)
    results: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    while True:
        if state.cache.length == state.cache.capacity:
            state.cache.grow()
            state = steps.enter(state)
        steps.advance(state, near_limit=state.cache.length >= earliest)
        if state.cache.length == AHEAD and meanwhile:
            meanwhile()
        # The one moment of a step at which the host may wait for the device.
        searching = 0 if state.cache.length >= last else steps.searching(state)
        if searching == 0:
            _emit(state, marks, results)
            return results
        size = steps.size(searching)
        if size <= (1 - steps.leave) * len(state.searching):
            _emit(state, marks, results)
            _select(state, _filled_up(state.searching.nonzero().flatten(), size))
            state = steps.enter(state)


def _start(
    memory: DecoderMemory,
    limits: Tensor,
    marks: Marks,
    options: SearchOptions,
    automaton: Automaton | None,
    steps: Steps,
    usual: Tensor | None,
    deadlines: Tensor | None,
) -> BeamState:
    batch, beam, device = len(limits), options.beam, memory.visible.mask.device
    cache = steps.start_cache(batch, beam)
    # All hypotheses begin alike: the first step has but one, or where sizes are fixed, one that is possible.
    first = beam if isinstance(cache, FixedCache) else 1
    scores = torch.full((batch, first), IMPOSSIBLE, device=device)
    scores[:, 0] = 0.0
    width = steps.width(int(limits.max()) + 2)
    tokens = torch.full((batch, beam, width), marks.end, dtype=torch.long, device=device)
    tokens[:, :, 0] = marks.begin
    slots = memory.output.slots if memory.output else None
    never = sent(torch.tensor(marks.never, dtype=torch.long), device)
    touched = F.pad(never, (0, 1), value=marks.end).expand(batch, -1)
    return BeamState(
        sentences=torch.arange(batch, device=device),
        limits=sent(limits, device),
        searching=torch.ones(batch, dtype=torch.bool, device=device),
        newest=tokens[:, :first, 0],
        tokens=tokens[:, :first],
        scores=scores,
        progress=slots.start(first) if slots else None,
        cache=cache,
        finished_tokens=tokens.clone(),
        finished_scores=torch.full((batch, beam), IMPOSSIBLE, device=device),
        finished_logs=torch.full((batch, beam), IMPOSSIBLE, device=device),
        enough=_enough(batch, options, automaton, device),
        usual=torch.full((batch,), NO_LENGTH, device=device) if usual is None else sent(usual, device),
        deadlines=sent(limits if deadlines is None else torch.minimum(deadlines, limits), device),
        memory=memory,
        never=never,
        touched=torch.cat([touched, memory.output.tokens], dim=1) if memory.output and has_kernels(device) else touched,
        automaton=automaton,
        place=Place.start(batch, first, device) if automaton else None,
    )


def _enough(batch: int, options: SearchOptions, automaton: Automaton | None, device: torch.device) -> Tensor:
    """(batch,) How many finished outputs sentences wait for.

    Where something must be met, hypotheses that have not met it stay ahead of those that have, and end late: the rest
    of a full list would be outputs that babbled until they had.
    """
    full = torch.full((batch,), options.beam, device=device)
    if automaton is None or not options.enough:
        return full
    return full.masked_fill(automaton.everything != 0, min(options.enough, options.beam))


def extend(model: Transformer, state: BeamState) -> Scores:
    """The scores of what may follow each hypothesis."""
    alignment = None
    if state.guidance is None:
        states = model.step(state.newest, state.cache, state.memory)
    else:
        states, alignment = model.step_aligned(state.newest, state.cache, state.memory)
    scores = model.scores(states, state.memory.output, state.progress)
    scores.values.index_fill_(2, state.never, IMPOSSIBLE)
    if state.guidance is not None and alignment is not None:
        closing = state.length > state.limits  # the step being taken is counted already
        state.guidance, scores = state.guidance.impose(alignment, scores, closing)
    return scores


def take_step(state: BeamState, scores: Scores, marks: Marks, options: SearchOptions, near_limit: bool) -> None:
    """What follows from the scores. near_limit: some sentence may have reached its limit."""
    candidates, places = _candidates(state, scores, marks, options)
    if isinstance(state.cache, FixedCache) and state.guidance is None and has_kernels(state.scores.device):
        from termweave.decoding import step_kernels

        if step_kernels.can_finish(state):
            step_kernels.finish(state, candidates, places, scores, marks.end, options)
            return
    if near_limit:
        at_limit = state.length > state.limits  # the step being taken is counted already
        ending = only_ending(scores, state.scores, marks.end, 2 * options.beam)
        candidates = choose(at_limit, ending, candidates)
    if step_loops.can_finish(state):
        norms = _normaliser(state, state.length, options), _normaliser(state, state.length + 1, options)
        step_loops.finish(state, candidates, places, norms, marks.end, options.cut)
        return
    _collect_finished(state, candidates, marks, options)
    _keep_best(state, candidates, places, marks)
    state.searching = state.searching & ~_done(state, options)


def _candidates(
    state: BeamState, scores: Scores, marks: Marks, options: SearchOptions
) -> tuple[Candidates, Place | None]:
    """The best 2 · beam continuations of each sentence: enough to keep `beam` of them even if all of them can end."""
    count = 2 * options.beam
    wished, places = None, None
    if state.automaton is not None and state.place is not None:
        wished, scores = close_ends(state.automaton, state.place, scores, marks.end)
    best, own_best = best_continuations(scores, state.scores, count, state.touched, each=wished is not None)
    if state.automaton is not None and state.place is not None and wished is not None and own_best is not None:
        best, places = choose_by_bank(
            state.automaton,
            state.place,
            best,
            own_best,
            scores,
            state.scores,
            wished,
            limits=torch.maximum(state.deadlines, state.length),  # nothing may be missing behind a deadline
            length=state.length,
            end=marks.end,
            count=count,
            aware=options.aware,
        )
    return best, places


def _collect_finished(state: BeamState, candidates: Candidates, marks: Marks, options: SearchOptions) -> None:
    """Ends among the best `beam` candidates compete for a place in the finished list, until the sentence is done."""
    beam = options.beam
    tokens = candidates.tokens[:, :beam]
    ends = tokens == marks.end
    if options.cut:
        ends = ends | (state.length >= state.limits).unsqueeze(1)
    ends = ends & state.searching.unsqueeze(1)
    logs = candidates.scores[:, :beam].masked_fill(~ends, IMPOSSIBLE)
    normalised = logs / _normaliser(state, state.length, options).unsqueeze(1)
    pool_scores = torch.cat([state.finished_scores, normalised], dim=1)
    pool_logs = torch.cat([state.finished_logs, logs], dim=1)
    pool = torch.cat([state.finished_tokens, _continued(state, candidates.parents[:, :beam], tokens)], dim=1)
    state.finished_scores, best = pool_scores.topk(beam, dim=1)
    state.finished_logs = pool_logs.gather(1, best)
    state.finished_tokens = pool.gather(1, best.unsqueeze(2).expand(-1, -1, pool.shape[2]))


def _normaliser(state: BeamState, length: Tensor, options: SearchOptions) -> Tensor:
    """(batch,) What log P of outputs of this length is divided by."""
    counted: Tensor = torch.minimum(length, state.usual).float() ** options.length_penalty
    return counted


def _continued(state: BeamState, parents: Tensor, tokens: Tensor) -> Tensor:
    """(batch, n, longest + 2): the hypotheses `parents` with one token more, (batch, n) each."""
    rows = state.tokens.gather(1, parents.unsqueeze(2).expand(-1, -1, state.tokens.shape[2]))
    place = state.length.view(1, 1, 1).expand(*tokens.shape, 1)
    return rows.scatter_(2, place, tokens.unsqueeze(2))


def _keep_best(state: BeamState, candidates: Candidates, places: Place | None, marks: Marks) -> None:
    """The first `beam` candidates that did not end become the hypotheses."""
    ends = (candidates.tokens == marks.end) | (candidates.scores == IMPOSSIBLE)
    kept = ends.byte().argsort(dim=1, stable=True)[:, : state.cache.beam]
    state.scores = candidates.scores.masked_fill(ends, IMPOSSIBLE).gather(1, kept)
    parents = candidates.parents.gather(1, kept)
    state.newest = candidates.tokens.gather(1, kept)
    state.cache.reorder(parents)
    state.tokens = _continued(state, parents, state.newest)
    if state.progress is not None:
        assert state.memory.output is not None and state.memory.output.slots is not None
        state.progress = state.memory.output.slots.follow(state.progress, parents, state.newest)
    state.place = None if places is None else places.gather(kept)
    state.guidance = state.guidance.follow(parents) if state.guidance else None


def _done(state: BeamState, options: SearchOptions) -> Tensor:
    """(batch,) Is enough finished, and would the best open hypothesis not get among that by ending now?"""
    ending_now = state.scores.amax(dim=1) / _normaliser(state, state.length + 1, options)
    worst = state.finished_scores.gather(1, state.enough.unsqueeze(1) - 1).squeeze(1)
    at_limit = state.length >= state.limits if options.cut else state.length > state.limits
    done: Tensor = (worst >= ending_now) | at_limit
    return done


def _emit(state: BeamState, marks: Marks, results: list[list[Hypothesis]]) -> None:
    """Hand out what was found for the sentences that are done."""
    searching, sentences, tokens = (
        tensor.cpu().numpy() for tensor in (state.searching, state.sentences, state.finished_tokens)
    )
    scores, logs = state.finished_scores.cpu().numpy(), state.finished_logs.cpu().numpy()
    found = (~searching & (sentences != NOBODY))[:, None] & (scores > IMPOSSIBLE)
    tokens = tokens[found][:, 1:]
    lengths = (tokens == marks.end).argmax(axis=1)
    # All tokens at once: making a tuple of each hypothesis by itself would take most of the time.
    every = tuple(tokens[np.arange(tokens.shape[1]) < lengths[:, None]].tolist())
    whose = np.broadcast_to(sentences[:, None], found.shape)[found].tolist()
    ends = [0, *np.cumsum(lengths).tolist()]
    parts = zip(whose, ends[:-1], ends[1:], scores[found].tolist(), logs[found].tolist(), strict=True)
    for sentence, start, end, score, log in parts:
        results[sentence].append(Hypothesis(every[start:end], score, log))


def _filled_up(rows: Tensor, size: int) -> Tensor:
    """(size,): the rows, and NOBODY's behind them."""
    return F.pad(rows, (0, size - len(rows)), value=NOBODY)


def _select(state: BeamState, rows: Tensor) -> None:
    """Keep some sentences of the batch; NOBODY stands for a copy of some other that is not searched."""
    real = rows != NOBODY
    rows = rows.clamp(min=0)
    state.cache.select(rows)
    state.memory = state.memory.select(rows)
    state.progress = state.progress.select(rows) if state.progress else None
    state.automaton = state.automaton.select(rows) if state.automaton else None
    state.place = state.place.select(rows) if state.place else None
    state.guidance = state.guidance.select(rows) if state.guidance else None
    own = ("sentences", "limits", "deadlines", "usual", "searching", "enough", "newest", "tokens", "scores", "touched")
    for name in (*own, "finished_tokens", "finished_scores", "finished_logs"):
        setattr(state, name, getattr(state, name).index_select(0, rows))
    state.sentences = state.sentences.masked_fill(~real, NOBODY)
    state.searching = state.searching & real
