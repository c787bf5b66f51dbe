"""Beam search against exhaustive search, against itself one by one, and against the full forward."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from termweave.data.batches import constraints_from_ids
from termweave.decoding.beam import AHEAD, Hypothesis, Marks, SearchOptions, beam_search
from termweave.model.transformer import Transformer

BEGIN, END = 2, 3
MARKS = Marks(BEGIN, END, never=(0, BEGIN))
SOURCES = [[5, 6, 7, 10], [14, 15, 16, 17, 18, 19, 20], [21]]
CONSTRAINTS = [[([5, 6], [8, 9])], [], [([21], [11, 12, 13]), ([21], [30])]]
LIMITS = [4, 11, 6]
VARIANTS = pytest.mark.parametrize("variant", ["paper", "released", "copy", "pointer"])


def encode(model: Transformer, rows: list[int]):
    longest = max(len(SOURCES[row]) for row in rows) + 1
    padded = [[*SOURCES[row], END] + [0] * (longest - len(SOURCES[row]) - 1) for row in rows]
    return model.encode(torch.tensor(padded), constraints_from_ids([CONSTRAINTS[row] for row in rows], 0))


def search(
    model: Transformer, rows: list[int], limits: list[int], marks: Marks = MARKS, **options: float
) -> list[list[Hypothesis]]:
    with torch.no_grad():
        memory = model.decoder_memory(encode(model, rows))
    return beam_search(model, memory, torch.tensor(limits), marks, SearchOptions(**options))


@torch.no_grad()
def full_forward(model: Transformer, row: int, tokens: tuple[int, ...]) -> float:
    """log P of an output and its end, from one pass over the whole of it."""
    encoded = encode(model, [row])
    states = model.decode(torch.tensor([[BEGIN, *tokens]]), encoded)
    total = 0.0
    for place, token in enumerate([*tokens, END]):
        prefix = torch.tensor(tokens[:place], dtype=torch.long).view(1, 1, place)
        logs = model.log_probabilities(states[:, place : place + 1], encoded.output, prefix)
        total += float(logs[0, 0, token])
    return total


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 1.5])
@VARIANTS
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all(make_model, variant, length_penalty):
    """Three tokens, at most three of them: 40 outputs. The beam holds them all, so their order is exact."""
    model = make_model(variant=variant)
    usable = (8, 9, 12)
    never = tuple(token for token in range(40) if token not in (*usable, END))
    found = search(model, [0, 1], [3, 3], Marks(BEGIN, END, never), beam=50, length_penalty=length_penalty)
    for row in (0, 1):
        scored = []
        for length in range(4):
            for tokens in product(usable, repeat=length):
                log_probability = full_forward(model, row, tokens)
                scored.append((log_probability / (length + 1) ** length_penalty, log_probability, tokens))
        scored.sort(reverse=True)
        assert len(found[row]) == len(scored) == 40
        assert [hypothesis.score for hypothesis in found[row]] == pytest.approx([s for s, _, _ in scored], abs=1e-4)
        assert found[row][0].tokens == scored[0][2]
        by_tokens = {tokens: log_probability for _, log_probability, tokens in scored}
        assert by_tokens.keys() == {hypothesis.tokens for hypothesis in found[row]}
        for hypothesis in found[row]:
            assert hypothesis.log_probability == pytest.approx(by_tokens[hypothesis.tokens], abs=1e-4)


@VARIANTS
def test_scores_are_those_of_the_full_forward(make_model, variant):
    model = make_model(variant=variant)
    for row, hypotheses in enumerate(search(model, [0, 1, 2], LIMITS, beam=4, length_penalty=0.6)):
        assert hypotheses
        for hypothesis in hypotheses:
            expected = full_forward(model, row, hypothesis.tokens)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-3)
            assert hypothesis.score == pytest.approx(expected / (len(hypothesis.tokens) + 1) ** 0.6, abs=1e-3)
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == len(hypotheses)


@pytest.mark.parametrize("leave", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("beam", [1, 4])
@VARIANTS
def test_batched_equals_one_by_one(make_model, monkeypatch, variant, beam, leave):
    """Sentences of different lengths and limits: they leave the batch at different steps, together, or never."""
    monkeypatch.setattr("termweave.decoding.beam.LEAVE", leave)
    model = make_model(variant=variant)
    together = search(model, [0, 1, 2], LIMITS, beam=beam)
    for row in range(3):
        alone = search(model, [row], [LIMITS[row]], beam=beam)[0]
        assert [hypothesis.tokens for hypothesis in together[row]] == [hypothesis.tokens for hypothesis in alone]
        for mine, other in zip(together[row], alone, strict=True):
            assert mine.score == pytest.approx(other.score, abs=1e-4)


@VARIANTS
@torch.no_grad()
def test_a_beam_of_one_without_length_penalty_is_greedy(make_model, variant):
    model = make_model(variant=variant)
    for row, limit in enumerate(LIMITS):
        encoded = encode(model, [row])
        tokens: list[int] = []
        while len(tokens) < limit:
            states = model.decode(torch.tensor([[BEGIN, *tokens]]), encoded)[:, -1:]
            prefix = torch.tensor(tokens, dtype=torch.long).view(1, 1, -1)
            logs = model.log_probabilities(states, encoded.output, prefix)[0, 0]
            logs[list(MARKS.never)] = float("-inf")
            best = int(logs.argmax())
            if best == END:
                break
            tokens.append(best)
        assert search(model, [row], [limit], beam=1, length_penalty=0.0)[0][0].tokens == tuple(tokens)


def reluctant(model: Transformer) -> Transformer:
    """A model that never wants to end: the end mark's logit is far below all others."""
    plain = model.scores

    def scores(*arguments):
        result = plain(*arguments)
        result.values[..., END] -= 50.0
        return result

    model.scores = scores
    return model


