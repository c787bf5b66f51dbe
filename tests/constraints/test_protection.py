"""What is protected, what is not, and that no text makes the search slow."""

from __future__ import annotations

import multiprocessing
import re
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.constraints import protection
from termweave.constraints.protection import counted, find_protected


def spans(text: str) -> list[tuple[str, str]]:
    return [(text[span.start : span.end], span.kind) for span in find_protected(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://a.example/b?c=d&e=%20f#g.", ["https://a.example/b?c=d&e=%20f#g"]),
        ("(see http://a.example/b_(c)).", ["http://a.example/b_(c)"]),
        ("“https://a.example”, www.b.example/c!", ["https://a.example", "www.b.example/c"]),
        (
            "ftp://a.example/x, file:///y/z; mailto:a@b.example",
            ["ftp://a.example/x", "file:///y/z", "mailto:a@b.example"],
        ),
        ("访问https://a.example。再看www.b.example了", ["https://a.example", "www.b.example"]),
        ("邮箱a@b.example是", ["a@b.example"]),
        ("https:// is a scheme, www. too", []),
        ("<a@b.example>, c.d+e@f-g.example.", ["a@b.example", "c.d+e@f-g.example"]),
        ("at 5@home or a@b", []),
        ("@name and name@", []),
    ],
)
def test_addresses(text: str, expected: list[str]) -> None:
    assert [found for found, kind in spans(text) if kind in ("url", "email")] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ich 😀 liebe 🏠 sehr ❤️.", ["😀", "🏠", "❤️"]),
        ("Hallo 👋🏽, wir 👨‍👩‍👧‍👦!", ["👋🏽", "👨‍👩‍👧‍👦"]),  # a tone of skin, and a family of four
        ("von 🇩🇪 nach 🇫🇷, 🏴󠁧󠁢󠁥󠁮󠁧󠁿", ["🇩🇪", "🇫🇷", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]),
        ("Taste 1️⃣ oder #️⃣", ["1️⃣", "#️⃣"]),
        ("Datei → Öffnen ✓ 🙏🙏🙏", ["→", "✓", "🙏🙏🙏"]),
        ("Marke™ ™️, 5 * 3 # 1 • – “x” …", ["™️"]),
        ("漢字 und Ω", []),
    ],
)
def test_emoji_are_whole(text: str, expected: list[str]) -> None:
    assert [found for found, kind in spans(text) if kind == "symbol"] == expected


@pytest.mark.parametrize(
    "text",
    [
        "%s", "%d", "%1$d", "%2$s", "%-5.2f", "%ld", "%llu", "%@", "%1$@", "%(name)s", "%(count)05d", "%1", "%L2", "%n",
        "%PATH%", "%%", "{}", "{0}", "{name}", "{user.name}", "{a[0]}", "{x!r:>10}", "{{x}}", "{{ user.name }}", "${x}",
        "${a.b}", "$(x)", "$name",
    ],
)  # fmt: skip
@pytest.mark.parametrize("sentence", ["{}", "copy {} to it", "({})", "«{}»:", "复制{}到", "100 % of {}."])
def test_placeholders(text: str, sentence: str) -> None:
    whole = sentence.replace("{}", text)
    assert (text, "placeholder") in spans(whole)
    assert len([kind for _, kind in spans(whole) if kind == "placeholder"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "100%ig sicher", "50 % der Fälle", "50% discount", "5 % so", "{see chapter five}", "{ }", "a { b", "$5",
        "US$ and $", "% s", "%", "{a{b", "it costs 5%, so", "$ {x y}",
    ],
)  # fmt: skip
def test_no_placeholders(text: str) -> None:
    assert not [found for found, kind in spans(text) if kind == "placeholder"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <b>bold</b> word<br/>", ["<b>", "</b>", "<br/>"]),
        ("""<a href="x y" class='z'>t</a>""", ["""<a href="x y" class='z'>""", "</a>"]),
        ("<input disabled><x:y-z.w id=1 />", ["<input disabled>", "<x:y-z.w id=1 />"]),
        ('<a download href="a?x>3">t</a>', ['<a download href="a?x>3">', "</a>"]),
        ("</p >&nbsp;&#160;&#xA0;&amp;", ["</p >", "&nbsp;", "&#160;", "&#xA0;", "&amp;"]),
        ("a < b and c > d, a <b and c> d, 1<2>0, <>, AT&T; x &y", []),
    ],
)
def test_tags(text: str, expected: list[str]) -> None:
    assert [found for found, kind in spans(text) if kind == "tag"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 km, 3,5 kg and 1.000,5 m²", ["5 km", "3,5 kg", "1.000,5 m²"]),
        ("-3 °C or 20\u00a0%, 5% too", ["-3 °C", "20\u00a0%", "5%"]),
        ("10–20 MB, 16GB, 100 Mbit/s.", ["10–20 MB", "16GB", "100 Mbit/s"]),
        ("$5, € 10.50, 20 € and 30 USD", ["$5", "€ 10.50", "20 €", "30 USD"]),
        ("90 km/h, 5 m/s, 3 h", ["90 km/h", "5 m/s", "3 h"]),
        ("5 apples, 3 men, in 2010 we, 7 miners, chapter 5 A new rule", []),
        ("5 t-shirts, B5 m, v1.5 kg-free", []),
        ("需要5GB空间, 3 kg的", ["5GB", "3 kg"]),
    ],
)
def test_quantities(text: str, expected: list[str]) -> None:
    assert [found for found, kind in spans(text) if kind == "quantity"] == expected


