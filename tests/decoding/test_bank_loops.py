"""The compiled loops against the tensor operations they stand for."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_automaton import DEMANDS, JOINS, VOCABULARY

from termweave.decoding import bank_loops, selection_loops, vdba
from termweave.decoding.automaton import Automaton, Demands, WordJoins
from termweave.decoding.candidates import IMPOSSIBLE, best_candidates, best_of_each, chunk_maxima, scores_of
from termweave.decoding.tables import compile_automaton
from termweave.model.output import Scores

END = 0


def random_place(automaton: Automaton, beam: int, steps: int) -> vdba.Place:
    """Somewhere in the automaton that tokens of its phrases lead to."""
    place = vdba.Place.start(len(automaton.everything), beam, torch.device("cpu"))
    for _ in range(steps):
        drawn = torch.randint(automaton.tokens.shape[1], place.nodes.shape)
        tokens = automaton.tokens.clamp(min=0).gather(1, drawn)
        nodes, bits, _ = automaton.advance(place.nodes, place.bits, tokens, automaton.columns(tokens))
        place = vdba.Place(nodes, bits)
    return place


def spread(demands: Demands, apart: int) -> Demands:
    """The same with other tokens between."""
    required = [
        own._replace(alternatives=tuple(tuple(token * apart for token in phrase) for phrase in own.alternatives))
        for own in demands.required
    ]
    forbidden = [tuple(token * apart for token in phrase) for phrase in demands.forbidden]
    return demands._replace(required=tuple(required), forbidden=tuple(forbidden))


JOINS_APART = {n: WordJoins(JOINS.open_end.repeat(n), JOINS.inner_start.repeat(n)) for n in (1, 40)}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(DEMANDS, min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(0, 6),
    st.booleans(),
    st.sampled_from([1, 40]),  # how far apart tokens lie: in one chunk or in several
    st.integers(0, 99),
)
@torch.no_grad()
def test_the_loops_do_what_the_tensors_do(demands, beam, steps, aware, apart, seed):
    torch.manual_seed(seed)
    automaton = compile_automaton([spread(own, apart) for own in demands], JOINS_APART[apart])
    place = random_place(automaton, beam, steps)
    values = torch.randn(len(demands), beam, VOCABULARY * apart).round(decimals=1)  # equal ones occur
    so_far = torch.randn(len(demands), beam).round(decimals=1)
    so_far[:, 1:] = so_far[:, 1:].masked_fill(torch.rand(so_far[:, 1:].shape) < 0.2, IMPOSSIBLE)
    scores = Scores(values, -torch.rand(len(demands), beam))
    closed = values.clone()
    wished = vdba.close_by_tensors(automaton, place, closed, END)
    maxima = chunk_maxima(values)
    assert torch.equal(bank_loops.close(automaton, (place.nodes, place.bits), values, END, maxima), wished)
    assert torch.equal(values, closed)
    selection_loops.correct_all(maxima, values, torch.full((len(demands), 1), END))
    assert torch.equal(maxima, chunk_maxima(values))
    tokens = torch.nn.functional.pad(automaton.tokens, (0, 1), value=END)
    bests = best_candidates(scores, so_far, 2 * beam, maxima), best_of_each(scores, so_far, maxima)
    given = (
        so_far + scores.offset,
        wished,
        torch.randint(5, 17, (len(demands),)),
        torch.tensor(5),
        END,
        2 * beam,
        aware,
    )
    expected, after = vdba.choose_by_tensors(automaton, place, *bests, scores_of(scores, so_far, tokens), *given)
    found, (nodes, bits) = bank_loops.choose(automaton, (place.nodes, place.bits), *bests, scores.values, *given)
    assert torch.equal(found.scores, expected.scores)
    real = expected.scores > IMPOSSIBLE  # which of the impossible ones come last does not matter
    pairs = (
        (found.parents, expected.parents),
        (found.tokens, expected.tokens),
        (nodes, after.nodes),
        (bits, after.bits),
    )
    for own, other in pairs:
        assert torch.equal(own[real], other[real])
