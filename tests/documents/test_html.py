"""HTML: what is translated, and that nothing else changes. lxml's parser is the judge of structure."""

from __future__ import annotations

from pathlib import Path

import lxml.html
import pytest
from fake_translators import Recorder, backwards, lose_tokens, runner, same, shout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termweave.documents.tags import pieces

DOCUMENT = """\
<!DOCTYPE html>
<html lang="en">
<head><title>My page &amp; more</title><meta charset="utf-8"><style>p > a { color: red }</style></head>
<body class=main>
<h1>Hello   world</h1>
<p title="A tip" class='x'>Press <b>the <i>red</i> button</b> and
 wait. Use <code>rm -rf</code> now&nbsp;please.<br>Next line &mdash; ok &copy 2020.
<p translate="no">Leave <b>this</b>
<p>But this <span translate=no>Brand <b>X</b></span> is fine. <!-- note --> Go <a href="x?a=1&b=2">home. Now</a> stop.
<ul><li>one<li class="notranslate">two<li>three 3 < 4</ul>
<img src=a.png alt=Picture> <input placeholder='Your "name"' value="kept">
<pre>keep   me</pre><script>if (a < b) { "</b>" }</script>
<p>Dear {name}, you have %d messages.</p></b>
</body>
</html>
"""

SHOUTED = """\
<!DOCTYPE html>
<html lang="en">
<head><title>MY PAGE &amp; MORE</title><meta charset="utf-8"><style>p > a { color: red }</style></head>
<body class=main>
<h1>HELLO WORLD</h1>
<p title="A TIP" class='x'>PRESS <b>THE <i>RED</i> BUTTON</b> AND WAIT. USE <code>rm -rf</code> \
NOW&#160;PLEASE.<br>NEXT LINE — OK © 2020.
<p translate="no">Leave <b>this</b>
<p>BUT THIS <span translate=no>Brand <b>X</b></span> IS FINE. <!-- note --> GO <a href="x?a=1&b=2">HOME. NOW</a> STOP.
<ul><li>ONE<li class="notranslate">two<li>THREE 3 &lt; 4</ul>
<img src=a.png alt="PICTURE"> <input placeholder='YOUR "NAME"' value="kept">
<pre>keep   me</pre><script>if (a < b) { "</b>" }</script>
<p>DEAR {name}, YOU HAVE %d MESSAGES.</p></b>
</body>
</html>
"""


@pytest.fixture
def html(tmp_path: Path):  # type: ignore[no-untyped-def]
    return runner("html", tmp_path)


@pytest.mark.parametrize(
    "declaration",
    [
        '<meta charset="ISO-8859-1">',
        "<META http-equiv=Content-Type content='text/html; charset=windows-1252'>",
        '<?xml version="1.0" encoding="iso-8859-15"?>',
    ],
)
def test_a_page_in_another_encoding_gets_references(html, declaration: str) -> None:  # type: ignore[no-untyped-def]
    page = declaration + '<p title="tip">Gr&uuml;n</p><!-- nothing else -->'
    result = html(page, lambda lines: ["süß" for _ in lines])
    assert result == declaration + '<p title="s&#252;&#223;">s&#252;&#223;</p><!-- nothing else -->'
    plain = page.replace(declaration, '<meta charset="UTF-8"><meta name=a content="charset=latin-1">')
    assert '<p title="süß">süß</p>' in html(plain, lambda lines: ["süß" for _ in lines])


def structure(text: str) -> list[tuple[str, dict[str, str]]]:
    changing = {"title", "alt", "placeholder", "aria-label"}
    return [
        (str(element.tag), {name: value for name, value in element.attrib.items() if name not in changing})
        for element in lxml.html.document_fromstring(text).iter()
    ]


def test_unchanged_byte_for_byte(html) -> None:  # type: ignore[no-untyped-def]
    for text in (DOCUMENT, DOCUMENT.replace("\n", "\r\n"), "\ufeff" + DOCUMENT, "just text", ""):
        assert html(text, same) == text


def test_only_text_is_translated(html) -> None:  # type: ignore[no-untyped-def]
    assert html(DOCUMENT) == SHOUTED
    assert structure(SHOUTED) == structure(DOCUMENT)


