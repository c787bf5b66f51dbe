"""Markdown beyond CommonMark: task lists, footnotes, definition lists and math keep their marks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fake_translators import Recorder, lose_tokens, runner, same, shout, shout_all
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termweave.documents.markdown_inline import InlineParser


@pytest.fixture
def md(tmp_path: Path):  # type: ignore[no-untyped-def]
    return runner("md", tmp_path)


CASES = {
    "- [ ] todo\n- [x] done\n\n  1. [X] deep *one*\n": "- [ ] TODO\n- [x] DONE\n\n  1. [X] DEEP *ONE*\n",
    "- [x](u) a link\n- [ ]\n": "- [X](u) A LINK\n- [ ]\n",
    "Text[^1]\n": "TEXT[^1]\n",
    "[^1]: Die Note.\n": "[^1]: DIE NOTE.\n",
    "[^1]: Note\n[^b]: Zwei\n    weiter.\n\n    Noch `code`.\n\nText.\n": (
        "[^1]: NOTE\n[^b]: ZWEI WEITER.\n\n    NOCH `code`.\n\nTEXT.\n"
    ),
    "> [^1]: in a quote\n": "> [^1]: IN A QUOTE\n",
    "**bold[^1]** and [link[^2]](u)\n": "**BOLD[^1]** AND [LINK[^2]](u)\n",
    "$x^2$\n": "$x^2$\n",
    "So $x^2$, $$a_b$$ and $`y`$. It costs $5 or $6, US$7.\n": (
        "SO $x^2$, $$a_b$$ AND $`y`$. IT COSTS $5 OR $6, US$7.\n"
    ),
    "text\n$$\na\n- b\n\n+ c\n$$\ntext\n": "TEXT\n$$\na\n- b\n\n+ c\n$$\nTEXT\n",
    "- item\n  $$ a $$\n  text\n": "- ITEM\n  $$ a $$\n  TEXT\n",
    "$$\nnever closed\n": "$$ NEVER CLOSED\n",
    "Term\n: One\n  goes on. Yes.\n: Two\n": "TERM\n: ONE GOES ON. YES.\n: TWO\n",
    "Term\n\n:   Text\n": "TERM\n\n:   TEXT\n",
    "One\nTwo\n: Both\n": "ONE\nTWO\n: BOTH\n",
}


@pytest.mark.parametrize("text", CASES)
def test_marks_stay(md, text: str) -> None:  # type: ignore[no-untyped-def]
    assert md(text, same) == text
    for translate in (shout, shout_all, lose_tokens):
        assert md(text, translate) == CASES[text]
    with_returns = text.replace("\n", "\r\n")
    assert md(with_returns, shout) == CASES[text].replace("\n", "\r\n")


def test_what_the_translator_sees(md) -> None:  # type: ignore[no-untyped-def]
    """A note ends no sentence and begins none, and behind a sentence it is not sent at all."""
    recorder = Recorder()
    md("One here.[^1] Two[^2] here. With $x$. All.\n\n- [ ] todo\n\n[^1]: Note.\n", recorder)
    assert recorder.lines == ["One here.", "Two<1/> here.", "With <1/>.", "All.", "todo", "Note."]


@pytest.mark.parametrize("translation", ["$a$ or $$b$$", ": x", "[^1]: x", "[^1]", "[ ] x", "$5 or $6"])
def test_what_a_translation_brings_is_text(md, translation: str) -> None:  # type: ignore[no-untyped-def]
    parser = InlineParser()
    [content] = [
        token.content
        for token in parser.blocks(md("word\n", lambda lines: [translation] * len(lines)), {})
        if token.type == "inline"
    ]
    assert parser.outline(content, {}) == ([], translation)


def test_money_is_not_escaped(md) -> None:  # type: ignore[no-untyped-def]
    assert md("It costs $5 or $6.\n", lambda lines: ["Es kostet $5 oder $6."]) == "Es kostet $5 oder $6.\n"


@pytest.mark.parametrize("unit", ["$$ a\n", "$a ", "a\n", "[^1", "$$\n\n", ": a\n"])
def test_time_grows_with_the_text_and_not_faster(md, unit: str) -> None:  # type: ignore[no-untyped-def]
    begin = time.process_time()
    md(unit * 8000, same)
    assert time.process_time() - begin < 20


PIECES = [
    "[^1]", "\n[^1]: ", "\n[^2]: /u", "$", "$$x$$", "\n$$\ny\n$$\n", "- [ ] ", "\n: ", "word ", "One. Two. ", "\n",
    "\n\n", "    ", "> ", "- ", "*", "`", "[", "](u)", "\\",
]  # fmt: skip


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_of_it_comes_back_and_keeps_its_blocks(tmp_path: Path, text: str) -> None:
    md = runner("md", tmp_path)
    assert md(text, same) == text
    for translate in (shout, lose_tokens):
        assert blocks(md(text, translate)) == blocks(text)


def blocks(text: str) -> list[str]:
    return [token.type for token in InlineParser().blocks(text, {})]