@given(st.text(st.sampled_from("abA5_\\ %{}$()<>/@.:;&\"'=-x文\n\u00a0km°"), max_size=60))
def test_spans_are_in_order_and_apart(text: str) -> None:
    end = 0
    for span in find_protected(text):
        assert end <= span.start < span.end <= len(text)
        assert span.entry(text).source == text[span.start : span.end]
        end = span.end


MARKS = [*"abA5_\\ %{}$()<>/@.:;&\"'=-x文#*→©€n1", "\ufe0f", "\u20e3", "👋", "🏽", "km", "www.", "://", "mailto:", "--"]
EVERYWHERE = re.compile(f"{protection._PATTERN}|{protection._NAMES}")
WITHOUT_QUICK_LOOKS = {
    "_WITH_NAMES": EVERYWHERE,
    "_WITHOUT_NAMES": EVERYWHERE,
    "_HINT": re.compile(""),
    "_COUNTED_HINT": re.compile(""),
}


@given(st.lists(st.sampled_from(MARKS), max_size=20).map("".join))
def test_quick_looks_find_the_same(text: str) -> None:
    with patch.multiple(protection, **WITHOUT_QUICK_LOOKS):
        expected = find_protected(text), counted(text)
    assert (find_protected(text), counted(text)) == expected


PIECES = [
    "a", "5", "1,", "1-", "%", "%%", "%1", "%(", "%(a", "{", "{{", "{a", "${", "$(a", "$", "<", "<a", "<a ", "<a b",
    "</",
    '<a b="', "<a b=c ", "&", "&a", "&#1", "@", "a@", "a@b", "a@b.", "a.", "a-", "https://", "https://a)", "www.",
    "mailto:", "mailto:a", "http://(", ")", " ", "-", "–", "€", "5 ", "5k", "文", "'", '"', "=",
    "/", "/a", "a/", "./", "~/", "C:", "C:\\", "\\", "_", "a_", "_a", "aA", "Aa", "a.a", "*.", "--", "--a",
    "-a=", " -a", "--a={",
]  # fmt: skip


def _run_all() -> None:
    for piece in PIECES:
        for prefix in ("", "https://a", "<a ", "{", "%", "5", "/a/b", "--a="):
            find_protected(prefix + piece * (20_000 // len(piece)))


def test_no_text_makes_it_slow() -> None:
    """Not a measurement: with a pattern that backtracks, one of these texts takes hours."""
    process = multiprocessing.get_context("spawn").Process(target=_run_all)
    process.start()
    process.join(120)
    stuck = process.is_alive()
    process.kill()
    assert not stuck
    assert process.exitcode == 0
