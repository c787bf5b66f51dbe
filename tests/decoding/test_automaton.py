"""The automaton against a definition written out word by word, on random phrases and outputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.decoding.automaton import Automaton, Demands, Requirement, WordJoins
from termweave.decoding.tables import compile_automaton
from termweave.errors import ConstraintError

# Tokens 1–3 begin a word and end inside it, 4 and 5 go on with a word, 6 is punctuation, 7 a whole closed word.
OPEN_END = np.array([False, True, True, True, True, True, False, False, True, True])
INNER_START = np.array([False, False, False, False, True, True, False, False, False, True])
JOINS = WordJoins(OPEN_END, INNER_START)
VOCABULARY = len(OPEN_END)

TOKEN = st.integers(1, 7)
PHRASE = st.lists(TOKEN, min_size=1, max_size=4).map(tuple)
# At least one alternative must be able to stand anywhere, that is, begin a word.
ANYWHERE = st.tuples(st.sampled_from([1, 2, 3, 6, 7]), st.lists(TOKEN, max_size=3)).map(lambda row: (row[0], *row[1]))
REQUIREMENT = st.builds(
    lambda first, more, times: Requirement(tuple(dict.fromkeys((first, *more))), times),
    ANYWHERE,
    st.lists(PHRASE, max_size=1),
    st.sampled_from([1, 1, 1, 2]),
)
REQUIRED = st.lists(REQUIREMENT, max_size=3).map(tuple)


@st.composite
def demands_of(draw: st.DrawFn, required: st.SearchStrategy = REQUIRED) -> Demands:
    """Some of what is required is forbidden besides: it may stand there so often and no more."""
    wanted = draw(required)
    phrases = [phrase for requirement in wanted for phrase in requirement.alternatives]
    phrase = st.one_of(PHRASE, st.sampled_from(phrases)) if phrases else PHRASE
    return Demands(wanted, tuple(draw(st.lists(phrase, max_size=2))), draw(st.booleans()))


DEMANDS = demands_of()
OUTPUT = st.lists(st.integers(1, VOCABULARY - 1), max_size=14)


def joined(first: int, second: int) -> bool:
    return bool(OPEN_END[first] and INNER_START[second])


def ends_of(phrase: tuple[int, ...], output: list[int]) -> list[int]:
    """Where the phrase ends in the output, as whole words."""
    found = []
    for start in range(len(output) - len(phrase) + 1):
        end = start + len(phrase)
        if tuple(output[start:end]) != phrase:
            continue
        if start and joined(output[start - 1], output[start]):
            continue
        if end < len(output) and joined(output[end - 1], output[end]):
            continue
        found.append(end)
    return found


def period(phrase: tuple[int, ...]) -> int:
    return next(n for n in range(1, len(phrase) + 1) if phrase[n:] == phrase[: len(phrase) - n])


def occurrences(requirement: Requirement) -> int:
    """As many as are sure not to overlap."""
    overlap = max(-(-len(phrase) // period(phrase)) for phrase in requirement.alternatives)
    return 1 if requirement.times == 1 else (requirement.times - 1) * overlap + 1


def counts(demands: Demands, ends: list[set[int]]) -> list[bool]:
    """Which requirements are fulfilled, given where phrases of each end; in order, only what comes behind the last."""
    wanted = [occurrences(requirement) for requirement in demands.required]
    if not demands.ordered:
        return [len(own) >= times for own, times in zip(ends, wanted, strict=True)]
    position, is_met = 0, [False] * len(wanted)
    for index, (own, times) in enumerate(zip(ends, wanted, strict=True)):
        for _ in range(times):
            position = min((end for end in own if end > position), default=0)
            if not position:
                return is_met
        is_met[index] = True
    return is_met


def fulfilled(demands: Demands, output: list[int]) -> bool:
    """A phrase that is forbidden and required is forbidden where that was fulfilled before; where several of those end
    together, the longest counts."""
    ends = [{end for phrase in item.alternatives for end in ends_of(phrase, output)} for item in demands.required]
    for last in range(1, len(output) + 1):
        ending = sorted((phrase for phrase in demands.forbidden if last in ends_of(phrase, output)), key=len)
        before = counts(demands, [{end for end in own if end < last} for own in ends])
        required = [
            [is_met for item, is_met in zip(demands.required, before, strict=True) if phrase in item.alternatives]
            for phrase in ending
        ]
        if required and (not all(required) or all(required[-1])):
            return False
    return all(counts(demands, ends))


def run(automaton: Automaton, output: list[int]) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """The state after an output, for a batch of one; True if something forbidden was completed on the way."""
    node, bits = torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long)
    forbidden = False
    for token in output:
        tokens = torch.tensor([[token]])
        node, bits, banned = automaton.advance(node, bits, tokens, automaton.columns(tokens))
        forbidden = forbidden or bool(banned)
    return node, bits, forbidden


@settings(max_examples=400, deadline=None)
@given(DEMANDS, OUTPUT)
def test_may_end_where_everything_is_fulfilled(demands, output):
    automaton = compile_automaton([demands], JOINS)
    node, bits, forbidden = run(automaton, output)
    assert (bool(automaton.may_end(node, bits)) and not forbidden) == fulfilled(demands, output)


def test_what_is_required_and_forbidden_stands_there_so_often_and_no_more():
    demands = Demands((Requirement(((7,),), 2), Requirement(((1, 2),))), ((7,),))
    automaton = compile_automaton([demands], JOINS)
    for output, is_good in (([7, 7, 1, 2], True), ([7, 1, 2, 7], True), ([7, 1, 2], False), ([7, 7, 1, 2, 7], False)):
        node, bits, forbidden = run(automaton, output)
        assert (bool(automaton.may_end(node, bits)) and not forbidden) == is_good, output


def test_a_required_word_that_begins_with_a_forbidden_one_comes_nearer_with_every_token():
    automaton = compile_automaton([Demands((Requirement(((1, 4, 5),)),), ((1,),))], JOINS)
    missing = [int(automaton.missing(*run(automaton, [1, 4, 5][:taken])[:2])) for taken in range(4)]
    assert missing == [3, 2, 1, 0]
    assert int(automaton.missing(*run(automaton, [2, 1])[:2])) == 2


@settings(max_examples=300, deadline=None)
@given(st.builds(Demands, REQUIRED, st.just(()), st.booleans(), st.just(())), OUTPUT)
def test_missing_is_a_promise_that_can_be_kept(demands, output):
    """With nothing forbidden: 0 means that all is fulfilled, and some token always brings it down by one."""
    automaton = compile_automaton([demands], JOINS)
    node, bits, _ = run(automaton, output)
    missing = int(automaton.missing(node, bits))
    assert (missing == 0) == bool(automaton.may_end(node, bits))
    while missing:
        tokens = automaton.tokens
        nodes, states, _ = automaton.advance(
            node.expand(tokens.shape).contiguous(),
            bits.expand(tokens.shape).contiguous(),
            tokens,
            automaton.columns(tokens),
        )
        left = automaton.missing(nodes, states)
        best = int(left.argmin())
        assert int(left[0, best]) < missing
        node, bits, missing = nodes[:, best : best + 1], states[:, best : best + 1], int(left[0, best])
    assert bool(automaton.may_end(node, bits))


@settings(deadline=None)
@given(st.lists(DEMANDS, min_size=2, max_size=4), OUTPUT)
def test_sentences_of_a_batch_do_not_touch_each_other(batch, output):
    together = compile_automaton(batch, JOINS)
    nodes = torch.zeros(len(batch), 1, dtype=torch.long)
    bits = torch.zeros(len(batch), 1, dtype=torch.long)
    for token in output:
        tokens = torch.full((len(batch), 1), token)
        nodes, bits, _ = together.advance(nodes, bits, tokens, together.columns(tokens))
    for index, demands in enumerate(batch):
        alone = compile_automaton([demands], JOINS)
        node, own, _ = run(alone, output)
        assert int(own) == int(bits[index])
        assert bool(alone.may_end(node, own)) == bool(together.may_end(nodes, bits)[index])
        assert int(alone.missing(node, own)) == int(together.missing(nodes, bits)[index])


@pytest.mark.parametrize(
    ("phrases", "output", "expected"),
    [
        ([(1, 2, 3)], [1, 1, 2, 3], True),  # a restart inside a phrase
        ([(1, 2, 1, 3)], [1, 2, 1, 2, 1, 3], True),  # a restart that goes back two tokens
        ([(1, 2), (2, 3)], [1, 2, 3], True),  # the end of one is the beginning of the other
        ([(2,), (1, 2, 3)], [1, 2, 3], True),  # one inside the other
        ([(1, 2), (1, 3)], [1, 2, 1, 3], True),  # a shared beginning
        ([(1, 2)], [1, 2, 4], False),  # the word goes on
        ([(1, 2)], [1, 2, 6], True),  # punctuation ends it
        ([(4, 6)], [1, 4, 6], False),  # the phrase would begin inside a word
        ([(4, 6)], [6, 4, 6], True),  # after punctuation it may
        ([(1,), (1, 4)], [1, 4], False),  # 1 alone is missing: here it is part of the longer word
        ([(1,), (1, 4)], [1, 4, 1], True),
    ],
)
def test_what_counts(phrases, output, expected):
    never = (8, 8, 8)  # an alternative that can stand anywhere, for those that cannot
    demands = Demands(tuple(Requirement((phrase, never)) for phrase in phrases))
    automaton = compile_automaton([demands], JOINS)
    node, bits, _ = run(automaton, output)
    assert bool(automaton.may_end(node, bits)) is expected


def test_a_phrase_needed_twice_must_stand_twice():
    automaton = compile_automaton([Demands((Requirement(((1, 2),), times=2),))], JOINS)
    ends = [bool(automaton.may_end(*run(automaton, [1, 2] * times)[:2])) for times in (1, 2, 3)]
    assert ends == [False, True, True]


def test_occurrences_that_overlap_are_not_counted_twice():
    automaton = compile_automaton([Demands((Requirement(((1, 1),), times=2),))], JOINS)
    ends = [bool(automaton.may_end(*run(automaton, [1] * count)[:2])) for count in (2, 3, 4)]
    assert ends == [False, False, True]


def test_more_constraints_than_there_are_bits_are_refused():
    demands = Demands(tuple(Requirement(((1,),)) for _ in range(63)))
    with pytest.raises(ConstraintError, match="sentence 1 has 63 constraints"):
        compile_automaton([demands], JOINS)


def test_what_can_only_stand_inside_a_word_is_refused():
    with pytest.raises(ConstraintError, match="inside a word"):
        compile_automaton([Demands((Requirement(((4, 1),)),))], JOINS)


def test_sentences_without_demands_may_always_end():
    automaton = compile_automaton([Demands(), Demands()], JOINS)
    node, bits, _ = run(compile_automaton([Demands()], JOINS), [1, 2, 6])
    assert automaton.total.tolist() == [0, 0]
    assert bool(compile_automaton([Demands()], JOINS).may_end(node, bits))
