"""`Translator`, the one façade between text and the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from termweave.accelerators import choose_device, current
from termweave.constraints.constraint import Constraint
from termweave.constraints.glossary import Glossary
from termweave.constraints.source_places import replace_sources
from termweave.data.batches import constraints_from_ids
from termweave.decoding.automaton import MOST_BITS
from termweave.decoding.batching import UNKNOWN_EXPANSION, Request, batches, has_few, wishes_of
from termweave.decoding.beam import Hypothesis, SearchOptions
from termweave.decoding.cdalign import place_constraints
from termweave.decoding.crew import by_crew, crew_size, share_of
from termweave.decoding.demands import (
    Pair,
    Wishes,
    can_be_counted,
    is_kept,
    locate,
    permitted,
    require_possible,
    said,
    side_by_side,
    spelled_otherwise,
    told_as,
)
from termweave.decoding.flaws import best_first, is_flawed, mended, nearly_as_good, stricter
from termweave.decoding.forced import ScoredOutput, score_outputs
from termweave.decoding.options import Search, require_lists, require_options, require_phrases
from termweave.decoding.searcher import Outputs, Searcher
from termweave.decoding.surplus import without_more, without_surplus
from termweave.decoding.terminology import Receipt, Terminology, TermPlan
from termweave.errors import ConfigError, ConstraintError, DataError
from termweave.model.checkpoint import Checkpoint, is_packed, load_checkpoint, load_settings, ready_model
from termweave.model.inspection import inspect
from termweave.model.transformer import POSITIONS, PRECISIONS
from termweave.progress import progress_bar
from termweave.text.words import BROKEN, Span, normalise

ATTEMPTS = 20  # searches of a sentence whose text does not keep what was wished for


@dataclass(frozen=True)
class Translation:
    """One translated sentence."""

    text: str
    score: float  # log P divided by length, see `Hypothesis`; 0 for an empty sentence
    spans: tuple[Span | None, ...] = ()  # where each constraint stands in the text, None if it does not
    others: tuple[Translation, ...] = ()  # the next best, if they were asked for
    tokens: tuple[int, ...] = ()  # the subwords the search produced; the same text could be cut otherwise
    receipts: tuple[Receipt, ...] = ()  # what became of each term of the glossary

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class InspectedOutput:
    """Attention of the decoder to the source and to the constraints, (layers, heads, output, …), and its gates."""

    source_pieces: tuple[str, ...]
    constraint_pieces: tuple[str, ...]  # of the constraints' sources, one after the other: they are the keys
    output_pieces: tuple[str, ...]
    source: Tensor
    constraints: Tensor
    gates: Tensor  # (output,) how far the gate to the constraints was open


class Translator:
    """Translates sentences with constraints.

    >>> translator = Translator.load("runs/toy/model/stage2/final")                              # doctest: +SKIP
    >>> translator.translate(["der Lehrer kauft das Haus"], [[Constraint("Haus", "building")]])  # doctest: +SKIP
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.model = checkpoint.model.eval()
        self.subwords = checkpoint.subwords
        self.directions = checkpoint.directions
        self.expansions = checkpoint.expansions
        self._searcher = Searcher(self.model, self.subwords)

    @classmethod
    def load(cls, path: str | Path | None = None, device: str = "auto", precision: str = "auto") -> Translator:
        """Open a model folder; None: the ready model. device: "cpu", "cuda", or "auto" for a GPU where there is one.

        precision: "float32", "bfloat16", or "int8", which is the fastest on a CPU and runs nowhere else; "auto": that,
        on a CPU, for a model whose weights are kept so anyway, and else float32.
        """
        chosen = choose_device(device)
        folder = ready_model() if path is None else Path(path)
        if precision == "auto":
            load_settings(folder)  # is it a model folder at all?
            precision = "int8" if chosen.type == "cpu" and is_packed(folder) else "float32"
        if precision not in PRECISIONS:
            raise ConfigError(f"unknown precision {precision!r}; use one of: auto, {', '.join(PRECISIONS)}")
        if precision == "int8" and chosen.type != "cpu":
            raise ConfigError("precision int8 runs on the CPU only; use device cpu, or bfloat16")
        checkpoint = load_checkpoint(folder, chosen)
        checkpoint.model.use_precision(precision)
        return cls(checkpoint)

    @property
    def takes_constraints(self) -> bool:
        """Does the model itself know of constraints?"""
        return self.model.config.attention or self.model.config.output

    def translate(
        self,
        sentences: Sequence[str],
        constraints: Sequence[Sequence[Constraint]] | None = None,
        *,
        direction: str | None = None,
        search: Search = "vdba",
        beam: int = 4,
        nbest: int = 1,
        ordered: bool = False,
        forbidden: Sequence[str] = (),
        terminology: Terminology | Glossary | None = None,
        length_penalty: float = 1.0,
        batch_tokens: int = 4096,
        progress: bool = False,
    ) -> list[Translation]:
        """Translate sentences; constraints: for each sentence, what must become what.

        terminology: a glossary, whose terms are found in the sentences; the translations then carry `receipts`.

        search: "vdba" guarantees that every constraint stands in the output as whole words, "beam" leaves it to the
        model, "cdalign" puts constraints where the model's alignment module points to. ordered: the constraints must
        come in the order they are given. forbidden: phrases that must stand in no output. Both need "vdba". nbest: so
        many translations of each sentence, the further ones in `others`. batch_tokens bounds memory: source subwords,
        padding included, that are translated at once.
        """
        # Of several outputs some may not keep to the wishes: then as many as there are places are waited for.
        enough = 1 if nbest == 1 else 0
        options = SearchOptions(beam, length_penalty, POSITIONS - 2, self.takes_constraints, enough=enough)
        require_options(options, search, nbest, ordered, batch_tokens)
        require_phrases(forbidden, search)
        wanted = self._wanted(sentences, constraints, search)
        self._tag(direction)
        plans = self._plans(sentences, terminology, direction)
        rows = zip(sentences, wanted, plans, strict=True)
        bound = search == "vdba"
        requests = [
            self._request(index, *row, wishes_of(*row[1:], forbidden, ordered) if bound else Wishes(), direction)
            for index, row in enumerate(rows)
        ]
        if search == "cdalign":
            requests = [self._guided(request, sentences[request.index], direction) for request in requests]
        results = [Translation("", 0.0)] * len(requests)
        with progress_bar("translating", len(requests), shown=progress) as advance:
            wanting = [request for request in requests if request.source]
            for request, found in self._find(wanting, direction, options, nbest, batch_tokens):
                results[request.index] = self._translation(request, found[:nbest], direction)
                advance(1)
        return results

    @torch.inference_mode()
    def inspect(
        self, sentence: str, output: str, constraints: Sequence[Constraint] = (), *, direction: str | None = None
    ) -> InspectedOutput:
        """What the model looks at while it produces an output, its own or any other: attention weights and gates."""
        tag = self._tag(direction)
        wanted = self._wanted([sentence], [constraints], "vdba")
        request = self._request(0, sentence, wanted[0], TermPlan(), Wishes(), direction)
        tokens = self.subwords.target.encode(normalise(output))
        if len(tokens) > POSITIONS - 2:
            raise DataError(f"the output has {len(tokens)} subwords, the limit is {POSITIONS - 2}")
        device = self.model.embedding.device
        source = [*([] if tag is None else [tag]), *request.source, self.subwords.eos]
        given = constraints_from_ids([request.constraints], self.subwords.pad, device=device)
        seen = inspect(
            self.model,
            torch.tensor([source], device=device),
            torch.tensor([[self.subwords.bos, *tokens]], device=device),
            torch.tensor([[*tokens, self.subwords.eos]], device=device),
            given,
        )
        phrases = [token for pair in request.constraints for token in pair[0]]
        return InspectedOutput(
            tuple(self.subwords.pieces(source)),
            tuple(self.subwords.pieces(phrases)),
            tuple(self.subwords.pieces([*tokens, self.subwords.eos])),
            seen.source[0].cpu(),
            seen.constraints[0, ..., : len(phrases)].cpu(),
            seen.gates[0].cpu(),
        )

    def pieces_of(self, text: str, side: Literal["source", "target"]) -> list[Span]:
        """The characters each subword of a text stands for."""
        vocabulary = self.subwords.source if side == "source" else self.subwords.target
        return vocabulary.spans(text, vocabulary.encode(text))

    def token_probabilities(
        self,
        sentences: Sequence[str],
        outputs: Sequence[str | Translation],
        constraints: Sequence[Sequence[Constraint]] | None = None,
        *,
        direction: str | None = None,
        batch_tokens: int = 4096,
    ) -> list[ScoredOutput]:
        """P of every subword of outputs: of translations as they were produced, of texts cut into subwords anew."""
        given = [self.subwords.target.encode(normalise(own)) if isinstance(own, str) else own.tokens for own in outputs]
        pairs = zip(sentences, self._wanted(sentences, constraints, "vdba"), strict=True)
        requests = [self._request(index, *row, TermPlan(), Wishes(), direction) for index, row in enumerate(pairs)]
        with current(self.model.embedding.device):
            return score_outputs(self.model, self.subwords, requests, given, self._tag(direction), batch_tokens)

    def _wanted(
        self, sentences: Sequence[str], constraints: Sequence[Sequence[Constraint]] | None, search: Search
    ) -> Sequence[Sequence[Constraint]]:
        constraints = require_lists(sentences, constraints)
        if search == "cdalign" and self.model.alignment is None:
            raise ConfigError(
                "search cdalign needs a model with an alignment module; train one beside a finished model: "
                "termweave train CONFIG --stage alignment"
            )
        if any(constraints) and search == "beam" and not self.takes_constraints:
            raise ConstraintError(
                "this model takes no constraints (it is of stage 1, or vanilla); use a model of stage 2, or the search "
                "that guarantees them (--search vdba), or leave the constraints out (--no-constraints)"
            )
        return constraints

    def _plans(
        self, sentences: Sequence[str], terminology: Terminology | Glossary | None, direction: str | None
    ) -> list[TermPlan]:
        if terminology is None:
            return [TermPlan()] * len(sentences)
        if isinstance(terminology, Glossary):
            terminology = Terminology(terminology, direction or self.directions[0])
        if not hasattr(terminology, "plan"):
            raise ConfigError(f"terminology: give a Glossary or a Terminology, got {terminology!r}")
        return [terminology.plan(sentence) for sentence in sentences]

    def _request(
        self,
        index: int,
        sentence: str,
        constraints: Sequence[Constraint],
        plan: TermPlan,
        wishes: Wishes,
        direction: str | None,
    ) -> Request:
        where, wanted = f"sentence {index + 1}", (*constraints, *plan.told)
        if (odd := next((own for own in wanted if not isinstance(own, Constraint)), None)) is not None:
            raise ConstraintError(f"{where}: expected a Constraint, got {odd!r}")
        source = self.subwords.source.encode(self._replaced(normalise(sentence), wanted, direction))
        if len(source) > POSITIONS - 2:
            raise DataError(f"{where} has {len(source)} subwords, the limit is {POSITIONS - 2}; split it first")
        pairs = [self._pair(constraint, where) for constraint in wanted]
        if wishes:
            wishes = permitted(wishes, self._language(direction), where)
            require_possible(wishes, self._language(direction), POSITIONS - 2, self.subwords, where)
            self._require_countable(wishes, where)
            if not source and wishes.required:
                raise ConstraintError(f"{where} is empty, but has constraints")
        told = pairs if self.takes_constraints and not self.model.config.replaces_source else []
        expansion = self.expansions.get(direction or self.directions[0], UNKNOWN_EXPANSION)
        return Request(index, source, told, tuple(constraints), wishes, plan, expansion=expansion)

    def _pair(self, constraint: Constraint, where: str) -> Pair:
        """Both sides of a constraint as the model is told them."""
        ids = told_as(constraint.source, constraint.wordings, self.subwords)
        if not all(ids):
            raise ConstraintError(f"{where}: {constraint} has an empty side: nothing visible is left of it")
        if max(map(len, ids)) > POSITIONS:
            start = f"{constraint.source[:40]!r} → {constraint.target[:40]!r}"
            raise ConstraintError(f"{where}: the constraint {start} … is over-long: at most {POSITIONS} subwords")
        return ids

    def _guided(self, request: Request, sentence: str, direction: str | None) -> Request:
        """The request with its constraints' places in the source."""
        text, direction = normalise(sentence), direction or self.directions[0]
        wanted = (*request.given, *request.plan.told)
        return replace(request, placed=place_constraints(text, wanted, self.subwords, direction))

    def _replaced(self, text: str, constraints: Sequence[Constraint], direction: str | None) -> str:
        """The text the model reads: with constraints in the place of their sources, if it was trained so."""
        if not self.model.config.replaces_source:
            return text
        return replace_sources(text, constraints, (direction or self.directions[0]).partition("-")[0])

    def _require_countable(self, wishes: Wishes, where: str) -> None:
        if not can_be_counted(wishes, self.subwords):
            raise ConstraintError(
                f"{where} has {len(wishes.required)} constraints; at most {MOST_BITS} can be guaranteed at once, and "
                "fewer where a phrase that is wanted several times overlaps with itself, or where several share some "
                "alternatives. Give fewer, or use --search beam"
            )

    def _language(self, direction: str | None) -> str:
        """The language of the output."""
        return (direction or self.directions[0]).partition("-")[2]

    def _find(
        self, requests: list[Request], direction: str | None, options: SearchOptions, nbest: int, batch_tokens: int
    ) -> Iterator[tuple[Request, list[Hypothesis]]]:
        """Outputs of each sentence. What plain search finds needs no guarantee if it keeps to the wishes anyway.

        A model that knows its constraints mostly meets a few of them. The sentences where it does not are searched
        again together, with twice the beam, so that what the model would say by itself has its usual places beside the
        rest. Of many it misses some in most sentences, and a plain model meets any only where it must: those are made
        to from the start. What has flaws only is searched again as it was, with them ruled out, if they can be.
        """
        language = self._language(direction)
        crew = crew_size(self.model.embedding.device)
        together = self._together(requests, options, batch_tokens)
        tried = [[self._first_try(own) for own in batch] for batch in together]
        each = self._searcher.search_each(tried, self._lead(direction), options)
        missed, flawed = [], []
        for batch, asked_for, found in zip(together, tried, each, strict=True):
            for request, asked, hypotheses in zip(batch, asked_for, found, strict=True):
                kept = self._kept(request, hypotheses, language, nbest)
                spoken = () if asked.wishes or not hypotheses else hypotheses[0].tokens
                told = asked if asked.wishes else replace(request, spoken=spoken) if request.wishes else request
                if not (kept and (asked.wishes or kept == hypotheses[:nbest])):
                    # Nothing is ruled out beyond what was asked for, if that may be why there is no output.
                    failed = told if kept else replace(request, spoken=told.spoken)
                    missed.append(without_surplus(replace(failed, found=tuple(kept)), self.subwords))
                elif is_flawed(told, kept[0], self.subwords):
                    all_kept = tuple(self._kept(request, hypotheses, language, options.beam))
                    told = replace(told, found=all_kept, spoken=spoken)
                    if nbest == 1 and (other := nearly_as_good(told, self.subwords)):
                        yield request, [other]
                    elif (better := stricter(told, self.subwords)).wishes == told.wishes:
                        yield request, best_first(told, told.found, self.subwords)
                    else:
                        flawed.append(better)
                else:
                    yield request, kept
        wider = replace(options, beam=2 * options.beam)
        again = (missed, wider, batch_tokens // 2), (flawed, options, batch_tokens)
        work = [(batch, own) for requests, own, most in again for batch in self._together(requests, own, most)]
        # Both kinds at once: they are few, and one of them may go on for long.
        solved = by_crew(lambda item: [*self._solve(item[0], direction, item[1], nbest)], work, crew)
        yield from chain.from_iterable(solved)

    def _together(self, requests: list[Request], options: SearchOptions, batch_tokens: int) -> list[list[Request]]:
        """In batches, so many that all of the crew have work."""
        if not requests:  # steps of a kind that is not needed push out others
            return []
        crew, tokens = crew_size(self.model.embedding.device), sum(len(own.source) + 2 for own in requests)
        share = share_of(batch_tokens, tokens, crew)
        return list(batches(requests, share, self._searcher.steps(options)))

    def _first_try(self, request: Request) -> Request:
        if request.wishes.required and not (self.takes_constraints and has_few(request)):
            return without_more(request)
        return replace(request, wishes=Wishes()) if request.wishes != Wishes() else request

    def _search(
        self, lead: Sequence[int], options: SearchOptions, batch: Sequence[Request], strict: bool = False
    ) -> Outputs:
        return self._searcher.search(self._searcher.lay_out(batch, lead, options, strict), options)

    def _kept(self, request: Request, hypotheses: Sequence[Hypothesis], language: str, nbest: int) -> list[Hypothesis]:
        """The best of those whose text keeps to the wishes; no text is looked at that nobody asked for."""
        wishes = request.wishes
        kept = (own for own in hypotheses if not wishes or is_kept(self._text(request, own), wishes, language))
        return list(islice(kept, nbest))

    def _text(self, request: Request, hypothesis: Hypothesis) -> str:
        """What an output says. The mark of broken text is no part of that, unless it is asked for: models know it from
        broken text that they were trained on."""
        text = said(hypothesis.tokens, self.subwords)
        if BROKEN not in text:
            return text
        asked = [
            self.subwords.decode(request.source),
            *(text for own in request.wishes.required for text in own.targets),
        ]
        return text if any(BROKEN in own for own in asked) else " ".join(text.replace(BROKEN, "").split())

    def _solve(
        self, batch: list[Request], direction: str | None, options: SearchOptions, nbest: int
    ) -> Iterator[tuple[Request, list[Hypothesis]]]:
        """Search until every text keeps what was wished for: by the usual rule of words, then the strict one, then by
        that and with constraints side by side."""
        language, met = self._language(direction), []
        # All of them, for the best may have a flaw that another one has not.
        kept_of = partial(self._kept, language=language, nbest=options.beam)
        search = partial(self._search, self._lead(direction), options)
        for attempt in range(ATTEMPTS):
            again = []
            strict = attempt > 0 and any(request.wishes.required for request in batch)
            asked = [self._joined(request) for request in batch] if attempt and attempt % 2 == 0 else batch
            for request, hypotheses in zip(batch, search(asked, strict), strict=True):
                if kept := [*request.found, *kept_of(request, hypotheses)]:
                    met.append(replace(request, found=tuple(best_first(request, kept, self.subwords))))
                else:
                    again.append(self._amended(request, hypotheses, language))
            if not again:
                yield from mended(met, search, kept_of, self.subwords)
                return
            batch = again
        raise ConstraintError(
            f"sentence {batch[0].index + 1}: no output was found that keeps to what is required and forbidden; "
            "forbid less, or allow a larger beam"
        )

    def _joined(self, request: Request) -> Request:
        return replace(request, wishes=side_by_side(request.wishes, self.subwords))

    def _amended(self, request: Request, hypotheses: list[Hypothesis], language: str) -> Request:
        """The request without the tokens by which its outputs spelled something forbidden."""
        never = list(request.wishes.never)
        for hypothesis in hypotheses:
            never += spelled_otherwise(hypothesis.tokens, request.wishes, language, self.subwords)
        return replace(request, wishes=replace(request.wishes, never=tuple(dict.fromkeys(never))))

    def _translation(self, request: Request, found: list[Hypothesis], direction: str | None) -> Translation:
        language = self._language(direction)
        each = [self._located(self._text(request, hypothesis), hypothesis, request, language) for hypothesis in found]
        return replace(each[0], others=tuple(each[1:])) if len(each) > 1 else each[0]

    @staticmethod
    def _located(text: str, found: Hypothesis, request: Request, language: str) -> Translation:
        wanted = (*request.given, *request.plan.told)
        spans = locate(text, wanted, language, len(request.wishes.required) if request.wishes.ordered else 0)
        given = len(request.given)
        receipts = request.plan.receipts(text, spans[given:], language, request.given)
        return Translation(text, found.score, spans[:given], (), found.tokens, receipts)

    def _tag(self, direction: str | None) -> int | None:
        """The tag that leads the source; mostly only a model of several directions has one."""
        if direction is None and len(self.directions) == 1:
            direction = self.directions[0]
        if direction not in self.directions:
            asked = "no direction was given" if direction is None else f"the model does not translate {direction}"
            raise ConfigError(f"{asked}; choose one of: {', '.join(self.directions)}")
        return self.subwords.lead(direction, self.directions)

    def _lead(self, direction: str | None) -> list[int]:
        """What every source begins with."""
        return [] if (tag := self._tag(direction)) is None else [tag]
