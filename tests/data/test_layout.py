"""Compiled layouts, against rows put together one by one and against the constraints laid out from lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

from termweave.constraints.phrases import PHRASE
from termweave.data import layout
from termweave.data.batches import SENTENCE_MULTIPLE, ConstraintTensors, constraints_from_ids, round_up
from termweave.data.layout import Drawn, Markers, gather, lay_out, rows_of
from termweave.storage import RaggedArray

PADDING, BEGIN, END, TAG = 0, 2, 3, 5
ALPHA, BETA = 3.0, 0.5

relaxed = settings(deadline=None, max_examples=100)


@st.composite
def sentences(draw: st.DrawFn):
    """(source ids, target ids, phrases as (source start, target start, source tokens, target tokens))."""
    source = draw(st.lists(st.integers(10, 99), min_size=1, max_size=12))
    target = draw(st.lists(st.integers(10, 99), min_size=1, max_size=12))
    phrases = []
    for _ in range(draw(st.integers(0, 3))):
        source_start = draw(st.integers(0, len(source) - 1))
        target_start = draw(st.integers(0, len(target) - 1))
        source_tokens = draw(st.integers(1, len(source) - source_start))
        target_tokens = draw(st.integers(1, len(target) - target_start))
        phrases.append((source_start, target_start, source_tokens, target_tokens))
    return source, target, phrases


CORPORA = st.lists(sentences(), min_size=1, max_size=6)


def drawn(phrases) -> Drawn:
    flat = [(*phrase, 1, 0) for row in phrases for phrase in row]
    return Drawn(np.array(flat, dtype=PHRASE), np.array([len(row) for row in phrases], dtype=np.int64))


def batch_of(corpus, rows, **options):
    """The batch of some rows of a corpus, and those rows."""
    chosen = [corpus[row] for row in rows]
    source, target = (RaggedArray.from_rows([sentence[side] for sentence in corpus], np.uint16) for side in (0, 1))
    tag = options.pop("tag", None)
    batch = lay_out(
        rows_of(source, np.array(rows)),
        rows_of(target, np.array(rows)),
        Markers(PADDING, BEGIN, END, tag),
        drawn=drawn([phrases for *_, phrases in chosen]),
        alpha=ALPHA,
        beta=BETA,
        **options,
    )
    return batch, chosen


def padded(rows: list[list[float]]) -> list[list[float]]:
    width = round_up(max(map(len, rows)), SENTENCE_MULTIPLE)
    return [row + [0] * (width - len(row)) for row in rows]


@relaxed
@given(corpus=CORPORA, tag=st.sampled_from([None, TAG]), data=st.data())
def test_sentences_and_weights(corpus, tag, data):
    rows = data.draw(st.lists(st.integers(0, len(corpus) - 1), min_size=1, max_size=6))
    batch, chosen = batch_of(corpus, rows, tag=tag)
    lead = [] if tag is None else [tag]
    assert batch.source.tolist() == padded([[*lead, *source, END] for source, _, _ in chosen])
    assert batch.target.tolist() == padded([[*target, END] for _, target, _ in chosen])
    assert batch.target_input.tolist() == padded([[BEGIN, *target] for _, target, _ in chosen])
    weights = []
    for _, target, phrases in chosen:
        inside = {start + i for _, start, _, tokens in phrases for i in range(tokens)}
        weights.append([ALPHA if place in inside else BETA for place in range(len(target) + 1)])
    assert batch.weights.tolist() == padded(weights)
    assert batch.weight == sum(map(sum, weights))
    assert batch.tokens == sum(map(len, weights))
    assert batch.weights.dtype == torch.float32


@relaxed
@given(corpus=CORPORA, data=st.data())
def test_constraints(corpus, data):
    rows = data.draw(st.lists(st.integers(0, len(corpus) - 1), min_size=1, max_size=6))
    batch, chosen = batch_of(corpus, rows)
    pairs = [
        [(source[s : s + length], target[t : t + tokens]) for s, t, length, tokens in phrases]
        for source, target, phrases in chosen
    ]
    expected = constraints_from_ids(pairs, PADDING)
    if expected is None:  # the stream has them even if all are empty: the model then takes the same path
        assert batch.constraints is not None
        assert not batch.constraints.target.number.any()
        return
    found: list[torch.Tensor] = []
    wanted: list[torch.Tensor] = []
    assert batch.constraints is not None
    batch.constraints.map(lambda tensor: found.append(tensor) or tensor)
    sides = (replace(side, token=None) for side in (expected.source, expected.target))  # training does not ask
    ConstraintTensors(*sides, expected.target_tokens).map(lambda tensor: wanted.append(tensor) or tensor)
    assert len(found) == len(wanted) == 9
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


@relaxed
@given(corpus=CORPORA, data=st.data())
def test_gather(corpus, data):
    rows = data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=6))
    ragged = RaggedArray.from_rows([source for source, *_ in corpus], np.uint16)
    gathered = gather(rows_of(ragged, np.array(rows, dtype=np.int64)))
    assert [gathered[row].tolist() for row in range(len(gathered))] == [corpus[row][0] for row in rows]


def test_nothing_drawn_means_no_constraints():
    ids = rows_of(RaggedArray.from_rows([[11, 12], [13]], np.uint16))
    assert lay_out(ids, ids, Markers(PADDING, BEGIN, END, None)).constraints is None


COMPILED = {name: part for name, part in vars(layout).items() if isinstance(part, Dispatcher)}


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_compiled_passes_leave_the_interpreter_to_the_training_thread(name):
    assert COMPILED[name].targetoptions["nogil"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_pinned_batches_are_pinned_as_a_whole():
    corpus = [([11, 12], [13], [(0, 0, 1, 1)])]
    pinned, _ = batch_of(corpus, [0], pinned=True)
    plain, _ = batch_of(corpus, [0])
    states = []
    pinned.map(lambda tensor: states.append(tensor.is_pinned()) or tensor)
    assert states == [True] * 13
    assert pinned.source.tolist() == plain.source.tolist()
