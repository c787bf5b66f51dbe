"""XLIFF 1.2 and 2.0: targets, inline elements, states, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_translators import Recorder, backwards, lose_tokens, runner, same
from lxml import etree
from xliff_rules import inline_elements, name, violations

from termweave.documents import Options, translate_file
from termweave.errors import ConfigError, DataError

FIRST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- kept -->
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file original="a.txt" source-language="en" datatype="plaintext">
    <body>
      <trans-unit id="1">
        <source>Press <g id="1">the <x id="2"/> button</g> and wait. \
Then <bpt id="3">&lt;b&gt;</bpt>go<ept id="3">&lt;/b&gt;</ept> home.</source>
      </trans-unit>
      <trans-unit id="2">
        <source>Kept</source>
        <target state="needs-review-translation">Behalten</target>
        <note>a note</note>
      </trans-unit>
      <trans-unit id="3" translate="no"><source>Brand</source></trans-unit>
      <trans-unit id="4"><source>Copied</source><target state="new">Copied</target></trans-unit>
      <trans-unit id="5" approved="yes"><source>Good</source><target state="new">Gut</target></trans-unit>
      <group id="g" translate="no"><trans-unit id="6"><source>Not this</source></trans-unit>
        <trans-unit id="7" translate="yes"><source>But this</source></trans-unit></group>
      <trans-unit id="8"><source>First one. Second one.</source>
        <seg-source><mrk mtype="seg" mid="1">First one.</mrk> \
<mrk mtype="seg" mid="2">Second <mrk mtype="protected">X y</mrk>.</mrk></seg-source>
        <note>behind</note></trans-unit>
      <trans-unit id="9" xml:space="preserve"><source>line one
line two</source></trans-unit>
    </body>
  </file>
</xliff>
"""

SECOND = """\
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
 <file id="f1">
  <unit id="u1">
   <originalData><data id="d1">&lt;b&gt;</data></originalData>
   <segment id="s1">
    <source>Hello <pc id="1" dataRefStart="d1">bold <ph id="2"/> word</pc> and \
<sc id="3"/>half<ec startRef="3"/> &amp; done.</source>
   </segment>
   <ignorable><source> </source></ignorable>
   <segment id="s2"><source>Second <mrk id="m1" translate="no">Name X</mrk> here.</source>\
<target>Schon da</target></segment>
   <segment id="s3" state="final"><source>Fixed</source><target>Fest</target></segment>
   <segment id="s4" state="initial" subState="x:y"><source>Open <sc id="4" isolated="yes"/>end</source></segment>
  </unit>
  <unit id="u2" translate="no"><segment><source>Not this</source></segment></unit>
 </file>
</xliff>
"""


@pytest.fixture
def xliff(tmp_path: Path):  # type: ignore[no-untyped-def]
    return runner("xliff", tmp_path)


def targets(text: str) -> dict[str, str]:
    """By the number of the unit: the content of its target as text."""
    found = {}
    for element in etree.fromstring(text.encode()).iter():
        if name(element) == "target":
            found[element.getparent().get("id")] = "".join(element.itertext())
    return found


def test_first_version(xliff) -> None:  # type: ignore[no-untyped-def]
    recorder = Recorder()
    result = xliff(FIRST, recorder, target_language="de")
    assert recorder.lines == [
        "Press <1>the <2/> button</1> and wait.",
        "Then <1>go</1> home.",
        "Copied",
        "But this",
        "First one.",
        "Second <1/>.",
        "line one",
        "line two",
    ]
    assert targets(result) == {
        "1": "PRESS THE  BUTTON AND WAIT. THEN <b>GO</b> HOME.",
        "2": "Behalten",
        "4": "COPIED",
        "5": "Gut",
        "7": "BUT THIS",
        "8": "FIRST ONE. SECOND X y.",
        "9": "LINE ONE\nLINE TWO",
    }
    assert 'target-language="de"' in result
    start = (
        '        <target state="translated" state-qualifier="leveraged-mt">PRESS <g id="1">THE <x id="2"/> BUTTON</g>'
    )
    assert start in result
    assert result.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<!-- kept --><xliff')
    assert violations(result.encode()) == []


