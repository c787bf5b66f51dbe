"""The marks of constraint tokens against a definition written out word by word."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from termweave.data.batches import constraints_from_ids
from termweave.model.coverage import DONE, LATER, NEXT, START, Slots

TOKENS = st.integers(1, 3)  # few, so that phrases overlap, repeat and restart
PHRASES = st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=0, max_size=3)


def literal_marks(phrases: list[list[int]], produced: list[int]) -> list[int]:
    marks = []
    for phrase in phrases:
        starts = range(len(produced) - len(phrase) + 1)
        done = any(produced[start : start + len(phrase)] == phrase for start in starts)
        for place in range(len(phrase)):
            if done:
                marks.append(DONE)
            elif place == 0:
                marks.append(START)
            elif produced[-place:] == phrase[:place]:
                marks.append(NEXT)
            else:
                marks.append(LATER)
    return marks


def slots_of(sentences: list[list[list[int]]]) -> Slots:
    constraints = constraints_from_ids([[([9], phrase) for phrase in phrases] for phrases in sentences], 0)
    assert constraints is not None
    return Slots.of(constraints.target_tokens, constraints.target.number)


@given(st.lists(PHRASES, min_size=1, max_size=3), st.data())
def test_marks_along_a_reference(sentences, data):
    sentences = [*sentences, [[1, 2]]]  # at least one constraint
    length = data.draw(st.integers(1, 7))
    outputs = [data.draw(st.lists(TOKENS, min_size=length, max_size=length)) for _ in sentences]
    marks = slots_of(sentences).marks_along(torch.tensor(outputs))
    for row, phrases in enumerate(sentences):
        for moment in range(length):
            expected = literal_marks(phrases, outputs[row][:moment])
            assert marks[row, moment, : len(expected)].tolist() == expected


@given(PHRASES, st.data())
def test_marks_after_hypotheses(phrases, data):
    sentences = [phrases, [[2, 1, 2]]]
    length = data.draw(st.integers(0, 7))
    row = st.lists(TOKENS, min_size=length, max_size=length)
    outputs = [[data.draw(row) for _ in range(3)] for _ in sentences]
    marks = slots_of(sentences).marks_after(torch.tensor(outputs, dtype=torch.long).view(2, 3, length))
    for sentence in range(2):
        for hypothesis in range(3):
            expected = literal_marks(sentences[sentence], outputs[sentence][hypothesis])
            assert marks[sentence, hypothesis, : len(expected)].tolist() == expected


def test_a_restart_inside_a_phrase_is_not_lost():
    marks = slots_of([[[1, 1, 2]]]).marks_along(torch.tensor([[1, 1, 1, 2, 3]]))[0, :, :3]
    assert marks.tolist() == [
        [START, LATER, LATER],
        [START, NEXT, LATER],
        [START, NEXT, NEXT],
        [START, NEXT, NEXT],
        [DONE] * 3,
    ]
