"""The guarantee: random models, random constraints, and every constraint in every output.

Each example is a batch of sentences with their own demands, so that some ten thousand cases are tried.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_automaton import JOINS, PHRASE, REQUIRED, VOCABULARY, fulfilled
from torch.utils._python_dispatch import TorchDispatchMode

from termweave.decoding.automaton import Demands, Requirement
from termweave.decoding.beam import Hypothesis, Marks, SearchOptions, beam_search
from termweave.decoding.tables import compile_automaton
from termweave.model import output, products
from termweave.model.transformer import Transformer

BEGIN = END = 0  # token 0 joins nothing; here it begins and ends
MARKS = Marks(BEGIN, END, never=())

DEMANDS = st.builds(Demands, REQUIRED, st.just(()), st.booleans(), st.just(()))


@pytest.fixture(scope="module")
def model() -> Transformer:
    from termweave.config import ModelConfig

    torch.manual_seed(3)
    config = ModelConfig(8, 2, 1, 1, 16, 0.0, attention=False, output=False)
    model = Transformer(config, VOCABULARY, padding=-1)
    torch.nn.init.normal_(model.embedding, std=0.8)  # so that some tokens are much more likely than others
    return model.eval()


@torch.no_grad()
def search(
    model: Transformer,
    sources: list[int],
    demands: list[Demands] | None,
    beam: int,
    spare: int,
    aware: bool = False,
    enough: int = 0,
    due: int | None = None,
) -> list[list[Hypothesis]]:
    """Outputs may be `spare` tokens longer than the constraints are in all; with `due` of them, all is met."""
    memory = model.decoder_memory(model.encode(torch.tensor(sources)[:, None] % VOCABULARY))
    automaton = compile_automaton(demands, JOINS) if demands is not None else None
    needed = automaton.total if automaton is not None else torch.zeros(len(sources), dtype=torch.long)
    options = SearchOptions(beam, aware=aware, enough=enough)
    deadlines = None if due is None else needed + due
    return beam_search(model, memory, needed + spare, MARKS, options, automaton, deadlines=deadlines)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([h.score for h in expected], abs=1e-5)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(DEMANDS, min_size=25, max_size=30),
    st.integers(1, 5),
    st.integers(0, 6),
    st.booleans(),
    st.integers(0, 9),
)
def test_every_constraint_is_met(model, demands, beam, spare, aware, seed):
    """More than ten thousand sentences; `spare` 0 leaves room for the constraints and nothing else."""
    found = search(model, list(range(seed, seed + len(demands))), demands, beam, spare, aware)
    for own, hypotheses in zip(demands, found, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            assert fulfilled(own, list(hypothesis.tokens))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(DEMANDS, min_size=5, max_size=10), st.integers(1, 5), st.integers(0, 6), st.integers(0, 6), st.booleans()
)
def test_every_constraint_is_met_by_the_deadline(model, demands, beam, due, more, aware):
    found = search(model, list(range(len(demands))), demands, beam, due + more, aware, due=due)
    needed = compile_automaton(demands, JOINS).total.tolist()
    for own, total, hypotheses in zip(demands, needed, found, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            assert fulfilled(own, list(hypothesis.tokens[: total + due]))


@settings(max_examples=60, deadline=None)
@given(st.lists(DEMANDS, min_size=2, max_size=6), st.integers(1, 5), st.randoms())
def test_a_batch_gives_what_its_sentences_give_alone_in_any_order(model, demands, beam, random):
    sources = list(range(len(demands)))
    together = search(model, sources, demands, beam, 4, aware=True)
    for index in sources:
        assert_same(search(model, [index], [demands[index]], beam, 4, aware=True)[0], together[index])
    order = random.sample(sources, len(sources))
    shuffled = search(model, order, [demands[index] for index in order], beam, 4, aware=True)
    for place, index in enumerate(order):
        assert_same(shuffled[place], together[index])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), DEMANDS)
def test_without_constraints_it_is_beam_search(model, batch, beam, other):
    """Also beside a sentence that has some."""
    sources = list(range(batch))
    plain = search(model, sources, None, beam, 7)
    constrained = search(model, [*sources, 9], [*[Demands()] * batch, other], beam, 7)
    for index in sources:
        assert_same(constrained[index], plain[index])


@settings(max_examples=60, deadline=None)
@given(st.lists(DEMANDS, min_size=2, max_size=6), st.integers(1, 5), st.integers(1, 6))
def test_who_does_not_wait_for_more_gets_as_many_as_asked_for_and_all_met(model, demands, beam, enough):
    """A sentence without constraints, and one whose list is as long as the beam, wait as ever."""
    sources = list(range(len(demands) + 1))
    demands = [*demands, Demands()]
    patient = search(model, sources, demands, beam, 7, aware=True)
    hasty = search(model, sources, demands, beam, 7, aware=True, enough=enough)
    for own, found, expected in zip(demands, hasty, patient, strict=True):
        assert len(found) >= min(enough, len(expected))
        assert all(fulfilled(own, list(hypothesis.tokens)) for hypothesis in found)
        if not own.required or enough >= beam:
            assert_same(found, expected)


@settings(max_examples=150, deadline=None)
@given(REQUIRED, st.lists(PHRASE, min_size=1, max_size=2).map(tuple), st.integers(2, 5))
def test_nothing_forbidden_comes_out(model, required, forbidden, beam):
    demands = Demands(required, forbidden)
    for hypothesis in search(model, [5], [demands], beam, 8)[0]:
        assert fulfilled(demands, list(hypothesis.tokens))


def test_the_end_stays_closed_until_the_last_constraint(model):
    """A phrase that is never likely, with no room to spare: the output is the phrase."""
    found = search(model, [1], [Demands((Requirement(((7, 6, 7),)),))], 2, 0)
    assert found[0][0].tokens == (7, 6, 7)


@pytest.mark.parametrize("beam", [64])
def test_a_wide_beam_finds_the_best_of_all_outputs(model, beam):
    """All outputs of at most three tokens are listed, those that keep the constraint compared with the search."""
    from itertools import product

    demands = Demands((Requirement(((1, 2),)),))
    never = (3, 4, 5, 8, 9)
    with torch.no_grad():
        memory = model.decoder_memory(model.encode(torch.tensor([[4]])))
        automaton = compile_automaton([demands], JOINS)
        marks = Marks(BEGIN, END, never)
        found = beam_search(model, memory, torch.tensor([3]), marks, SearchOptions(beam), automaton)[0]
        best = float("-inf")
        for length in range(4):
            for tokens in product((1, 2, 6, 7), repeat=length):
                if fulfilled(demands, list(tokens)):
                    states = model.decode(torch.tensor([[BEGIN, *tokens]]), model.encode(torch.tensor([[4]])))
                    logs = model.log_probabilities(states, None)[0]
                    total = sum(float(logs[place, token]) for place, token in enumerate([*tokens, END]))
                    best = max(best, total / (length + 1))
    assert found[0].score == pytest.approx(best, abs=1e-5)


class CountCalls(TorchDispatchMode):
    """Counts tensor operations, and those that make the host wait for the device."""

    WAITING = ("aten._local_scalar_dense", "aten.nonzero", "aten.is_nonzero", "aten.equal")

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.waits = 0

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        self.calls += 1
        self.waits += str(operation).startswith(self.WAITING)
        return operation(*arguments, **(keywords or {}))


@torch.no_grad()
def calls(model: Transformer, batch: int, steps: int, constrained: bool) -> CountCalls:
    """A search of exactly so many steps: the end is suppressed, and outputs are cut."""
    memory = model.decoder_memory(model.encode(torch.arange(batch)[:, None] % VOCABULARY))
    demands = [Demands((Requirement(((1, 2),)), Requirement(((3,),)), Requirement(((7, 6, 2),))))] * batch
    automaton = compile_automaton(demands, JOINS) if constrained else None
    options = SearchOptions(4, cut=True)
    with CountCalls() as counted:
        beam_search(model, memory, torch.full((batch,), steps), Marks(BEGIN, END, never=(END,)), options, automaton)
    return counted


@pytest.mark.parametrize("constrained", [False, True])
def test_the_number_of_tensor_calls_does_not_depend_on_the_batch(model, constrained, monkeypatch):
    # On a CPU, products and sums over the vocabulary are cut to fit its cache; that is not the search's doing.
    monkeypatch.setattr(products, "FEW", 0)
    monkeypatch.setattr(products, "MANY", 0)
    monkeypatch.setattr(output, "ROWS", 10**6)
    few, many = calls(model, 2, 12, constrained), calls(model, 64, 12, constrained)
    assert few.calls == many.calls
    assert few.waits == many.waits


@pytest.mark.parametrize("constrained", [False, True])
def test_the_host_waits_once_a_step(model, constrained):
    """Is any sentence done? Nothing else is asked inside a step."""
    shorter, longer = calls(model, 8, 10, constrained), calls(model, 8, 20, constrained)
    assert longer.waits - shorter.waits == 10
