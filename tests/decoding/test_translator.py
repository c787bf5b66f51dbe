"""`Translator` between text and search: order, batches, constraints per sentence, wrong arguments."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from termweave import Constraint, Glossary, GlossaryEntry, Terminology, Translation, Translator
from termweave.decoding import crew, searcher, stutter
from termweave.decoding.batching import Request, has_few, wishes_of
from termweave.decoding.beam import Hypothesis, beam_search
from termweave.decoding.demands import Wishes
from termweave.decoding.terminology import TermPlan
from termweave.errors import CheckpointError, ConfigError, ConstraintError, DataError

SENTENCES = [
    "der alte Müller",
    "ein Haus am Fluss verkauft Mehl",
    "Mehl",
    "der Fluss",
    "ein alter Müller verkauft ein altes Haus am alten Fluss",
]
HOUSE = [Constraint("Haus", "house")]


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en"), "cpu")


@pytest.fixture(scope="module")
def both_ways(make_folder) -> Translator:
    return Translator.load(str(make_folder("de-en", "en-de")), "cpu")


def assert_same(first: list[Translation], second: list[Translation]) -> None:
    assert [result.text for result in first] == [result.text for result in second]
    assert [result.score for result in first] == pytest.approx([result.score for result in second], abs=1e-4)


def test_the_order_of_the_sentences_is_kept(translator):
    results = translator.translate(SENTENCES)
    assert len({result.score for result in results}) == len(SENTENCES)  # so that a wrong order would show
    backwards = translator.translate(SENTENCES[::-1])
    assert_same(results, backwards[::-1])
    assert str(results[0]) == results[0].text


@pytest.mark.parametrize("batch_tokens", [1, 16, 4096])
def test_batches_change_nothing(translator, batch_tokens):
    constraints = [[], HOUSE, [], [], HOUSE]
    alone = [translator.translate([s], [c])[0] for s, c in zip(SENTENCES, constraints, strict=True)]
    assert_same(translator.translate(SENTENCES, constraints, batch_tokens=batch_tokens), alone)


def test_constraints_reach_their_own_sentence_only(translator):
    plain = translator.translate(SENTENCES)
    results = translator.translate(SENTENCES, [[], HOUSE, [], [], []])
    assert_same(results[:1] + results[2:], plain[:1] + plain[2:])
    assert results[1].score != pytest.approx(plain[1].score, abs=1e-4)
    assert_same(translator.translate(SENTENCES, [[]] * 5), plain)


def test_empty_sentences_stay_in_their_place(translator):
    results = translator.translate(["", SENTENCES[0], "   ", "\u200b", SENTENCES[3]])
    assert [result for index, result in enumerate(results) if index in (0, 2, 3)] == [Translation("", 0.0)] * 3
    assert_same([results[1], results[4]], translator.translate([SENTENCES[0], SENTENCES[3]]))
    assert translator.translate([]) == []


def test_the_same_text_in_another_unicode_form_is_the_same_sentence(translator):
    assert_same(translator.translate(["der alte Mu\u0308ller"]), translator.translate(["der alte Müller"]))


def test_options_limits_and_marks_reach_the_search(both_ways, monkeypatch):
    seen = []

    def spy(model, memory, limits, marks, options, automaton, steps, **further):
        seen.append((limits.tolist(), marks, options.beam, options.length_penalty))
        return beam_search(model, memory, limits, marks, options, automaton, steps, **further)

    monkeypatch.setattr(searcher, "beam_search", spy)
    both_ways.translate(["Mehl", "der Fluss"], direction="en-de", beam=3, length_penalty=0.5)
    subwords = both_ways.subwords
    lengths = sorted((len(subwords.encode(text)) for text in ("Mehl", "der Fluss")), reverse=True)
    [(limits, marks, beam, length_penalty)] = seen
    assert limits == [2 * (length + 2) + 20 for length in lengths]  # tag and end mark counted
    assert (beam, length_penalty) == (3, 0.5)
    assert (marks.begin, marks.end) == (subwords.bos, subwords.eos)
    assert set(marks.never) == {subwords.pad, subwords.bos, subwords.tag("de"), subwords.tag("en")}


def test_a_model_of_several_directions_must_be_told_which(both_ways):
    with pytest.raises(ConfigError, match="no direction was given; choose one of: de-en, en-de"):
        both_ways.translate(SENTENCES)
    with pytest.raises(ConfigError, match="does not translate de-fr; choose one of: de-en, en-de"):
        both_ways.translate(SENTENCES, direction="de-fr")
    into_english = both_ways.translate(SENTENCES, direction="de-en")
    into_german = both_ways.translate(SENTENCES, direction="en-de")
    assert into_english != into_german  # the tag reaches the model


def test_a_model_of_one_direction_refuses_others(translator):
    assert_same(translator.translate(SENTENCES, direction="de-en"), translator.translate(SENTENCES))
    with pytest.raises(ConfigError, match="does not translate en-de; choose one of: de-en"):
        translator.translate(SENTENCES, direction="en-de")


def test_wrong_arguments_are_explained(translator):
    with pytest.raises(DataError, match=r"write translate\(\[sentence\]\)"):
        translator.translate("der Fluss")
    with pytest.raises(ConstraintError, match="2 sentences but constraints for 1"):
        translator.translate(["a", "b"], [HOUSE])
    with pytest.raises(ConstraintError, match="sentence 2: expected a Constraint, got"):
        translator.translate(["a", "b"], [[], [("Haus", "house")]])
    with pytest.raises(ConstraintError, match="sentence 1: give one list of constraints"):
        translator.translate(["das Haus"], HOUSE)
    with pytest.raises(DataError, match=r"sentence 2 has \d+ subwords, the limit is 1022; split it first"):
        translator.translate(["a", "Haus " * 1200])
    with pytest.raises(ConstraintError, match="is over-long: at most 1024 subwords"):
        translator.translate(["a"], [[Constraint("Haus", "house " * 1200)]])
    with pytest.raises(ConstraintError, match="empty"):
        translator.translate(["a"], [[Constraint("\u200b", "house")]])
    with pytest.raises(ConfigError, match="beam: must be at least 1"):
        translator.translate(["a"], beam=0)


def test_loading_what_is_no_model(tmp_path, make_folder):
    with pytest.raises(CheckpointError, match="is not a model folder"):
        Translator.load(tmp_path)
    with pytest.raises(ConfigError, match="unknown device 'toaster'"):
        Translator.load(make_folder("de-en"), "toaster")


def test_special_tokens_never_show(both_ways):
    for result in both_ways.translate(SENTENCES, direction="en-de", beam=8):
        assert not any(mark in result.text for mark in ("<2de>", "<2en>", "<s>", "</s>", "<pad>"))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_every_precision_translates(make_folder, translator, precision):
    other = Translator.load(make_folder("de-en"), "cpu", precision)
    results = other.translate(SENTENCES, [[], HOUSE, [], [], HOUSE])
    exact = translator.translate(SENTENCES, [[], HOUSE, [], [], HOUSE])
    assert [result.score for result in results] == pytest.approx([result.score for result in exact], abs=0.3)


def test_a_precision_nobody_knows(make_folder):
    with pytest.raises(ConfigError, match="unknown precision 'int4'; use one of: auto, float32, bfloat16, int8"):
        Translator.load(make_folder("de-en"), "cpu", "int4")


def test_inspecting_an_output(both_ways):
    seen = both_ways.inspect("ein Haus am Fluss", "a house", HOUSE, direction="de-en")
    layers, heads, length, source = seen.source.shape
    assert (layers, heads, length, source) == (1, 2, len(seen.output_pieces), len(seen.source_pieces))
    assert seen.constraints.shape[-1] == len(seen.constraint_pieces) > 0
    assert seen.gates.shape == (length,)
    total = seen.source.sum(dim=-1) + seen.constraints.sum(dim=-1)
    assert total.min() == pytest.approx(1, abs=1e-5)
    assert both_ways.inspect("ein Haus", "a house", direction="de-en").constraints.shape[-1] == 0


@pytest.fixture
def told_outputs(translator, monkeypatch):
    """Plain search finds for every sentence the given texts, with their scores; the guaranteed search is the real one.

    Also returns what the guaranteed search was asked for: (sentences, beam) of each call.
    """
    texts: list[list[tuple[str, float]]] = []
    asked: list[tuple[int, int]] = []

    def search(model, memory, limits, marks, options, automaton, steps, **further):
        if automaton is None:
            encode = translator.subwords.encode
            return [[Hypothesis(tuple(encode(text)), score, score) for text, score in own] for own in texts]
        asked.append((len(limits), options.beam))
        return beam_search(model, memory, limits, marks, options, automaton, steps, **further)

    monkeypatch.setattr(searcher, "beam_search", search)
    monkeypatch.setattr(stutter, "repetitions", lambda tokens: set())  # as models with random weights do all the time
    return texts, asked


def test_what_plain_search_meets_by_itself_is_left_alone(translator, told_outputs):
    texts, asked = told_outputs
    texts += [[("a house", -50.0), ("the old miller", -51.0)], [("the river", -0.1), ("the old", -0.2)]]
    results = translator.translate(["ein Haus", "der Fluss"], [HOUSE, HOUSE])
    assert (results[0].text, results[0].spans) == ("a house", ((2, 7),))  # whatever its score
    assert results[1].spans != (None,)
    assert asked == [(1, 8)]  # the other sentence, twice the places


def test_the_better_of_both_searches_wins(translator, told_outputs):
    """The best of plain search lacks the constraint, but its second is better than what the other search finds."""
    texts, _ = told_outputs
    texts += [[("the river", -1e-9), ("a house by the river", -1e-8), ("the old miller", -2.0), ("house", -1e9)]]
    result = translator.translate(["ein Haus"], [HOUSE], nbest=4)[0]
    assert result.text == "a house by the river"
    assert "house" not in [output.text for output in result.others]  # nor is the worst of them dragged along
    scores = [output.score for output in (result, *result.others)]
    assert len(scores) == 4 and scores == sorted(scores, reverse=True)
    assert not any(None in output.spans for output in (result, *result.others))


def test_several_outputs_must_all_be_met(translator, told_outputs):
    texts, asked = told_outputs
    texts += [[("a house", -1e-9), ("the old miller", -1e-8)]]
    result = translator.translate(["ein Haus"], [HOUSE], nbest=2)[0]
    assert result.text == "a house"
    assert asked and result.others[0].spans != (None,)


def test_on_several_processors_the_outputs_are_the_same(translator, monkeypatch):
    sentences = SENTENCES * 8
    wanted = [[Constraint("Haus", "zebra")] if "Haus" in sentence else [] for sentence in sentences]
    expected = translator.translate(sentences, wanted)
    monkeypatch.setattr(crew, "FEWEST_TOKENS", 10)
    own = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = translator.translate(sentences, wanted)
    finally:
        torch.set_num_threads(own)
    assert [result.text for result in found] == [result.text for result in expected]


def test_many_constraints_are_guaranteed_from_the_start(translator, told_outputs):
    _, asked = told_outputs
    pairs = [("ein", "one"), ("Haus", "house"), ("Fluss", "river"), ("Mehl", "flour")]
    many = [Constraint(*pair) for pair in pairs]
    results = translator.translate(["ein Haus am Fluss verkauft Mehl", "der Fluss"], [many, []])
    assert asked == [(2, 4)]  # one search of both sentences, with the usual places
    assert None not in results[0].spans


@pytest.mark.parametrize(
    "subwords, constraints, expected",
    [(5, 1, True), (5, 2, False), (19, 2, False), (20, 2, True), (30, 3, True), (300, 3, True), (300, 4, False)],
)
def test_what_is_few_goes_by_the_length_of_the_sentence(subwords, constraints, expected):
    wishes = Wishes(required=(Constraint("Haus", "house"),) * constraints)
    assert has_few(Request(0, [5] * subwords, [], (), wishes, TermPlan())) is expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Haus", True),
        ("Haus %s", True),
        ("%s %d %f", True),
        ("Haus Fluss", False),
        ("Haus Haus", False),
        ("Mehl Haus", True),
    ],
)
def test_of_words_that_a_glossary_chose_one_is_few(text, expected):
    """What is kept as it is, or only preferred, does not count."""
    entries = (
        GlossaryEntry("Haus", ("building",)),
        GlossaryEntry("Fluss", ("stream",)),
        GlossaryEntry("Mehl", ("meal",), policy="prefer"),
    )
    plan = Terminology(Glossary(entries), "de-en").plan(text)
    assert len(plan.terms) == len(text.split())
    assert has_few(Request(0, [5] * 100, [], (), wishes_of((), plan, (), False), plan)) is expected


def test_the_first_translation_needs_no_compiler(make_folder):
    """torch loads its compiler for the strangest things, and takes two seconds for it."""
    program = (
        "import sys; from termweave import Translator; "
        f"Translator.load({str(make_folder('de-en'))!r}, 'cpu', 'int8').translate(['ein Haus']); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_mark_of_broken_text_comes_out_only_if_it_is_asked_for(translator, monkeypatch):
    tokens = tuple(translator.subwords.target.encode("the house \ufffd by"))
    outputs = [[Hypothesis(tokens, -1.0, -5.0)]]
    monkeypatch.setattr(translator._searcher, "search", lambda batch, options, meanwhile=None: outputs)
    options = {"direction": "de-en"}
    assert translator.translate(["das Haus"], **options)[0].text == "the house by"
    assert translator.translate(["das Haus"], search="beam", **options)[0].text == "the house by"
    assert translator.translate(["das Haus \ufffd"], **options)[0].text == "the house \ufffd by"
    wanted = [[Constraint("Haus", "house \ufffd")]]
    assert translator.translate(["das Haus"], wanted, **options)[0].text == "the house \ufffd by"
