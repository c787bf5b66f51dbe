"""Steps of the search, and the encoder before them, as CUDA graphs: recorded once for each combination of sizes, then
replayed by a single call.

A step is some hundred small operations. On a GPU each takes a few microseconds, less than it takes the host to ask for
it, so the host would set the pace. A graph asks for all of them at once, but on the same memory every time. So states
live on stages: a stage is memory for one combination of sizes, and the recordings made there. To keep the combinations
few, sizes are rounded up; rows that only fill up the batch belong to nobody and are never searched.
"""

from __future__ import annotations

import copy
import gc
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from termweave.data.batches import WIDTH_MULTIPLE, ConstraintTensors, round_up
from termweave.decoding.beam import AHEAD, BeamState, Marks, SearchOptions, extend, take_step
from termweave.model.attention import KeysValues
from termweave.model.cache import SelfAttentionCache
from termweave.model.transformer import DecoderMemory, Transformer

# There is room for at first; doubled when needed. Most outputs are shorter, and to move costs as much as two steps.
STEPS = 32
WIDTH = 16  # lengths are multiples of this
MOST_STAGES = 64
MOST_ENCODERS = 16
SMALL = 2**20  # bytes of a tensor that is copied along with others
MEMORY_SHARE = 0.125  # of the device, for the stages of one search; the wider one after it has as much

Value = TypeVar("Value")


@dataclass
class Stage:
    """Memory that never moves, for states of the same sizes."""

    state: BeamState
    leaves: list[Tensor]  # its tensors
    # By `near_limit`; None where the step was taken once, and is still to be recorded.
    recordings: dict[bool, torch.cuda.CUDAGraph | None] = field(default_factory=dict)

    @cached_property
    def bytes(self) -> int:
        return sum(leaf.nbytes for leaf in self.leaves)


@dataclass(frozen=True)
class RecordedEncoder:
    """The encoder for sentences of one combination of sizes."""

    inputs: list[Tensor]  # where the sentences and their constraints must lie
    memory: DecoderMemory  # where the result will lie
    graph: torch.cuda.CUDAGraph


class FixedSteps:
    """Steps whose sizes and memory stay as they are, taken one by one. They run on any device."""

    leave = 0.75  # rows cost a GPU little, other sizes another recording
    multiple = WIDTH_MULTIPLE

    def __init__(self, model: Transformer, marks: Marks, options: SearchOptions, most_bytes: float = 2**31) -> None:
        self.model, self.marks, self.options = model, marks, options
        self.most_bytes = most_bytes
        self._stages: OrderedDict[Hashable, Stage] = OrderedDict()
        self._stage: Stage | None = None
        self._empty: dict[int, SelfAttentionCache] = {}  # by beam: a cache of one sentence in which nothing is yet

    def encode(self, source: Tensor, constraints: ConstraintTensors | None) -> DecoderMemory:
        return self.model.decoder_memory(self.model.encode(source, constraints))

    def start_cache(self, batch: int, beam: int) -> SelfAttentionCache:
        """Nothing is in it yet: all sentences share one sentence's zeros, until these are copied onto a stage."""
        if beam not in self._empty:
            self._empty[beam] = self.model.start_fixed_cache(1, beam, STEPS)
        return mapped(
            self._empty[beam], lambda tensor: tensor.expand(batch, *tensor.shape[1:]) if tensor.dim() else tensor
        )

    def size(self, sentences: int) -> int:
        """1, 2, 3, 4, 6, 8, 12, 16, 24, …"""
        power = 1 << (sentences - 1).bit_length()
        return power * 3 // 4 if sentences <= power * 3 // 4 else power

    def fitting(self, sentences: int) -> int:
        """The largest number of sentences, up to this one, that needs no filling up."""
        return next(number for number in range(sentences, 0, -1) if self.size(number) == number)

    def width(self, longest: int) -> int:
        return round_up(longest, WIDTH)

    def enter(self, state: BeamState) -> BeamState:
        """Put a state on its stage."""
        tensors = leaves(state)
        key = _signature(state, tensors)
        stage = self._stages.pop(key, None)
        if stage is None:
            copied = mapped(state, lambda tensor: tensor.clone(memory_format=torch.contiguous_format))
            stage = Stage(copied, leaves(copied))
        else:
            copy_leaves(stage, state, tensors)
        self._stages[key] = self._stage = stage
        self._forget()
        entered = _same(stage.state)  # what happens to its attributes must not happen to the stage's
        entered.cache.length = state.cache.length
        return entered

    def _forget(self) -> None:
        """Drop the stages that were not used for the longest time, if there are too many or they are too large."""
        while len(self._stages) > 1 and (
            len(self._stages) > MOST_STAGES or sum(stage.bytes for stage in self._stages.values()) > self.most_bytes
        ):
            self._drop()

    def _drop(self) -> None:
        self._stages.popitem(last=False)

    def advance(self, state: BeamState, near_limit: bool) -> None:
        assert self._stage is not None
        self._perform(self._stage, near_limit)
        state.cache.length += 1

    def searching(self, state: BeamState) -> int:
        return int(state.searching.sum())

    def _perform(self, stage: Stage, near_limit: bool) -> None:
        self._take(stage, near_limit)

    def _take(self, stage: Stage, near_limit: bool) -> None:
        """A step, whose results go where the state was."""
        state = _same(stage.state)
        scores = extend(self.model, state)
        take_step(state, scores, self.marks, self.options, near_limit)
        for own, new in zip(stage.leaves, leaves(state), strict=True):
            if new is not own:
                own.copy_(new)


