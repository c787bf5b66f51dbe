"""Steps of fixed sizes on fixed memory: what they find is what plain steps find, and a recording could replay them."""

from __future__ import annotations

import gc
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_automaton import JOINS, PHRASE, REQUIRED, VOCABULARY
from test_beam import LIMITS, MARKS, VARIANTS, encode, reluctant
from test_guarantee import MARKS as TOKENS
from test_guarantee import CountCalls, assert_same
from test_guarantee import model as token_model  # noqa: F401  (a fixture)

from termweave import Constraint, Translator
from termweave.decoding import recorded
from termweave.decoding.automaton import Demands
from termweave.decoding.beam import BeamState, SearchOptions, beam_search
from termweave.decoding.recorded import FixedSteps, leaves
from termweave.decoding.searcher import Searcher
from termweave.decoding.tables import compile_automaton

FORBIDDEN = st.lists(PHRASE, max_size=2).map(tuple)
DEMANDS = st.builds(Demands, REQUIRED, FORBIDDEN, st.booleans(), st.just(()))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(DEMANDS, min_size=1, max_size=7), min_size=1, max_size=3),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 40),
)
@torch.no_grad()
def test_fixed_steps_find_what_plain_steps_find(token_model, batches, beam, aware, spare):  # noqa: F811
    """Several batches on the same stages, of other numbers of sentences, lengths and constraints."""
    options = SearchOptions(beam, aware=aware)
    steps = FixedSteps(token_model, TOKENS, options)
    for demands in batches:
        memory = token_model.decoder_memory(token_model.encode(torch.arange(len(demands))[:, None] % VOCABULARY))
        automaton = compile_automaton(demands, JOINS, multiple=4)
        limits = automaton.total + spare
        expected = beam_search(token_model, memory, limits, TOKENS, options, automaton)
        found = beam_search(token_model, memory, limits, TOKENS, options, automaton, steps)
        for own, others in zip(found, expected, strict=True):
            assert_same(own, others)


@VARIANTS
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
@torch.no_grad()
def test_with_constraints_in_the_model(make_model, variant, length_penalty):
    model = make_model(variant=variant)
    options = SearchOptions(3, length_penalty=length_penalty)
    steps = FixedSteps(model, MARKS, options)
    for rows in ([0, 1, 2], [2], [1, 0, 2]):
        memory = model.decoder_memory(encode(model, rows))
        limits = torch.tensor([LIMITS[row] for row in rows])
        expected = beam_search(model, memory, limits, MARKS, options)
        for own, others in zip(beam_search(model, memory, limits, MARKS, options, steps=steps), expected, strict=True):
            assert_same(own, others)


@torch.no_grad()
def test_outputs_outgrow_the_room_and_sentences_leave(make_model):
    model = reluctant(make_model())
    options = SearchOptions(2)
    steps = FixedSteps(model, MARKS, options)
    memory = model.decoder_memory(encode(model, [0, 1, 2, 0, 1]))
    limits = torch.tensor([3, 70, 5, 20, 4])
    expected = beam_search(model, memory, limits, MARKS, options)
    found = beam_search(model, memory, limits, MARKS, options, steps=steps)
    for own, others in zip(found, expected, strict=True):
        assert_same(own, others)
    sizes = {(len(stage.state.limits), stage.state.cache.capacity) for stage in steps._stages.values()}
    assert sizes == {(6, 32), (1, 32), (1, 64), (1, 128)}


class LateSteps(FixedSteps):
    """What is done is known a step later, as on a GPU."""

    before = 0

    def searching(self, state: BeamState) -> int:
        if state.cache.length == 1:
            self.before = len(state.searching)
        known, self.before = self.before, super().searching(state)
        return known


@pytest.mark.parametrize("limits", [[3, 70, 5, 20, 4], [9, 9, 9, 9, 9], [2, 30, 30, 2, 2]])
@pytest.mark.parametrize("willing", [True, False])
@pytest.mark.parametrize("cut", [True, False])
@torch.no_grad()
def test_a_step_too_many_changes_nothing(make_model, limits, willing, cut):
    model = make_model() if willing else reluctant(make_model())
    options = SearchOptions(2, cut=cut)
    steps = LateSteps(model, MARKS, options)
    memory = model.decoder_memory(encode(model, [0, 1, 2, 0, 1]))
    expected = beam_search(model, memory, torch.tensor(limits), MARKS, options)
    for _ in range(2):
        found = beam_search(model, memory, torch.tensor(limits), MARKS, options, steps=steps)
        for own, others in zip(found, expected, strict=True):
            assert_same(own, others)


