"""Alignment-guided search: on alignments made by hand, against the algorithm written out, and as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from test_guarantee import CountCalls

from termweave import Constraint, Translator
from termweave.decoding.beam import Hypothesis, Marks, SearchOptions, beam_search
from termweave.decoding.cdalign import Guide, Placed, place_constraints
from termweave.decoding.recorded import FixedSteps
from termweave.errors import ConfigError
from termweave.model.output import Scores
from termweave.model.transformer import Transformer

BEGIN, END = 2, 3
MARKS = Marks(BEGIN, END, never=(0, BEGIN))
PLAIN = {"attention": False, "output": False, "alignment_layer": 1}
SOURCES = [[5, 6, 7, 10], [14, 15, 16, 17, 18, 19, 20], [21], [9, 8]]
PLACED = [
    [Placed(1, 3, (30, 31, 32)), Placed(0, 1, (33,))],
    [Placed(2, 3, (34, 35)), Placed(5, 7, (36,)), Placed(3, 4, (34, 34))],
    [Placed(0, 1, (37, 38))],
    [],
]
LIMITS = [12, 15, 6, 8]


# One step after the other, on alignments made by hand


def aligned(*places: int, width: int = 4) -> torch.Tensor:
    """(1, hypotheses, width): each hypothesis is aligned to one source token, though not without doubt."""
    alignment = torch.full((1, len(places), width), 0.1)
    for hypothesis, place in enumerate(places):
        alignment[0, hypothesis, place] = 0.6
    return alignment


def allowed(scores: Scores) -> list[list[int]]:
    return [[t for t in range(10) if scores.values[0, h, t] > -1e30] for h in range(scores.values.shape[1])]


def uniform(hypotheses: int) -> Scores:
    return Scores(torch.full((1, hypotheses, 10), -1.0), torch.full((1, hypotheses), -2.0))


OPEN, CLOSING = torch.tensor([False]), torch.tensor([True])
ANY = list(range(10))


def test_constraints_are_put_where_the_alignment_points():
    """Source tokens 1 and 2 belong to constraint 7 8, token 3 to constraint 9; two hypotheses go their own ways."""
    guidance = Guide.of([[Placed(1, 3, (7, 8)), Placed(3, 4, (9,))]], width=4).start(1)
    guidance, scores = guidance.impose(aligned(0), uniform(1), OPEN)
    assert allowed(scores) == [ANY]
    guidance = guidance.follow(torch.tensor([[0, 0]]))
    steps = [
        # aligned to, may produce: hypothesis 0 is led into the first constraint, hypothesis 1 into the second
        ((2, 3), [[7], [9]]),
        ((0, 0), [[8], ANY]),  # inside a constraint the alignment has no say
        ((1, 3), [ANY, ANY]),  # both point to what is used already
    ]
    for places, expected in steps:
        guidance, scores = guidance.impose(aligned(*places), uniform(2), OPEN)
        assert allowed(scores) == expected
        for hypothesis, tokens in enumerate(expected):
            cost = float(scores.at(torch.tensor([[[tokens[0]]] * 2]))[0, hypothesis])
            assert cost == (-3.0 if tokens == ANY else 0.0)  # what is due costs nothing
    # The beam is reordered: both go on as what was hypothesis 1, which still owes the first constraint.
    guidance = guidance.follow(torch.tensor([[1, 1]]))
    _, scores = guidance.impose(aligned(1, 3), uniform(2), OPEN)
    assert allowed(scores) == [[7], ANY]


def test_at_its_limit_a_hypothesis_may_end():
    guidance = Guide.of([[Placed(0, 1, (7, 8))]], width=4).start(1)
    _, scores = guidance.impose(aligned(0), uniform(1), CLOSING)
    assert allowed(scores) == [ANY]


def test_sentences_are_selected_with_their_constraints():
    guide = Guide.of([[], [Placed(0, 1, (7,))]], width=4, lead=1, multiple=4)
    assert guide.tokens.shape == (2, 4, 4) and guide.total.tolist() == [0, 1]
    guidance = guide.start(1).select(torch.tensor([1]))
    _, scores = guidance.impose(aligned(1), uniform(1), OPEN)  # behind the marker that leads the source
    assert allowed(scores) == [[7]]


# The whole search


def encode(model: Transformer, rows: list[int]):
    longest = max(len(SOURCES[row]) for row in rows) + 1
    padded = [[*SOURCES[row], END] + [0] * (longest - len(SOURCES[row]) - 1) for row in rows]
    return model.encode(torch.tensor(padded))


@torch.no_grad()
def search(model: Transformer, rows: list[int], steps=None, guided: bool = True, **options) -> list[list[Hypothesis]]:
    encoded = encode(model, rows)
    guide = Guide.of([PLACED[row] for row in rows], encoded.states.shape[1], multiple=steps.multiple if steps else 1)
    limits = torch.tensor([LIMITS[row] for row in rows])
    memory = model.decoder_memory(encoded)
    settings = SearchOptions(**options)
    return beam_search(model, memory, limits, MARKS, settings, None, steps, guide if guided else None)


class WrittenOut:
    """The algorithm for one hypothesis, from the full forward, with lists and loops."""

    def __init__(self, model: Transformer, row: int) -> None:
        self.model, self.row, self.encoded = model, row, encode(model, [row])
        self.queue: list[int] = []
        self.unused = list(PLACED[row])

    @torch.no_grad()
    def due(self, tokens: list[int]) -> int | None:
        """What must follow, or None. To be asked once a step."""
        if not self.queue:
            position = int(self.model.align(torch.tensor([[BEGIN, *tokens]]), self.encoded)[0, -1].argmax())
            found = [item for item in self.unused if item.first <= position < item.last]
            if found:
                self.unused.remove(found[0])
                self.queue = list(found[0].target)
        return self.queue.pop(0) if self.queue else None

    @torch.no_grad()
    def logs(self, tokens: list[int]) -> torch.Tensor:
        states = self.model.decode(torch.tensor([[BEGIN, *tokens]]), self.encoded)[:, -1:]
        logs = self.model.log_probabilities(states, None)[0, 0]
        logs[list(MARKS.never)] = float("-inf")
        return logs


@pytest.fixture(params=range(4))
def model(make_model, request) -> Transformer:
    """Sharper than fresh weights are, so that alignments move about."""
    model = make_model(seed=request.param, **PLAIN)
    torch.nn.init.normal_(model.alignment.query.weight, std=2.0)
    torch.nn.init.normal_(model.alignment.key.weight, std=2.0)
    return model


def test_a_beam_of_one_is_the_algorithm_written_out(model):
    put = 0
    for row, limit in enumerate(LIMITS):
        written, tokens = WrittenOut(model, row), []
        while len(tokens) < limit:
            due = written.due(tokens)
            best = int(written.logs(tokens).argmax()) if due is None else due
            if best == END:
                break
            tokens.append(best)
            put += due is not None
        assert search(model, [row], beam=1, length_penalty=0.0)[0][0].tokens == tuple(tokens)
    assert put > 0


def test_every_hypothesis_was_led_by_its_own_alignment(model):
    """Hypotheses change places in the beam, and what they have used goes with them; so does their score."""
    for row, hypotheses in enumerate(search(model, [0, 1, 2, 3], beam=4, length_penalty=0.0)):
        assert hypotheses
        for hypothesis in hypotheses:
            written, total = WrittenOut(model, row), 0.0
            for place, token in enumerate([*hypothesis.tokens, END]):
                before = list(hypothesis.tokens[:place])
                due = written.due(before) if place < LIMITS[row] else None
                if due is None:
                    total += float(written.logs(before)[token])
                else:
                    assert token == due
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("leave", [0.0, 2.0])
def test_batched_equals_one_by_one_and_fixed_steps(model, monkeypatch, leave):
    monkeypatch.setattr("termweave.decoding.beam.LEAVE", leave)
    together = search(model, [0, 1, 2, 3], beam=3)
    fixed = search(model, [0, 1, 2, 3], FixedSteps(model, MARKS, SearchOptions(beam=3)), beam=3)
    for row in range(4):
        alone = search(model, [row], beam=3)[0]
        for other in (alone, fixed[row]):
            assert [found.tokens for found in together[row]] == [found.tokens for found in other]
            assert [found.score for found in together[row]] == pytest.approx([found.score for found in other], abs=1e-4)


def test_without_constraints_it_is_beam_search(model):
    """Also beside sentences that have some."""
    plain = search(model, [3], guided=False)[0]
    for found in (search(model, [3])[0], search(model, [0, 3, 1])[1]):
        assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in plain]
        assert [item.score for item in found] == pytest.approx([item.score for item in plain], abs=1e-5)


@torch.no_grad()
def test_a_step_is_the_same_operations_for_every_batch_and_never_asks_the_host():
    counted = []
    for rows in ([0], [0, 1, 2, 3], [1] * 12):
        guidance = Guide.of([PLACED[row] for row in rows], width=8).start(4)
        scores = Scores(torch.zeros(len(rows), 4, 40), torch.zeros(len(rows), 4))
        with CountCalls() as calls:
            after, _ = guidance.impose(torch.rand(len(rows), 4, 8), scores, torch.zeros(len(rows), dtype=torch.bool))
            after.follow(torch.zeros(len(rows), 4, dtype=torch.long))
        counted.append(calls.calls)
        assert calls.waits == 0
    assert len(set(counted)) == 1


# Text


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en", attention=False, output=False, alignment_layer=1), "cpu")


def test_places_in_text(translator):
    subwords, text = translator.subwords, "ein Haus am alten Fluss"
    wanted = [Constraint("alten Fluss", "river"), Constraint("Baum", "tree"), Constraint("Haus", "old house")]
    placed = place_constraints(text, wanted, subwords, "de-en")
    ids = subwords.encode(text)
    assert [subwords.decode(ids[item.first : item.last]) for item in placed] == ["alten Fluss", "Haus"]
    assert [subwords.decode(item.target) for item in placed] == ["river", "old house"]


def test_the_translator_puts_constraints_where_the_alignment_points(translator, monkeypatch):
    """An alignment made by hand: token 0 first, then the house, then the river, then the end mark for good."""
    text = "ein Haus am Fluss"
    wanted = [Constraint("Haus", "house"), Constraint("Fluss", "river"), Constraint("am", "by the")]
    house, river, _ = place_constraints(text, wanted, translator.subwords, "de-en")
    pointed = [0, *[house.first] * len(house.target), *[river.first] * len(river.target)]
    plain = translator.model.step

    def step_aligned(tokens, cache, memory):
        place = pointed[cache.length] if cache.length < len(pointed) else memory.alignment.shape[2] - 1
        alignment = torch.zeros(*tokens.shape, memory.alignment.shape[2])
        alignment[:, :, place] = 1.0
        return plain(tokens, cache, memory), alignment

    monkeypatch.setattr(translator.model, "step_aligned", step_aligned)
    [result] = translator.translate([text], [wanted], search="cdalign", beam=2)
    assert "house river" in result.text
    assert result.spans[0] is not None
    assert result.spans[2] is None  # never pointed to, so missed


def test_without_constraints_the_translator_searches_plainly(translator):
    sentences = ["ein Haus am Fluss", "der Müller"]
    assert translator.translate(sentences, search="cdalign") == translator.translate(sentences, search="beam")
    nowhere = [[Constraint("Baum", "tree")], []]
    results = translator.translate(sentences, nowhere, search="cdalign")
    assert [replace(result, spans=()) for result in results] == translator.translate(sentences, search="beam")


def test_a_model_without_the_module_is_refused(make_folder, translator):
    plain = Translator.load(make_folder("de-en"), "cpu")
    with pytest.raises(ConfigError, match=r"needs a model with an alignment module; train one .*--stage alignment"):
        plain.translate(["ein Haus"], search="cdalign")
    with pytest.raises(ConfigError, match="ordered needs the search that guarantees it"):
        translator.translate(["ein Haus"], search="cdalign", ordered=True)
    with pytest.raises(ConfigError, match="forbidden phrases need the search"):
        translator.translate(["ein Haus"], search="cdalign", forbidden=["house"])