class RecordedSteps(FixedSteps):
    """The same on a GPU, as graphs."""

    def __init__(self, model: Transformer, marks: Marks, options: SearchOptions) -> None:
        memory = torch.cuda.get_device_properties(model.embedding.device).total_memory
        super().__init__(model, marks, options, MEMORY_SHARE * memory)
        # No two recordings run at once, and none leaves anything behind but on its stage: they can share the rest.
        self._pool = torch.cuda.graph_pool_handle()
        # None where sentences of these sizes were encoded once, and the encoder is still to be recorded.
        self._encoders: OrderedDict[Hashable, RecordedEncoder | None] = OrderedDict()
        # How many sentences are not done. Every step writes it by itself, where the host can read it without asking.
        self._open = torch.zeros((), dtype=torch.long, pin_memory=True)
        self._taken = torch.cuda.Event()  # type: ignore[no-untyped-call]  # the step whose number is waited for

    def encode(self, source: Tensor, constraints: ConstraintTensors | None) -> DecoderMemory:
        """Recorded like steps. The memory stays the recording's; `enter` copies it onto the stage."""
        given = (source, constraints)
        tensors = leaves(given)
        key = tuple((leaf.shape, leaf.dtype) for leaf in tensors)
        if key not in self._encoders:
            self._encoders[key] = None
            return super().encode(source, constraints)
        encoder = self._encoders.pop(key)
        if encoder is None:
            inputs = mapped(given, lambda tensor: tensor.clone(memory_format=torch.contiguous_format))
            graph = torch.cuda.CUDAGraph()
            with recording(graph, self._pool):
                memory = super().encode(*inputs)
            encoder = RecordedEncoder(leaves(inputs), memory, graph)
        self._encoders[key] = encoder
        while len(self._encoders) > MOST_ENCODERS:
            self._encoders.popitem(last=False)
        torch._foreach_copy_(encoder.inputs, tensors)
        encoder.graph.replay()
        return encoder.memory

    def _perform(self, stage: Stage, near_limit: bool) -> None:
        """The first time as it comes, which also warms up what cannot be recorded; the second time it is recorded."""
        if near_limit not in stage.recordings:
            stage.recordings[near_limit] = None
            self._take(stage, near_limit)
            return
        graph = stage.recordings[near_limit]
        if graph is None:
            graph = torch.cuda.CUDAGraph()
            with recording(graph, self._pool):
                self._take(stage, near_limit)
            stage.recordings[near_limit] = graph
        graph.replay()

    def _drop(self) -> None:
        self._taken.synchronize()  # the stage may be that of a step still under way
        super()._drop()

    def _take(self, stage: Stage, near_limit: bool) -> None:
        super()._take(stage, near_limit)
        self._open.copy_(stage.state.searching.sum(), non_blocking=True)

    def searching(self, state: BeamState) -> int:
        """As of the step before the one just asked for: the device goes on while the host waits, and never for it.

        So there may be a step too many in the end, which changes nothing of sentences that are done. Nobody waits for
        the first steps at all, so that the host has time for something else.
        """
        before, self._taken = self._taken, torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._taken.record()
        if state.cache.length <= AHEAD:
            return len(state.searching)
        before.synchronize()
        return int(self._open)


