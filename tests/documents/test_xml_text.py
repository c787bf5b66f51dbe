"""Texts with XML tags, and HTML with elements that are to be ignored."""

from __future__ import annotations

import pytest
from fake_translators import Recorder, same, shout
from hypothesis import given
from hypothesis import strategies as st

from termweave.documents import translate_markup


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two", "ONE TWO"),
        ("<p>one <b>two</b> three</p>", "<p>ONE <b>TWO</b> THREE</p>"),
        ("<title>one</title><script>two</script>", "<title>ONE</title><script>TWO</script>"),  # as in no HTML
        ("a &amp; b &lt; c", "A &amp; B &lt; C"),
        ('see <x id="A"/> now', 'SEE <x id="A"/> NOW'),
        ("<![CDATA[a < b]]> more", "<![CDATA[a < b]]> MORE"),
        ("<k>keep <k>this</k> too</k> not this", "<k>keep <k>this</k> too</k> NOT THIS"),
        ("say <K>Brand</K> aloud", "SAY <K>Brand</K> ALOUD"),
        ("an end <k>is missing", "AN END <k>is missing"),
        ("</b>odd<i>", "</b>ODD<i>"),
        ("", ""),
    ],
)
def test_text_is_translated_and_tags_stay(text: str, expected: str):
    assert translate_markup(text, "xml", shout, ignored=frozenset({"k"})) == expected


def test_a_sentence_is_one_with_its_tags_unless_they_split_it():
    asked = Recorder(same)
    translate_markup("<s>the red <b>house</b> is</s><s>for sale</s>", "xml", asked, splitting=frozenset({"s"}))
    assert asked.lines == ["the red <1>house</1> is", "for sale"]


def test_elements_of_html_can_be_ignored():
    html = "<p>buy <brand>Red House</brand> now <b>or <i>never</i></b></p><div>this too</div>"
    expected = "<p>BUY <brand>Red House</brand> NOW <b>OR <i>never</i></b></p><div>this too</div>"
    assert translate_markup(html, "html", shout, ignored=frozenset({"brand", "i", "div"})) == expected


@given(
    st.lists(st.sampled_from(["<a>", "</a>", "<b x='1'>", "</b>", "<c/>", "a word. ", "&amp;", "<!--n-->", "<", "k"]))
)
def test_what_is_not_changed_stays_to_the_letter(parts: list[str]):
    text = "".join(parts)
    assert translate_markup(text, "xml", same, ignored=frozenset({"a"}), splitting=frozenset({"b"})) == text