@torch.no_grad()
def test_a_step_keeps_its_memory_and_never_asks_the_host(token_model):  # noqa: F811
    """What a CUDA graph needs: the same operations on the same addresses, whatever was found before."""
    options = SearchOptions(4)
    steps = FixedSteps(token_model, TOKENS, options)
    seen: list[tuple[list[int], int, int]] = []
    plain = steps._take

    def watched(stage, near_limit):
        with CountCalls() as counted:
            plain(stage, near_limit)
        seen.append(([leaf.data_ptr() for leaf in leaves(stage.state)], counted.calls, counted.waits))

    steps._take = watched  # type: ignore[method-assign]
    demands = [Demands()] * 3
    for _ in range(2):
        memory = token_model.decoder_memory(token_model.encode(torch.tensor([[1], [2], [3]])))
        automaton = compile_automaton(demands, JOINS)
        beam_search(token_model, memory, torch.full((3,), 14), TOKENS, options, automaton, steps)
    addresses, calls, waits = zip(*seen, strict=True)
    assert len(seen) > 4
    assert all(own == addresses[0] for own in addresses)
    assert len(set(calls)) <= 2  # one number of operations near the limit, one elsewhere
    assert set(waits) == {0}


def test_sizes_are_few(token_model):  # noqa: F811
    steps = FixedSteps(token_model, TOKENS, SearchOptions(4))
    assert sorted({steps.size(number) for number in range(1, 100)}) == [
        1,
        2,
        3,
        4,
        6,
        8,
        12,
        16,
        24,
        32,
        48,
        64,
        96,
        128,
    ]
    assert all(steps.size(number) >= number for number in range(1, 100))
    assert [steps.fitting(number) for number in (1, 5, 6, 100)] == [1, 4, 6, 96]


@torch.no_grad()
def test_old_stages_are_forgotten(token_model, monkeypatch):  # noqa: F811
    monkeypatch.setattr(recorded, "MOST_STAGES", 2)
    options = SearchOptions(2)
    steps = FixedSteps(token_model, TOKENS, options)
    for batch in (1, 2, 3, 4):
        memory = token_model.decoder_memory(token_model.encode(torch.ones(batch, 1, dtype=torch.long)))
        beam_search(token_model, memory, torch.full((batch,), 3), TOKENS, options, steps=steps)
        assert len(steps._stages) <= 2


@pytest.mark.parametrize("fails", [False, True])
def test_no_garbage_is_collected_while_a_graph_is_recorded(monkeypatch, fails):
    """Graphs of a model that was dropped may be among it: that ended the whole process on a GPU."""
    collected = []

    @contextmanager
    def capture(graph, **options):
        collected.append(gc.isenabled())
        yield

    monkeypatch.setattr(torch.cuda, "graph", capture)
    assert gc.isenabled()
    try:
        with recorded.recording(None, (0, 0)):
            collected.append(gc.isenabled())
            if fails:
                raise RuntimeError("out of memory")
    except RuntimeError:
        assert fails
    assert collected == [False, False]
    assert gc.isenabled()


def test_tensors_of_all_kinds_are_copied(monkeypatch):
    monkeypatch.setattr(recorded, "SMALL", 100)
    torch.manual_seed(0)
    given = [
        torch.randn(3, 4),
        torch.randn(4, 3).t(),
        torch.randn(30, 4),  # large
        torch.randn(1, 4).expand(3, 4),
        torch.arange(6),
        torch.arange(24).view(2, 12)[:, ::3],
        torch.tensor(7),
        torch.tensor([True, False]),
        torch.arange(5, dtype=torch.int32),
        torch.empty(0),
    ]
    to = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in given]
    recorded._copy_each(list(zip(to, given, strict=True)))
    assert all(torch.equal(own, new) for own, new in zip(to, given, strict=True))


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {"search": "beam"}),
        ({}, {}),
        ({}, {"ordered": True, "nbest": 2}),
        ({}, {"forbidden": ["river"]}),
        ({"variant": "pointer"}, {"search": "beam"}),
        ({"variant": "pointer"}, {}),
        ({"attention": False, "output": False, "alignment_layer": 1}, {"search": "cdalign"}),
    ],
)
def test_translations_stay_the_same(make_folder, monkeypatch, settings, options):
    """Text in, text out, with everything rounded up as on a GPU."""
    translator = Translator.load(make_folder("de-en", **settings), "cpu")
    sentences = ["der alte Müller verkauft Mehl", "ein Haus am Fluss", "Mehl", "", "ein Müller am Haus"]
    constraints = [[Constraint("Müller", "old miller"), Constraint("Mehl", "flour")], [Constraint("Haus", "house")]]
    constraints += [[], [], [Constraint("Müller", "don't sell"), Constraint("Haus", "it")]]
    expected = translator.translate(sentences, constraints, **options)
    made: dict[SearchOptions, FixedSteps] = {}

    def fixed(self: Searcher, search: SearchOptions) -> FixedSteps:
        return made.setdefault(search, FixedSteps(self.model, self.marks, search))

    monkeypatch.setattr(Searcher, "steps", fixed)
    for _ in range(2):
        found = translator.translate(sentences, constraints, **options)
        assert [result.text for result in found] == [result.text for result in expected]
        assert [result.spans for result in found] == [result.spans for result in expected]
        assert [result.score for result in found] == pytest.approx([result.score for result in expected], abs=1e-5)
