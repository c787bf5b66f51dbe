"""Whole searches by the kernels, interpreted by Triton, against plain steps in tensor operations."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_automaton import JOINS, PHRASE, REQUIRED, VOCABULARY
from test_beam import LIMITS, MARKS, VARIANTS, encode, reluctant
from test_guarantee import MARKS as TOKENS
from test_guarantee import assert_same
from test_guarantee import model as token_model  # noqa: F401  (a fixture)

pytest.importorskip("triton", reason="Triton comes with CUDA builds of torch; `make kernels` installs it")
if torch.cuda.is_available():
    pytest.skip("with a GPU, test_cuda.py runs whole searches there", allow_module_level=True)
os.environ["TRITON_INTERPRET"] = "1"

from termweave import accelerators
from termweave.decoding.automaton import Demands, Requirement, WordJoins
from termweave.decoding.beam import SearchOptions, beam_search
from termweave.decoding.recorded import FixedSteps
from termweave.decoding.tables import compile_automaton
from termweave.model.attention import Visible
from termweave.model.transformer import DecoderMemory

JOINS_OF_TOKENS = WordJoins(*np.zeros((2, 40), dtype=np.bool_))  # every token is a word
FORBIDDEN = st.lists(PHRASE, max_size=1).map(tuple)
DEMANDS = st.builds(Demands, REQUIRED, FORBIDDEN, st.booleans(), st.just(()))


def seen_by_kernels(memory: DecoderMemory) -> DecoderMemory:
    return replace(memory, visible=Visible.of(memory.visible.mask == 0, memory.visible.mask.dtype))


def search_both_ways(model, memory, limits, marks, options, automaton=None, **lengths) -> None:
    expected = beam_search(model, memory, limits, marks, options, automaton, **lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", ("cpu",))
        memory = seen_by_kernels(memory)
        steps = FixedSteps(model, marks, options)
        found = beam_search(model, memory, limits, marks, options, automaton, steps, **lengths)
    for own, others in zip(found, expected, strict=True):
        assert_same(own, others)


@settings(max_examples=6, deadline=None)
@given(st.lists(DEMANDS, min_size=1, max_size=4), st.integers(1, 5), st.booleans(), st.integers(0, 20))
@torch.no_grad()
def test_with_guaranteed_constraints(token_model, demands, beam, aware, spare):  # noqa: F811
    memory = token_model.decoder_memory(token_model.encode(torch.arange(len(demands))[:, None] % VOCABULARY))
    automaton = compile_automaton(demands, JOINS, multiple=4)
    limits, total = automaton.total + spare, automaton.total
    for enough in (0, 1):
        options = SearchOptions(beam, aware=aware, enough=enough)
        lengths = {"usual": total + 2, "deadlines": total + 3}
        search_both_ways(token_model, memory, limits, TOKENS, options, automaton, **lengths)


@VARIANTS
@pytest.mark.parametrize(("length_penalty", "cut"), [(0.6, True), (1.0, False)])
@torch.no_grad()
def test_with_constraints_in_the_model(make_model, variant, length_penalty, cut):
    model = make_model(variant=variant)
    options = SearchOptions(3, length_penalty=length_penalty, cut=cut)
    for rows in ([0, 1, 2], [2]):
        memory = model.decoder_memory(encode(model, rows))
        search_both_ways(model, memory, torch.tensor([LIMITS[row] for row in rows]), MARKS, options)


@pytest.mark.parametrize("dimension", [16, 128])  # the smaller one is mixed by tensors, not by a kernel
@pytest.mark.parametrize("guaranteed", [False, True])
@torch.no_grad()
def test_with_one_product_for_the_vocabulary_and_for_copying(make_model, dimension, guaranteed):
    model = make_model(variant="copy", dimension=dimension)
    options = SearchOptions(3, aware=True)
    memory = model.decoder_memory(encode(model, [0, 1, 2]))
    automaton = None
    if guaranteed:
        demands = [Demands(tuple(Requirement((phrase,)) for phrase in own)) for own in ([(8, 9)], [], [(11, 12)])]
        automaton = compile_automaton(demands, JOINS_OF_TOKENS, multiple=4)
    given = (memory, torch.tensor(LIMITS), MARKS, options, automaton)
    expected = beam_search(model, *given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", ("cpu",))
        model.use_precision("float32")
        assert model.vocabulary_product.weight.shape[0] == len(model.embedding) + 2 * dimension
        given = (seen_by_kernels(memory), *given[1:])
        found = beam_search(model, *given, FixedSteps(model, MARKS, options))
    for own, others in zip(found, expected, strict=True):
        assert_same(own, others)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 3e-2)])
@torch.no_grad()
def test_the_product_for_both_is_both(make_model, monkeypatch, precision, tolerance):
    monkeypatch.setattr(accelerators, "WITH_KERNELS", ("cpu",))
    model = make_model(variant="copy", dimension=128)
    model.use_precision(precision)
    states = torch.randn(2, 3, 128).to(model.embedding.dtype)
    product, vocabulary = model._product(states), len(model.embedding)
    assert product.dtype == torch.float32
    expected = torch.cat(
        [states.float() @ model.embedding.float().mT, *model.output.from_states(states.float())], dim=-1
    )
    torch.testing.assert_close(product, expected, atol=tolerance, rtol=tolerance)
    assert product.shape[-1] == vocabulary + 2 * 128


@torch.no_grad()
def test_outputs_outgrow_the_room_and_sentences_leave(make_model):
    model = reluctant(make_model())
    memory = model.decoder_memory(encode(model, [0, 1, 2, 0, 1]))
    search_both_ways(model, memory, torch.tensor([3, 18, 5, 4, 4]), MARKS, SearchOptions(2))


@torch.no_grad()
def test_a_step_copies_nothing_onto_its_stage(make_model):
    """All results are written where the state was."""
    model = make_model(variant="copy")
    steps = FixedSteps(model, MARKS, SearchOptions(2))
    written: list[torch.Tensor] = []
    memory = model.decoder_memory(encode(model, [0, 1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", ("cpu",))
        beam_search(model, memory, torch.tensor([1, 1]), MARKS, SearchOptions(2), steps=steps)
        copy = torch.Tensor.copy_
        patch.setattr(torch.Tensor, "copy_", lambda own, *others: (written.append(own), copy(own, *others))[1])
        assert steps._stage is not None
        steps._take(steps._stage, near_limit=False)
    assert not {tensor.data_ptr() for tensor in written} & {leaf.data_ptr() for leaf in steps._stage.leaves}
