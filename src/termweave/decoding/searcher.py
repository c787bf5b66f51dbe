"""Batches of requests through the search: laid out, sent to the model's device, searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from termweave.accelerators import current, sent
from termweave.data.batches import ConstraintTensors, constraints_from_ids, pad_rows
from termweave.decoding.automaton import Automaton
from termweave.decoding.batching import Early, Request, deadlines, tightened, usual_lengths
from termweave.decoding.beam import Hypothesis, Marks, PlainSteps, SearchOptions, Steps, beam_search
from termweave.decoding.cdalign import Guide
from termweave.decoding.crew import by_crew, crew_size
from termweave.decoding.demands import make_demands, word_joins
from termweave.decoding.recorded import RecordedSteps
from termweave.decoding.tables import compile_tables
from termweave.errors import CheckpointError
from termweave.model.known_terms import KnownTerms
from termweave.model.transformer import Transformer
from termweave.text.vocabulary import Vocabulary

LENGTH_FACTOR, LENGTH_EXTRA = 2, 20  # an output may have so many times the source's subwords, and so many more

Outputs = list[list[Hypothesis]]  # of each sentence of a batch


@dataclass(frozen=True)
class LaidOut:
    """A batch as the search takes it, on its device or on the way there."""

    requests: Sequence[Request]
    source: Tensor
    constraints: ConstraintTensors | None
    limits: Tensor
    automaton: Automaton | None
    further: dict[str, Any]  # for `beam_search`


class Searcher:
    """A model's search, with the steps it has recorded."""

    def __init__(self, model: Transformer, subwords: Vocabulary) -> None:
        self.model, self.subwords = model, subwords
        self.known_terms = KnownTerms(model) if KnownTerms.can_know(model) else None
        self._recorded: dict[SearchOptions, RecordedSteps] = {}

    @cached_property
    def marks(self) -> Marks:
        subwords = self.subwords
        return Marks(subwords.bos, subwords.eos, (subwords.pad, subwords.bos, *subwords.tags.values()))

    def steps(self, options: SearchOptions) -> Steps:
        """On a GPU, steps are recorded and kept; elsewhere they are taken as they come."""
        if self.model.embedding.device.type != "cuda":
            return PlainSteps(self.model, self.marks, options)
        if options not in self._recorded:
            # Those used last stay: a search and the wider one after it take turns.
            kept = dict(list(self._recorded.items())[-1:])
            self._recorded = kept | {options: RecordedSteps(self.model, self.marks, options)}
        return self._recorded[options]

    def search_each(
        self, batches: Sequence[Sequence[Request]], lead: Sequence[int], options: SearchOptions
    ) -> Iterator[Outputs]:
        """Outputs of each batch: several are searched at once on a CPU; a GPU gets one when it has done the other.

        That is laid out while it is still at work.
        """
        if (crew := crew_size(self.model.embedding.device)) > 1:
            yield from by_crew(lambda own: self.search(self.lay_out(own, lead, options), options), batches, crew)
            return
        laid_out = Early(self.lay_out(batch, lead, options) for batch in batches)
        for batch in laid_out:
            yield self.search(batch, options, laid_out.make)

    @torch.inference_mode()
    def lay_out(
        self, batch: Sequence[Request], lead: Sequence[int], options: SearchOptions, strict: bool = False
    ) -> LaidOut:
        """lead: tokens before every source. strict: see `make_demands`."""
        with current(self.model.embedding.device):
            return self._lay_out(batch, lead, options, strict)

    def _lay_out(self, batch: Sequence[Request], lead: Sequence[int], options: SearchOptions, strict: bool) -> LaidOut:
        subwords, device, steps = self.subwords, self.model.embedding.device, self.steps(options)
        rows = [[*lead, *request.source, subwords.eos] for request in batch]
        lengths = np.array([len(row) for row in rows])
        width = steps.width(int(lengths.max()))
        source = torch.from_numpy(pad_rows(np.concatenate(rows), lengths, width, subwords.pad))
        pairs = [request.constraints for request in batch]
        constraints = constraints_from_ids(pairs, subwords.pad, steps.multiple > 1, device)
        if constraints is not None and self.known_terms is not None:
            constraints = replace(constraints, known=self.known_terms.recall(pairs, constraints))
        limits = torch.from_numpy(lengths * LENGTH_FACTOR + LENGTH_EXTRA)
        automaton: Automaton | None = None
        further: dict[str, Any] = {}
        if any(request.wishes for request in batch):
            demands = [make_demands(request.wishes, subwords, strict) for request in batch]
            tables = compile_tables(demands, word_joins(subwords, strict), steps.multiple, device.type == "cuda")
            limits = limits + tables.total * LENGTH_FACTOR  # however many the constraints are, there is room
            if not strict:  # what was not found so, is looked for with all of it
                limits = tightened(limits, batch, tables.total)
            automaton, further = tables.on(device), {"usual": usual_lengths(batch, tables.total)}
            if options.aware and not strict:
                further["deadlines"] = deadlines(batch, tables.total)
        if any(request.placed for request in batch):
            guide = Guide.of([request.placed for request in batch], width, len(lead), steps.multiple)
            further, limits = {"guide": guide.to(device)}, limits + guide.total * LENGTH_FACTOR
        return LaidOut(batch, sent(source, device), constraints, limits, automaton, further)

    @torch.inference_mode()
    def search(self, batch: LaidOut, options: SearchOptions, meanwhile: Callable[[], object] | None = None) -> Outputs:
        with current(self.model.embedding.device):
            steps = self.steps(options)
            memory = steps.encode(batch.source, batch.constraints)
            given = (memory, batch.limits, self.marks, options, batch.automaton, steps)
            found = beam_search(self.model, *given, **batch.further, meanwhile=meanwhile)
        if not all(found) and batch.automaton is None:
            raise CheckpointError("the model gives no probabilities; its weights are damaged or training diverged")
        return found
