"""The kernels against the tensor operations they stand in for. Without a GPU, Triton interprets them."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_automaton import DEMANDS, JOINS, VOCABULARY

pytest.importorskip("triton", reason="Triton comes with CUDA builds of torch; `make kernels` installs it")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from termweave import accelerators
from termweave.decoding import bank_kernels, vdba
from termweave.decoding.automaton import Automaton, Demands, Requirement, WordJoins
from termweave.decoding.candidates import IMPOSSIBLE, best_candidates, best_of_each, chunk_maxima
from termweave.decoding.tables import compile_automaton
from termweave.model.output import Scores

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
END = 0


def random_place(automaton: Automaton, beam: int, steps: int) -> vdba.Place:
    """Somewhere in the automaton that random tokens lead to."""
    place = vdba.Place.start(len(automaton.everything), beam, DEVICE)
    for _ in range(steps):
        own = automaton.tokens.clamp(min=0)
        drawn = torch.randint(own.shape[1], place.nodes.shape, device=DEVICE)
        tokens = torch.where(torch.rand(drawn.shape, device=DEVICE) < 0.8, own.gather(1, drawn), drawn % VOCABULARY)
        nodes, bits, _ = automaton.advance(place.nodes, place.bits, tokens, automaton.columns(tokens))
        place = vdba.Place(nodes, bits)
    return place


@settings(max_examples=150, deadline=None)
@given(
    st.lists(DEMANDS, min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(0, 6),
    st.booleans(),
    st.integers(0, 99),
)
def test_the_kernels_do_what_the_tensors_do(demands, beam, steps, aware, seed):
    torch.manual_seed(seed)
    automaton = compile_automaton(demands, JOINS).to(DEVICE)
    place = random_place(automaton, beam, steps)
    values = torch.randn(len(demands), beam, VOCABULARY, device=DEVICE).round(decimals=1)  # equal ones occur
    so_far = torch.randn(len(demands), beam, device=DEVICE).round(decimals=1)
    so_far[:, 1:] = so_far[:, 1:].masked_fill(torch.rand(so_far[:, 1:].shape, device=DEVICE) < 0.2, IMPOSSIBLE)
    offset = -torch.rand(len(demands), beam, device=DEVICE)
    limits, length = torch.randint(5, 17, (len(demands),), device=DEVICE), torch.tensor(5, device=DEVICE)
    results = []
    for devices in ((), (DEVICE.type,)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(accelerators, "WITH_KERNELS", devices)
            scores = Scores(values.clone(), offset)
            wished, scores = vdba.close_ends(automaton, place, scores, END)
            maxima = chunk_maxima(scores.values)
            best = best_candidates(scores, so_far, 2 * beam, maxima)
            own_best = best_of_each(scores, so_far, maxima)
            chosen, after = vdba.choose_by_bank(
                automaton, place, best, own_best, scores, so_far, wished, limits, length, END, 2 * beam, aware
            )
            results.append((scores.values, wished, chosen, after))
    (values_a, wished_a, chosen_a, after_a), (values_b, wished_b, chosen_b, after_b) = results
    assert torch.equal(values_a, values_b)
    assert torch.equal(wished_a, wished_b)
    assert torch.equal(chosen_a.scores, chosen_b.scores)
    real = chosen_a.scores > IMPOSSIBLE  # which of the impossible ones come last does not matter
    for tensor, other in ((chosen_a.parents, chosen_b.parents), (chosen_a.tokens, chosen_b.tokens)):
        assert torch.equal(tensor[real], other[real])
    for tensor, other in ((after_a.nodes, after_b.nodes), (after_a.bits, after_b.bits)):
        assert torch.equal(tensor[real], other[real])


def test_too_many_candidates_are_left_to_the_tensors():
    def of(columns: int) -> Automaton:
        phrase = tuple(range(1, columns + 1))
        return compile_automaton([Demands((Requirement((phrase,)),))], WordJoins(*np.zeros((2, 2 * columns), bool)))

    assert bank_kernels.can_choose(8, 4, of(100)) and not bank_kernels.can_choose(8, 4, of(300))
    assert bank_kernels.lane_count(8, 4, 10) < bank_kernels.lane_count(8, 4, 100)
