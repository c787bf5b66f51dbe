"""Probabilities of given outputs: those the search saw, one token at a time."""

from __future__ import annotations

import math

import pytest
import torch

from termweave import Constraint, Translation, Translator
from termweave.data.batches import constraints_from_ids
from termweave.decoding import forced
from termweave.decoding.beam import Marks, PlainSteps, SearchOptions, beam_search
from termweave.errors import DataError
from termweave.model.checkpoint import Checkpoint

SENTENCES = ["der alte Müller", "ein Haus am Fluss verkauft Mehl", "Mehl"]
CONSTRAINTS = [[Constraint("Müller", "miller"), Constraint("alte", "old")], [Constraint("Haus", "house")], []]
MARKS = Marks(begin=2, end=3, never=(0, 2))
SOURCE = [[5, 6, 7, 8, 3], [9, 10, 3, 0, 0], [11, 12, 13, 3, 0]]
PAIRS = [[([5], [20, 21, 20]), ([6, 7], [22])], [([9], [23])], []]


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en", "en-de"), "cpu")


class FewSubwords:
    """The marks of the models of `make_model`."""

    pad, bos, eos = 0, 2, 3

    def pieces(self, ids):
        return [str(index) for index in ids]


class Given:
    def __init__(self, source, constraints):
        self.source, self.constraints = source, constraints


@pytest.mark.parametrize(
    "settings",
    [{"variant": "paper"}, {"variant": "released"}, {"variant": "copy"}, {"attention": False, "output": False}],
    ids=["paper", "released", "copy", "vanilla"],
)
def test_the_logarithms_add_up_to_what_the_search_found(make_model, monkeypatch, settings):
    """Every variant: the search takes single steps with caches, forced decoding one pass in blocks."""
    monkeypatch.setattr(forced, "AT_ONCE", 9)
    model = make_model(seed=3, **settings)
    aware = "variant" in settings
    given = constraints_from_ids(PAIRS, 0) if aware else None
    memory = model.decoder_memory(model.encode(torch.tensor(SOURCE), given))
    options = SearchOptions(beam=3, max_length=12)
    limits = torch.tensor([12, 5, 9])
    found = beam_search(model, memory, limits, MARKS, options, None, PlainSteps(model, MARKS, options))
    requests, outputs, expected = [], [], []
    for source, pairs, hypotheses in zip(SOURCE, PAIRS, found, strict=True):
        for hypothesis in hypotheses:
            requests.append(Given([token for token in source if token not in (0, 3)], pairs if aware else []))
            outputs.append(hypothesis.tokens)
            expected.append(hypothesis.log_probability)
    assert len(set(map(len, outputs))) > 1
    scored = forced.score_outputs(model, FewSubwords(), requests, outputs, None, batch_tokens=40)  # type: ignore[arg-type]
    assert [each.tokens for each in scored] == outputs
    assert [each.log_probability for each in scored] == pytest.approx(expected, abs=1e-3)


def test_a_token_that_was_produced_is_not_proposed_again_by_released(make_model):
    """What was produced before matters: with the same states, `released` plugs a token in once."""
    model = make_model(seed=2, variant="released")
    request = Given([5, 6], [([5], [20])])
    twice = forced.score_outputs(model, FewSubwords(), [request], [(20, 20)], None, 99)[0]  # type: ignore[arg-type]
    given = constraints_from_ids([request.constraints], 0)
    encoded = model.encode(torch.tensor([[5, 6, 3]]), given)
    states = model.decode(torch.tensor([[2, 20, 20]]), encoded)
    alone = model.log_probabilities(states[:, 1:2], encoded.output)[0, 0, 20].exp()
    after = model.log_probabilities(states[:, 1:2], encoded.output, torch.tensor([[[20]]]))[0, 0, 20].exp()
    assert alone > after + 1e-3
    assert twice.probabilities[1] == pytest.approx(after.item(), abs=1e-5)


def test_translations_are_scored_as_they_were_produced(translator):
    for search in ("beam", "vdba"):
        found = translator.translate(SENTENCES, CONSTRAINTS, direction="de-en", search=search)
        scored = translator.token_probabilities(SENTENCES, found, CONSTRAINTS, direction="de-en")
        for translation, each in zip(found, scored, strict=True):
            assert each.tokens == translation.tokens
            assert translator.subwords.decode(each.tokens) == translation.text
            assert len(each.probabilities) == len(each.pieces) == len(each.tokens)
            assert all(0 < probability <= 1 for probability in (*each.probabilities, each.end))
            # Where a sentence is searched again, its length counts no further than what is usual.
            counted = each.log_probability / translation.score
            length = len(each.tokens) + 1
            assert counted == pytest.approx(length if search == "beam" else min(round(counted), length), rel=1e-3)


def test_texts_are_cut_into_subwords(translator):
    outputs = ["the old miller", "a house", ""]
    scored = translator.token_probabilities(SENTENCES, outputs, direction="de-en", batch_tokens=1)
    assert [list(each.tokens) for each in scored] == [translator.subwords.encode(text) for text in outputs]
    assert scored[2].probabilities == () and 0 < scored[2].end < 1
    together = translator.token_probabilities(SENTENCES, outputs, direction="de-en")
    for one, other in zip(scored, together, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)
    told = translator.token_probabilities(SENTENCES, outputs, CONSTRAINTS, direction="de-en")
    assert told[1].probabilities != pytest.approx(together[1].probabilities, abs=1e-6)
    assert told[2].end == pytest.approx(together[2].end, abs=1e-6)
    other_way = translator.token_probabilities(SENTENCES, outputs, direction="en-de")
    assert other_way[0].probabilities != pytest.approx(together[0].probabilities, abs=1e-6)  # the tag arrives


def test_a_plain_model_is_told_of_no_constraints(make_model, translator):
    model = make_model(attention=False, output=False)
    model.embedding = torch.nn.Parameter(torch.randn(translator.subwords.size, 16))
    plain = Translator(Checkpoint(model, translator.subwords, ("de-en",)))
    outputs = [Translation("", 0.0, tokens=(5, 6))]
    with_constraints = plain.token_probabilities(SENTENCES[1:2], outputs, CONSTRAINTS[1:2])
    assert with_constraints == plain.token_probabilities(SENTENCES[1:2], outputs)


def test_an_impossible_output_has_no_logarithm():
    assert forced.ScoredOutput((5,), ("a",), (0.5,), 0.25).log_probability == pytest.approx(math.log(0.125))
    assert forced.ScoredOutput((5,), ("a",), (0.0,), 0.25).log_probability == -math.inf


def test_wrong_numbers_of_outputs(translator):
    with pytest.raises(DataError, match="3 sentences but 1 outputs; give one output a sentence"):
        translator.token_probabilities(SENTENCES, ["a"], direction="de-en")
    with pytest.raises(DataError, match=r"output 1 has \d+ subwords, the limit is 1022"):
        translator.token_probabilities(["a"], ["house " * 1200], direction="de-en")
    assert translator.token_probabilities([], [], direction="de-en") == []
