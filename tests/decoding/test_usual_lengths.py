"""How long outputs are that must meet something."""

from __future__ import annotations

from dataclasses import replace

import torch

from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.decoding.batching import Request, deadlines, may_be_cut_off, tightened, usual_lengths
from termweave.decoding.beam import NO_LENGTH
from termweave.decoding.demands import Wishes
from termweave.decoding.terminology import Terminology, TermPlan


def request(source: int, spoken: int = 0, expansion: float = 1.5) -> Request:
    """With so many tokens."""
    return Request(0, [5] * source, [], (), Wishes(), TermPlan(), spoken=(6,) * spoken, expansion=expansion)


def test_usual_lengths_go_by_what_was_said_or_else_by_the_source():
    batch = [request(10), request(10), request(10, spoken=7), request(10, expansion=1.0)]
    # 1.1 · 1.5 · 10 + 1, whatever must be met; 7 + 5 + 1 where it is known what the model says by itself
    assert usual_lengths(batch, torch.tensor([0, 5, 5, 5])).tolist() == [17, 17, 13, 12]


def test_limits_are_tightened_only_where_something_must_be_met():
    batch = [request(10), request(10), request(1), request(10, expansion=1.0), request(1)]
    # 1.15 · 1.5 · 10 + 5 // 4 + 6; one that is lower already stays; 1.15 · 10 + 5 // 4 + 6; what is needed has room
    assert tightened(torch.tensor([50, 50, 9, 50, 50]), batch, torch.tensor([0, 5, 4, 5, 30])).tolist() == [
        50,
        24,
        9,
        18,
        36,
    ]


def test_as_long_as_a_tightened_limit_an_output_may_have_been_cut_off():
    known = request(10, expansion=1.0)
    assert tightened(torch.tensor([50]), [known], torch.tensor([1])).tolist() == [17]
    assert may_be_cut_off(known, 17) and not may_be_cut_off(known, 16)


def test_words_of_a_glossary_are_due_before_the_output_ends():
    terminology = Terminology(Glossary((GlossaryEntry("house", ("Haus",)),)), "en-de")
    plan = terminology.plan("a house")
    assert plan.chosen
    batch = [replace(request(10), plan=plan), replace(request(10, expansion=1.0), plan=plan)]
    batch.append(replace(request(1), plan=plan))
    # 1.5 · 10 + 5 // 4 + 4; 10 + 5 // 4 + 4; what is needed has room
    assert deadlines(batch, torch.tensor([5, 5, 30])).tolist() == [20, 15, 34]
    # What nobody chose has its place where the model puts it; and what is forbidden asks for room of its own.
    forbidding = replace(batch[0], wishes=Wishes(forbidden=("Haus",)))
    assert deadlines([request(10), forbidding], torch.tensor([5, 5])).tolist() == [NO_LENGTH, NO_LENGTH]