def test_the_length_limit_holds_for_every_sentence_apart(make_model):
    model = reluctant(make_model())
    for limit, hypotheses in zip(LIMITS, search(model, [0, 1, 2], LIMITS), strict=True):
        assert {len(hypothesis.tokens) for hypothesis in hypotheses} == {limit}
    for hypotheses in search(model, [0, 1, 2], LIMITS, max_length=5):
        assert max(len(hypothesis.tokens) for hypothesis in hypotheses) <= 5
    assert search(model, [0], [0])[0][0].tokens == ()


def test_some_tokens_are_never_produced(make_model):
    model = reluctant(make_model())
    free = search(model, [0, 1, 2], LIMITS)
    favourites = tuple({token for hypotheses in free for hypothesis in hypotheses for token in hypothesis.tokens})
    assert favourites
    assert not {0, BEGIN} & set(favourites)
    for hypotheses in search(model, [0, 1, 2], LIMITS, Marks(BEGIN, END, never=favourites)):
        for hypothesis in hypotheses:
            assert not set(hypothesis.tokens) & set(favourites)


@torch.no_grad()
def test_an_output_can_be_cut_off_instead_of_being_made_to_end(make_model):
    """Greedy without the end mark is what a beam of one gives then, and its score counts no end."""
    model = make_model()
    marks = Marks(BEGIN, END, never=(0, BEGIN, END))
    for row, hypotheses in enumerate(search(model, [0, 1, 2], LIMITS, marks, beam=1, cut=True)):
        [hypothesis] = hypotheses
        assert len(hypothesis.tokens) == LIMITS[row]
        encoded, total = encode(model, [row]), 0.0
        states = model.decode(torch.tensor([[BEGIN, *hypothesis.tokens]]), encoded)
        for place, token in enumerate(hypothesis.tokens):
            prefix = torch.tensor(hypothesis.tokens[:place], dtype=torch.long).view(1, 1, place)
            logs = model.log_probabilities(states[:, place : place + 1], encoded.output, prefix)[0, 0]
            logs[list(marks.never)] = float("-inf")
            assert token == int(logs.argmax())
            total += float(logs[token])
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-3)
        assert hypothesis.score == pytest.approx(total / LIMITS[row], abs=1e-3)


@pytest.mark.parametrize("length_penalty", [0.6, 1.0])
def test_beyond_the_usual_length_an_output_gains_nothing(make_model, length_penalty):
    model = reluctant(make_model())
    options, limits = SearchOptions(4, length_penalty), torch.tensor([14, 14])
    with torch.no_grad():
        memory = model.decoder_memory(encode(model, [0, 1]))
    longest = beam_search(model, memory, limits, MARKS, options)
    assert max(len(own.tokens) for own in longest[0]) > 5
    found = beam_search(model, memory, limits, MARKS, options, usual=torch.tensor([5, 2**30]))
    for own, usual in zip(found, (5, 2**30), strict=True):
        for hypothesis in own:
            counted = min(len(hypothesis.tokens) + 1, usual)
            assert hypothesis.score == pytest.approx(hypothesis.log_probability / counted**length_penalty, abs=1e-5)
    assert found[1] == longest[1]
    best = max(longest[0], key=lambda own: own.log_probability / min(len(own.tokens) + 1, 5) ** length_penalty)
    assert found[0][0].score >= best.log_probability / min(len(best.tokens) + 1, 5) ** length_penalty - 1e-5


@pytest.mark.parametrize("limits, calls", [([AHEAD + 2], 1), ([AHEAD - 2], 0)])
def test_the_host_is_free_once_if_a_search_lasts(make_model, limits, calls):
    """Nothing ends before its limit, where it is cut off."""
    model, called = make_model(), []
    with torch.no_grad():
        memory = model.decoder_memory(encode(model, [0]))
    marks = Marks(BEGIN, END, never=(0, BEGIN, END))
    options = SearchOptions(2, cut=True)
    beam_search(model, memory, torch.tensor(limits), marks, options, meanwhile=lambda: called.append(1))
    assert len(called) == calls
