"""TER alignments: tables worked out by hand, sacreBLEU's number of edits, and what must hold for any text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.ter import TER

from termweave.evaluation.ter import ter_alignment


@pytest.mark.parametrize(
    ("output", "reference", "right", "shifts", "edits"),
    [
        pytest.param("a b c", "a b c", "111", 0, 0, id="equal"),
        pytest.param("a x c", "a b c", "101", 0, 1, id="one replaced"),
        pytest.param("a b x c", "a b c", "1101", 0, 1, id="one too many"),
        pytest.param("a c", "a b c", "11", 0, 1, id="one missing"),
        pytest.param("x y z", "a b c", "000", 0, 3, id="nothing right"),
        pytest.param("c a b", "a b c", "111", 1, 1, id="the first moved behind the others"),
        pytest.param("d e a b c", "a b c d e", "11111", 1, 1, id="two moved together"),
        pytest.param("e the a b s", "the a b S e", "11110", 1, 2, id="one moved, one replaced"),
        pytest.param("a b x c d", "c d y a b", "11011", 1, 3, id="two moved, a wrong one stays behind"),
        pytest.param("a a", "a", "01", 0, 1, id="twice, needed once"),
        pytest.param("a", "a a", "1", 0, 1, id="once, needed twice"),
        pytest.param("", "a b", "", 0, 2, id="no output"),
        pytest.param("a b", "", "00", 0, 2, id="no reference"),
        pytest.param("", "", "", 0, 0, id="neither"),
        pytest.param("A b", "a b", "01", 0, 1, id="case matters"),
    ],
)
def test_by_hand(output, reference, right, shifts, edits):
    alignment = ter_alignment(output.split(), reference.split())
    assert "".join(str(int(flag)) for flag in alignment.correct) == right
    assert (alignment.shifts, alignment.edits) == (shifts, edits)


def test_links_count_the_words_as_they_stand():
    output, reference = ["flour", "the", "old", "miller", "buys"], ["the", "old", "miller", "sells", "flour"]
    alignment = ter_alignment(output, reference)
    assert alignment.links == (4, 0, 1, 2, None)
    assert alignment.rate == pytest.approx(40)


def test_rates_without_a_reference():
    assert ter_alignment([], []).rate == 0
    assert ter_alignment([5], []).rate == 100


@st.composite
def texts(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A reference, and an output made of it by a few edits, or of anything."""
    words = st.sampled_from([f"w{number}" for number in range(draw(st.integers(2, 12)))])
    reference = draw(st.lists(words, min_size=1, max_size=12))
    output = list(reference)
    for _ in range(draw(st.integers(0, 5))):
        place, length = draw(st.integers(0, len(output))), draw(st.integers(0, 3))
        removed = output[place : place + length]
        output[place : place + length] = draw(st.lists(words, max_size=2))
        if draw(st.booleans()):
            place = draw(st.integers(0, len(output)))
            output[place:place] = removed
    return output[:15], reference


@settings(max_examples=600, deadline=None)
@given(texts())
def test_as_many_edits_as_sacrebleu(pair):
    output, reference = pair
    theirs = TER(case_sensitive=True).sentence_score(" ".join(output), [" ".join(reference)])
    alignment = ter_alignment(output, reference)
    assert alignment.edits == theirs.num_edits
    assert alignment.rate == pytest.approx(theirs.score)


def plain_distance(output: list[str], reference: list[str]) -> int:
    row = list(range(len(reference) + 1))
    for word in output:
        above, row = row, [row[0] + 1]
        for column, other in enumerate(reference):
            row.append(min(above[column] + (word != other), above[column + 1] + 1, row[column] + 1))
    return row[-1]


@settings(max_examples=300, deadline=None)
@given(texts())
def test_what_holds_for_any_text(pair):
    output, reference = pair
    alignment = ter_alignment(output, reference)
    links = [(place, link) for place, link in enumerate(alignment.links) if link is not None]
    assert all(output[place] == reference[link] for place, link in links)
    assert len({link for _, link in links}) == len(links)  # no word of the reference serves twice
    assert alignment.edits <= plain_distance(output, reference)
    if alignment.shifts == 0:
        assert links == sorted(links, key=lambda pair: pair[1])
        assert alignment.edits == plain_distance(output, reference)
    assert max(len(output), len(reference)) - len(links) <= alignment.edits
    numbers = ter_alignment([hash(word) for word in output], [hash(word) for word in reference])
    assert numbers == alignment  # tokens may be of any kind


def test_long_texts_move_no_farther_than_fifty():
    filler = [f"w{number}" for number in range(60)]
    near, far = filler[:40], filler[:55]
    assert ter_alignment(["x", *near], [*near, "x"]).shifts == 1
    assert ter_alignment(["x", *far], [*far, "x"]).shifts == 0