@contextmanager
def recording(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """What is asked of the device inside becomes the graph.

    Garbage stays where it is meanwhile: among it may be the graphs of a model that is no longer used, and CUDA does not
    allow that one is thrown away while another is recorded.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            yield
    finally:
        if collecting:
            gc.enable()


def copy_leaves(stage: Stage, state: BeamState, tensors: list[Tensor]) -> None:
    """Put the tensors of a state where those of the stage lie.

    Before the first step nothing was written into the cache: what an earlier search left there is hidden all the same.
    """
    unread = {id(leaf) for leaf in leaves(stage.state.cache.layers)} if state.cache.length == 0 else set()
    _copy_each([pair for pair in zip(stage.leaves, tensors, strict=True) if id(pair[0]) not in unread])


def _copy_each(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Put the second of each pair where the first lies.

    On a GPU, torch copies many tensors by one kernel if all are of one type and lie as what they are copied to; else it
    copies one by one, and a kernel for each small tensor takes longer than its copying. Large ones need one anyway.
    """
    together: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for own, new in pairs:
        if own.nbytes <= SMALL and new.is_contiguous():
            to, given = together.setdefault(own.dtype, ([], []))
            to.append(own)
            given.append(new)
        else:
            own.copy_(new)
    for to, given in together.values():
        torch._foreach_copy_(to, given)


def mapped(value: Value, function: Callable[[Tensor], Tensor]) -> Value:
    """A copy of a state, or of a part of one, with a function applied to every tensor."""
    result: object = value
    if isinstance(value, Tensor):
        result = function(value)
    elif isinstance(value, SelfAttentionCache):
        result = copy.copy(value)
        result.layers = mapped(value.layers, function)
        result.position, result.ancestry = function(value.position), function(value.ancestry)
    elif isinstance(value, KeysValues):
        result = KeysValues(*(function(tensor) for tensor in value))
    elif isinstance(value, list | tuple):
        result = type(value)(mapped(part, function) for part in value)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {entry.name: mapped(getattr(value, entry.name), function) for entry in fields(value)}
        result = replace(value, **parts)
    return result  # type: ignore[return-value]


def leaves(value: object) -> list[Tensor]:
    """All tensors of a state, always in the same order."""
    if isinstance(value, Tensor):
        return [value]
    parts: Iterable[object] = ()
    if isinstance(value, SelfAttentionCache):
        parts = (value.layers, value.position, value.ancestry)
    elif isinstance(value, list | tuple):
        parts = value
    elif is_dataclass(value):
        parts = vars(value).values()
    return [leaf for part in parts for leaf in leaves(part)]


def _same(state: BeamState) -> BeamState:
    """Another record of the very same tensors."""
    same = copy.copy(state)
    same.cache = copy.copy(state.cache)
    return same


def _signature(state: BeamState, tensors: list[Tensor]) -> Hashable:
    """What two states must share for the same recording to serve both."""
    memory, automaton = state.memory.output, state.automaton
    present = [part is not None for part in (state.progress, memory, automaton, automaton and automaton.never)]
    if memory is not None:
        parts = (memory.vectors, memory.keys, memory.context, memory.slots, memory.token_gate)
        present += [part is not None for part in parts]
    if automaton is not None:
        present += [automaton.forbids, automaton.orders]
    return (*present, *((leaf.shape, leaf.dtype) for leaf in tensors))