def test_segments_laid_out_but_empty_are_translated(xliff) -> None:  # type: ignore[no-untyped-def]
    """Other programs write `<mrk/>` into targets that hold nothing yet. A target of codes alone is a translation."""
    units = """
      <trans-unit id="1"><source>One. Two.</source><seg-source><mrk mtype="seg" mid="1">One.</mrk> \
<mrk mtype="seg" mid="2">Two.</mrk></seg-source><target><mrk mtype="seg" mid="1"/> <mrk mtype="seg" mid="2"/></target>
      </trans-unit>
      <trans-unit id="2"><source>Look <x id="1"/></source><target><x id="1"/></target></trans-unit>
      <trans-unit id="3"><source>Commented</source><target><!-- nothing yet --></target></trans-unit>"""
    start, end = FIRST.split("<body>", maxsplit=1)[0] + "<body>", "</body></file></xliff>"
    recorder = Recorder()
    result = xliff(start + units + end, recorder)
    assert recorder.lines == ["One.", "Two.", "Commented"]
    assert targets(result) == {"1": "ONE. TWO.", "2": "", "3": "COMMENTED"}
    assert [mark.text for mark in etree.fromstring(result.encode()).iterfind(".//{*}target/{*}mrk")] == ["ONE.", "TWO."]


@pytest.mark.parametrize("source", ["<source/>", "<source> </source><target/>"])
@pytest.mark.parametrize("version", ["1.2", "2.0"])
def test_a_unit_without_text_is_left_alone(xliff, version: str, source: str) -> None:  # type: ignore[no-untyped-def]
    if version == "1.2":
        unit = f'<file original="a" source-language="en" target-language="de"><body><trans-unit id="1">{source}'
        unit += "</trans-unit></body></file>"
    else:
        unit = f'<file id="f"><unit id="1"><segment>{source}</segment></unit></file>'
    text = f'<xliff version="{version}" srcLang="en" trgLang="de">{unit}</xliff>'
    assert unit in xliff(text)
    assert unit in xliff(text.replace("<source/>", "<source></source>"))


def test_line_ends_and_cdata_stay(tmp_path: Path) -> None:
    text = FIRST.replace("a note", "<![CDATA[a <b> note]]>").replace("\n", "\r\n")
    path = tmp_path / "document.xlf"
    path.write_bytes(text.encode())
    translate_file(path, tmp_path / "out.xlf", same, Options(target_language="de"))
    result = (tmp_path / "out.xlf").read_bytes()
    assert b"<![CDATA[a <b> note]]>" in result
    assert result.count(b"\r\n") == result.count(b"\n") == result.count(b"\r")


def test_second_version(xliff) -> None:  # type: ignore[no-untyped-def]
    recorder = Recorder()
    result = xliff(SECOND, recorder)
    assert recorder.lines == ["Hello <1>bold <2/> word</1> and <3>half</3> & done.", "Open <1/>end"]
    assert targets(result) == {
        "s1": "HELLO BOLD  WORD AND HALF & DONE.",
        "s2": "Schon da",
        "s3": "Fest",
        "s4": "OPEN END",
    }
    states = {
        element.get("id"): element.get("state") for element in etree.fromstring(result.encode()).iter("{*}segment")
    }
    assert states == {"s1": "translated", "s2": None, "s3": "final", "s4": "translated", None: None}
    assert "subState" not in result
    assert violations(result.encode()) == []


def test_retranslate_and_review(xliff) -> None:  # type: ignore[no-untyped-def]
    assert targets(xliff(SECOND, retranslate=True))["s2"] == "SECOND Name X HERE."
    assert targets(xliff(SECOND, retranslate=True))["s3"] == "Fest"
    reviewed = xliff(FIRST, target_language="de", review=True)
    assert reviewed.count('state="needs-review-translation"') == 6


