"""Whole searches by the loop that ends a step, against the tensor operations it stands in for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_automaton import PHRASE, REQUIRED, VOCABULARY
from test_beam import LIMITS, VARIANTS
from test_beam import search as search_sentences
from test_guarantee import JOINS, MARKS, assert_same
from test_guarantee import model as token_model  # noqa: F401  (a fixture)

from termweave.decoding import step_loops
from termweave.decoding.automaton import Demands
from termweave.decoding.beam import SearchOptions, beam_search
from termweave.decoding.tables import compile_automaton

DEMANDS = st.builds(Demands, REQUIRED, st.lists(PHRASE, max_size=1).map(tuple), st.booleans(), st.just(()))


def by_tensors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step_loops, "can_finish", lambda state: False)


@pytest.mark.parametrize(("beam", "length_penalty", "cut"), [(1, 1.0, False), (4, 0.6, False), (3, 1.0, True)])
@VARIANTS
def test_with_constraints_in_the_model(make_model, monkeypatch, variant, beam, length_penalty, cut):
    model = make_model(variant=variant)
    options = {"beam": beam, "length_penalty": length_penalty, "cut": cut}
    found = search_sentences(model, [0, 1, 2], LIMITS, **options)
    by_tensors(monkeypatch)
    for own, others in zip(found, search_sentences(model, [0, 1, 2], LIMITS, **options), strict=True):
        assert_same(own, others)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(DEMANDS, min_size=1, max_size=4),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 20),
    st.sampled_from([0, 1]),
)
@torch.no_grad()
def test_with_guaranteed_constraints(token_model, demands, beam, aware, spare, enough):  # noqa: F811
    memory = token_model.decoder_memory(token_model.encode(torch.arange(len(demands))[:, None] % VOCABULARY))
    automaton = compile_automaton(demands, JOINS)
    options = SearchOptions(beam, aware=aware, enough=enough)
    given = (token_model, memory, automaton.total + spare, MARKS, options, automaton)
    lengths = {"usual": automaton.total + 2, "deadlines": automaton.total + 3}
    found = beam_search(*given, **lengths)
    with pytest.MonkeyPatch.context() as patch:
        by_tensors(patch)
        expected = beam_search(*given, **lengths)
    for own, others in zip(found, expected, strict=True):
        assert_same(own, others)


def test_it_is_what_a_cpu_takes_steps_by(make_model, monkeypatch):
    calls = []
    finish = step_loops.finish
    monkeypatch.setattr(step_loops, "finish", lambda *given: calls.append(given) or finish(*given))
    search_sentences(make_model(variant="copy"), [0, 1], LIMITS[:2], beam=2)
    assert calls
