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


@given(PHRASES, st.data())
def test_progress_gives_the_same_marks_token_by_token(phrases, data):
    """Three hypotheses of two sentences, reordered at random after every token, as a search does."""
    slots = slots_of([phrases, [[2, 1, 2]]])
    length = data.draw(st.integers(0, 7))
    outputs = torch.empty(2, 1, 0, dtype=torch.long)
    progress = slots.start(1)
    for _ in range(length):
        hypotheses = outputs.shape[1]
        parents = torch.tensor(data.draw(rows_of(st.integers(0, hypotheses - 1))))
        tokens = torch.tensor(data.draw(rows_of(TOKENS)))
        progress = slots.advance(progress.reorder(parents), tokens)
        history = outputs.gather(1, parents.unsqueeze(2).expand(-1, -1, outputs.shape[2]))
        outputs = torch.cat([history, tokens.unsqueeze(2)], dim=2)
    assert torch.equal(slots.marks(progress), slots.marks_after(outputs))
    assert torch.equal(slots.marks(slots.after(outputs)), slots.marks_after(outputs))
    used = (outputs.unsqueeze(3) == slots.tokens[:, None, None]).any(dim=2)
    assert torch.equal(progress.used, used)
    chosen = progress.select(torch.tensor([1]))
    assert torch.equal(slots.select(torch.tensor([1])).marks(chosen)[0], slots.marks_after(outputs)[1])


def rows_of(values: st.SearchStrategy[int]) -> st.SearchStrategy[list[list[int]]]:
    """(2, 3): as many as two sentences have hypotheses."""
    return st.lists(st.lists(values, min_size=3, max_size=3), min_size=2, max_size=2)


def test_a_restart_inside_a_phrase_is_not_lost():
    marks = slots_of([[[1, 1, 2]]]).marks_along(torch.tensor([[1, 1, 1, 2, 3]]))[0, :, :3]
    assert marks.tolist() == [
        [START, LATER, LATER],
        [START, NEXT, LATER],
        [START, NEXT, NEXT],
        [START, NEXT, NEXT],
        [DONE] * 3,
    ]