@pytest.mark.parametrize("document", [FIRST, SECOND])
@pytest.mark.parametrize("translate", [same, lose_tokens, backwards])
def test_inline_elements_survive(xliff, document: str, translate) -> None:  # type: ignore[no-untyped-def]
    result = xliff(document, translate, target_language="de")
    assert violations(result.encode()) == []
    for before, after in zip(
        etree.fromstring(document.encode()).iter("{*}source"),
        etree.fromstring(result.encode()).iter("{*}source"),
        strict=True,
    ):
        assert etree.tostring(before, with_tail=False) == etree.tostring(after, with_tail=False)


def test_the_same_document(xliff) -> None:  # type: ignore[no-untyped-def]
    """Sources as targets; and a document that is complete does not change at all."""
    result = xliff(SECOND, same)
    tree = etree.fromstring(result.encode())
    first = tree.find(".//{*}segment")
    assert "".join(first[0].itertext()) == "".join(first[1].itertext())
    assert inline_elements(first[0]) == inline_elements(first[1])
    complete = xliff(FIRST, same, target_language="de")
    assert etree.canonicalize(xliff(complete, target_language="de")) == etree.canonicalize(complete)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("<xliff version='1.2'><file></xliff>", DataError, r"document\.xliff, line 1: not well-formed XML"),
        ("<tmx/>", DataError, "not an XLIFF file"),
        ("<xliff version='3.0'/>", DataError, "not an XLIFF file of version"),
        ("", DataError, "not well-formed"),
        (FIRST.replace("<source>Kept</source>", ""), DataError, "line 9: trans-unit without a source"),
        (SECOND.replace(' trgLang="de"', ""), ConfigError, "no target language"),
        (FIRST.replace("UTF-8", "ISO-8859-1"), DataError, "line 1: declares the encoding ISO-8859-1"),
        (FIRST.encode("utf-16"), DataError, "not UTF-8"),
        ("<xliff version='1.2'>" + "<g>" * 5000 + "</g>" * 5000 + "</xliff>", DataError, "not well-formed"),
    ],
)
def test_what_is_wrong(xliff, text: str | bytes, error: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        xliff(text)


def test_another_language(xliff) -> None:  # type: ignore[no-untyped-def]
    """With quotes: `made for it` would not look like Italian."""
    expected = "line 1: its target language is 'it', not 'en'; translate into 'it', or change trgLang in the file"
    with pytest.raises(ConfigError, match=expected):
        xliff(SECOND.replace('trgLang="de"', 'trgLang="it"'), target_language="en")


BOMB = "".join(f'<!ENTITY l{number} "{f"&l{number - 1};" * 10}">' for number in range(1, 10))


@pytest.mark.parametrize(
    "declarations",
    [
        '<!ENTITY l0 "ha">' + BOMB,
        '<!ENTITY l9 SYSTEM "file:///etc/passwd">',
        '<!ENTITY l9 SYSTEM "http://localhost:1/x">',
        '<!ENTITY % p SYSTEM "http://localhost:1/x"> %p;',
    ],
)
def test_entities_are_refused(xliff, declarations: str) -> None:  # type: ignore[no-untyped-def]
    text = f"<!DOCTYPE xliff [{declarations}]><xliff version='1.2'><file><body>&l9;</body></file></xliff>"
    with pytest.raises(DataError, match=r"line 1: .*entities"):
        xliff(text)


def test_undefined_entities_and_foreign_definitions(xliff) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match="line 1"):
        xliff("<xliff version='1.2'><file><body>&nope;</body></file></xliff>")
    with pytest.raises(DataError, match="line 1"):
        xliff("<!DOCTYPE xliff SYSTEM 'http://localhost:1/x.dtd'><xliff version='1.2'><file>&nope;</file></xliff>")
