"""Marks of mnemonics are taken out of messages and put into their translations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polib
import pytest
from fake_translators import Recorder, runner, same
from hypothesis import given
from hypothesis import strategies as st

from termweave.documents.mnemonics import Mnemonic, through_plain
from termweave.documents.placeholders import tagged_parts
from termweave.documents.segments import Segment, Text


def taken(text: str) -> tuple[str, str] | None:
    """The mark with its letter, and what is left of a message."""
    own = Mnemonic.of(Segment(tuple(tagged_parts(text))))
    return None if own is None else (own.mark + own.letter, "".join(part.shown for part in own.plain.parts))


def put(mark: str, text: str, language: str = "de") -> str:
    own = Mnemonic(mark[0], mark[1], Segment(()))
    return "".join(part.shown for part in own.put_back(tuple(tagged_parts(text)), language))


@pytest.mark.parametrize(
    ("message", "mark", "plain"),
    [
        ("_File", "_F", "File"),
        ("&Open file...", "&O", "Open file..."),
        ("Close ~Window", "~W", "Close Window"),
        ("Fi_le", "_l", "File"),
        ("O&pen file...", "&p", "Open file..."),
        ("E_xit", "_x", "Exit"),
        ("Save _as", "_a", "Save as"),
        ("_Use the system font for all windows and for all dialogs", "_U", None),
        ("_Open %s", "_O", "Open %s"),
        ("&Save && close", "&S", "Save && close"),
        ("&Cut & paste", "&C", "Cut & paste"),
        ("_Open file_name", "_O", "Open file_name"),
        ("文件(_F)", "_F", "文件"),
        ("打开 (&O)...", "&O", "打开..."),
        ("&Über", "&Ü", "Über"),
        ("R&D &Report", "&R", "R&D Report"),
    ],
)
def test_mnemonics_are_taken_out(message: str, mark: str, plain: str | None) -> None:
    assert taken(message) == (mark, message.replace(mark[0], "") if plain is None else plain)


@pytest.mark.parametrize(
    "message",
    [
        "file_name is missing", "file_name", "MAX_SIZE", "AT&T", "R&D", "Q&A", "Fish &amp; chips", "&nbsp;File",
        "Black & White", "a && b", "__init__", "_Open and _Close", "_Open &file", "_wichtig_", "see https://a.example/b?c=d&Ef=g_H",
        "~/File", "it takes ~ten minutes", "The value of the key _id is not a number.", "Name: ____", "Lehrer_innen",
        "Save_As", "{_File}", "%(file_name)s", "a_B@c.example", "_", "&", "_1", "File", "", "C:\\a_B", "5 & more",
        "a_b _File c_",
    ],
)  # fmt: skip
def test_what_is_no_mnemonic_stays(message: str) -> None:
    assert taken(message) is None


@pytest.mark.parametrize(
    ("mark", "translation", "expected"),
    [
        ("_F", "Fenster", "_Fenster"),
        ("_F", "neues Fenster", "neues _Fenster"),
        ("_F", "Akte offen", "Akte o_ffen"),
        ("_F", "Dokument", "_Dokument"),
        ("&O", "Dokument öffnen...", "D&okument öffnen..."),
        ("&F", "%s and file_name find", "%s and file_name &find"),
        ("_F", "... {file}: «Akte»", "... {file}: «_Akte»"),
        ("_F", "12 %", "12 %"),
    ],
)
def test_they_are_put_before_a_fitting_letter(mark: str, translation: str, expected: str) -> None:
    assert put(mark, translation) == expected


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("文件", "文件(_F)"), ("打开文件...", "打开文件(_F)..."), ("打开…", "打开(_F)…"), ("名：", "名(_F)：")],
)
def test_chinese_has_them_appended(translation: str, expected: str) -> None:
    assert put("_f", translation, "zh-Hans") == expected


@given(st.text(st.sampled_from("aB_&~ .%s(){}文;/"), max_size=20))
def test_one_mark_is_taken_and_no_other(message: str) -> None:
    if (own := taken(message)) is not None:
        marks = [sum(map(text.count, "_&~")) for text in (message, own[1])]
        assert marks[0] - marks[1] == 1 and own[0] in message


@given(st.text(st.sampled_from("_&~"), min_size=1, max_size=1), st.text(st.sampled_from("abc xyz"), min_size=1))
def test_what_is_put_back_can_be_taken_out(mark: str, text: str) -> None:
    if text.strip():
        marked = put(mark + "X", text)
        assert marked.replace(mark, "") == text and marked.count(mark) == 1


PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "_Open <b>file</b> %s"
msgstr ""

msgid "One &file"
msgid_plural "&Many files"
msgstr[0] ""
msgstr[1] ""

msgid "file_name"
msgstr ""
"""


def test_messages_are_sent_without_them(tmp_path: Path) -> None:
    recorder = Recorder()
    entries = polib.pofile(runner("po", tmp_path)(PO, recorder, target_language="de"))
    assert recorder.lines == ["Open <1>file</1> %s", "One file", "Many files", "file_name"]
    assert entries[0].msgstr == "_OPEN <b>FILE</b> %s"
    assert entries[1].msgstr_plural == {0: "ONE &FILE", 1: "&MANY FILES"}
    assert entries[2].msgstr == "FILE_NAME"


def test_what_is_not_translated_keeps_its_own(tmp_path: Path) -> None:
    assert polib.pofile(runner("po", tmp_path)(PO, same, target_language="de"))[0].msgstr == "_Open <b>file</b> %s"


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    recorder = Recorder()
    runner("po", tmp_path)(PO, recorder, target_language="de", mnemonics=False)
    assert recorder.lines[0] == "_Open <1>file</1> %s"


def test_units_of_xliff_too(tmp_path: Path) -> None:
    unit = '<trans-unit id="1"><source>&amp;Open <g id="1">file</g></source></trans-unit>'
    text = (
        f'<xliff version="1.2"><file original="a" source-language="en" datatype="x"><body>{unit}</body></file></xliff>'
    )
    recorder = Recorder(lambda lines: [line.upper() for line in lines])
    result = runner("xlf", tmp_path)(text, recorder, target_language="de")
    assert recorder.lines == ["Open <1>file</1>"]
    assert '&amp;OPEN <g id="1">FILE</g></target>' in result


def test_running_text_is_left_alone(tmp_path: Path) -> None:
    recorder = Recorder()
    runner("txt", tmp_path)("_File\n", recorder)
    assert recorder.lines == ["_File"]


def test_a_part_that_was_changed_is_written_anew() -> None:
    own = Mnemonic("_", "F", Segment(()))
    assert own.put_back((Text("Fenster", "Fenster"),), "de") == (Text("_Fenster"),)


def test_a_segment_left_as_it_was_is_itself_and_a_translation_is_not() -> None:
    segment = Segment((Text.plain("_File"),))
    assert next(through_plain(lambda segments, _=None: iter(segments), "de")([segment])) is segment
    [same_text] = through_plain(lambda segments, _=None: (replace(own) for own in segments), "de")([segment])
    assert same_text == segment and same_text is not segment