def test_what_the_translator_sees(html) -> None:  # type: ignore[no-untyped-def]
    recorder = Recorder()
    html(DOCUMENT, recorder)
    assert recorder.lines == [
        "A tip",
        "Picture",
        'Your "name"',
        "My page & more",
        "Hello world",
        "Press <1>the <2>red</2> button</1> and wait.",
        "Use <1/> now\u00a0please.",
        "Next line — ok © 2020.",
        "But this <1/> is fine.",
        "<1/> Go <2>home.",
        "Now</1> stop.",
        "one",
        "three 3 < 4",
        "Dear {name}, you have %d messages.",
    ]


@pytest.mark.parametrize("page", ["the win<wbr>dow of the <b>room</b>", "the win&shy;dow of the <b>room</b>"])
@pytest.mark.parametrize("before", ["", "<wbr>", "&shy;"])
def test_places_to_break_a_word_are_not_seen(html, page: str, before: str) -> None:  # type: ignore[no-untyped-def]
    """They belong to words of the source; a sentence that stays keeps them."""
    seen = Recorder()
    assert html(f"<p>{before}{page}</p>", seen).replace(before, "") == "<p>THE WINDOW OF THE <b>ROOM</b></p>"
    assert seen.lines == ["the window of the <1>room</1>"]
    assert html(f"<p>{before}{page}</p>", same) == f"<p>{before}{page}</p>"


def test_the_language_of_the_page(html) -> None:  # type: ignore[no-untyped-def]
    assert html('<html lang="en" dir=ltr><p lang="fr">x', same, target_language="de") == (
        '<html lang="de" dir=ltr><p lang="fr">x'
    )


@pytest.mark.parametrize("translate", [lose_tokens, backwards])
def test_tags_stay_whole_whatever_the_translator_does(html, translate) -> None:  # type: ignore[no-untyped-def]
    assert sorted(map(str, structure(html(DOCUMENT, translate)))) == sorted(map(str, structure(DOCUMENT)))


def test_a_translation_cannot_bring_markup(html) -> None:  # type: ignore[no-untyped-def]
    text = "<p title=\"a b\">word</p><p title='c'>word"
    translated = html(text, lambda lines: ['<b>"it\'s" & &lt;'] * len(lines))
    assert structure(translated) == structure(text)
    paragraph = lxml.html.document_fromstring(translated).find(".//p")
    assert paragraph.text == paragraph.get("title") == '<b>"it\'s" & &lt;'
    assert html("<a title=x>y</a>", shout) == '<a title="X">Y</a>'


def test_yes_inside_no(html) -> None:  # type: ignore[no-untyped-def]
    assert html('<p>a <span translate="no">b <i translate="yes">c</i> d</span> e') == (
        '<p>A <span translate="no">b <i translate="yes">C</i> d</span> E'
    )


@pytest.mark.parametrize(
    "text",
    [
        "<",
        "a < b",
        "<p",
        "<p title='",
        "<!--",
        "<!-->x",
        "<script>a",
        "<b><i>x</b></i>",
        "</p>",
        "<p/>x",
        "<a b=c/d>x</a>",
        "<?php echo '>' ?>x",
        "<x-y z>w</x-y>",
        "<p =a>x",
        "&",
        "&#0;&#x110000;&nosuch;",
    ],
)
def test_broken_html_comes_back(html, text: str) -> None:  # type: ignore[no-untyped-def]
    assert html(text, same) == text
    assert "".join(text[piece.start : piece.end] for piece in pieces(text)) == text


PIECES = [
    "<p>",
    "</p>",
    "<b>",
    "</b>",
    "<i>",
    "</i>",
    "<a href='x y' title=\"t u\">",
    "</a>",
    "<br>",
    "<img alt=q>",
    "<code>",
    "</code>",
    "<span translate=no>",
    "</span>",
    "<li>",
    "<ul>",
    "</ul>",
    "<td>",
    "<table>",
    "</table>",
    "<!-- c -->",
    "One here. Two. ",
    "word ",
    "&amp;",
    "&nbsp;",
    "<",
    ">",
    "\n",
    "<script>",
    "</script>",
    "<div>",
    "</div>",
]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_html_keeps_its_structure(tmp_path: Path, text: str) -> None:
    html = runner("html", tmp_path)
    assert html(text, same) == text
    for translate in (shout, lose_tokens):
        assert structure("<hr>" + html(text, translate)) == structure("<hr>" + text)
    moved = html(text, backwards)
    assert sorted(map(str, structure("<hr>" + moved))) == sorted(map(str, structure("<hr>" + text)))
