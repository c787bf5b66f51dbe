"""Messages: what is translated, what is kept, and that gettext still takes the file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import polib
import pytest
from fake_translators import Recorder, runner, same, shout_all

from termweave.documents import Options, translate_file
from termweave.errors import DataError

DOCUMENT = r"""# A comment of the translators.
msgid ""
msgstr ""
"Project-Id-Version: demo 1\n"
"Last-Translator: Somebody <some@body.example>\n"
"Language-Team: none\n"
"Language: \n"
"Content-Type: text/plain; charset=CHARSET\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n"
"X-Own: stays\n"

#. for translators
#: main.c:10
#, c-format
msgid "Open %s in %d seconds. Then wait.\n"
msgstr ""

msgctxt "menu"
msgid "File"
msgstr "Datei"

msgctxt "verb"
msgid "File"
msgstr ""

#, fuzzy
#| msgid "Old"
msgid "New text"
msgstr "Alter Text"

#, c-format
msgid "One file"
msgid_plural "%d files, 100 %% sure"
msgstr[0] ""
msgstr[1] ""

#~ msgid "gone"
#~ msgstr "weg"
"""


@pytest.fixture
def po(tmp_path: Path):  # type: ignore[no-untyped-def]
    return runner("po", tmp_path)


def read(text: str, tmp_path: Path) -> polib.POFile:
    path = tmp_path / "result.po"
    path.write_text(text, encoding="utf-8")
    return polib.pofile(str(path))


def test_messages(po, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result = read(po(DOCUMENT, target_language="de"), tmp_path)
    assert [(entry.msgctxt, entry.msgstr or entry.msgstr_plural) for entry in result if not entry.obsolete] == [
        (None, "OPEN %s IN %d SECONDS. THEN WAIT.\n"),
        ("menu", "Datei"),
        ("verb", "FILE"),
        (None, "NEW TEXT"),
        (None, {0: "ONE FILE", 1: "%d FILES, 100 %% SURE"}),
    ]
    first = result[0]
    assert (first.comment, first.occurrences, first.flags) == ("for translators", [("main.c", "10")], ["c-format"])
    assert not result[3].fuzzy
    assert result[3].previous_msgid is None
    assert [(entry.msgid, entry.msgstr) for entry in result.obsolete_entries()] == [("gone", "weg")]
    assert result.header == "A comment of the translators."


def test_header(po, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    header = read(po(DOCUMENT, target_language="pt-BR"), tmp_path).metadata
    assert header["Language"] == "pt_BR"
    assert header["Plural-Forms"] == "nplurals=2; plural=(n > 1);"
    assert header["Content-Type"] == "text/plain; charset=UTF-8"
    assert (header["X-Own"], header["Project-Id-Version"]) == ("stays", "demo 1")
    assert header["X-Generator"].startswith("termweave ")


def test_plural_forms_of_other_languages(po, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    chinese = read(po(DOCUMENT, target_language="zh-Hans"), tmp_path)[4]
    assert chinese.msgstr_plural == {0: "%d FILES, 100 %% SURE"}
    russian = read(po(DOCUMENT, target_language="ru"), tmp_path)[4]
    assert list(russian.msgstr_plural) == [0, 1, 2]
    assert russian.fuzzy


def test_comments_are_not_wrapped_anew(po) -> None:  # type: ignore[no-untyped-def]
    long = "a comment of one line,  with two spaces, " * 4
    comments = f"# {long.strip()}\n#\n# short\n#. {long.strip()}\n"
    obsolete = f'{comments.partition("#.")[0]}#~ msgid "a"\n#~ msgstr "b"\n'
    result = po(f'msgid ""\nmsgstr "Language: en\\n"\n\n{comments}msgid "Open"\nmsgstr ""\n\n{obsolete}')
    assert f'\n{comments}msgid "Open"\nmsgstr "OPEN"\n\n{obsolete}' in result


def test_line_ends_stay(tmp_path: Path) -> None:
    path = tmp_path / "document.po"
    path.write_bytes(DOCUMENT.replace("\n", "\r\n").encode())
    translate_file(path, tmp_path / "out.po", same, Options(target_language="de"))
    result = (tmp_path / "out.po").read_bytes()
    assert result.count(b"\r\n") == result.count(b"\n") == result.count(b"\r")


def test_the_header_of_a_template_is_fuzzy_no_longer(po, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    template = '#, fuzzy\nmsgid ""\nmsgstr "Content-Type: text/plain; charset=CHARSET\\n"\n\nmsgid "a"\nmsgstr ""\n'
    assert "fuzzy" not in po(template, target_language="de")


def test_review_and_retranslate(po, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result = read(po(DOCUMENT, target_language="de", review=True, retranslate=True), tmp_path)
    assert [entry.fuzzy for entry in result if not entry.obsolete] == [True] * 5
    assert result[1].msgstr == "FILE"


def test_placeholders_survive_a_translator_that_loses_them(po, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result = read(po(DOCUMENT, shout_all, target_language="de"), tmp_path)
    assert result[0].msgstr == "OPEN %s IN %d SECONDS. THEN WAIT.\n"


def test_a_finished_file_asks_for_nothing_and_stays(po, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    finished = po(DOCUMENT, target_language="de")
    recorder = Recorder()
    again = po(finished, recorder)
    assert recorder.lines == []
    assert again == finished


def test_the_same_document(po, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A translator that changes nothing: every entry but its translation is the same."""
    result, original = read(po(DOCUMENT, same), tmp_path), read(DOCUMENT, tmp_path)
    for after, before in zip(result, original, strict=True):
        assert (after.msgid, after.msgctxt, after.msgid_plural, after.occurrences) == (
            before.msgid,
            before.msgctxt,
            before.msgid_plural,
            before.occurrences,
        )
        if before.translated() or before.obsolete:
            assert after == before


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
@pytest.mark.parametrize("language", ["de", "zh", "ru", "fr"])
def test_msgfmt_takes_it(po, tmp_path: Path, language: str) -> None:  # type: ignore[no-untyped-def]
    for text in (DOCUMENT, DOCUMENT.partition("\n\n")[2]):  # with a header and without one
        path = tmp_path / "checked.po"
        path.write_text(po(text, shout_all, target_language=language), encoding="utf-8")
        command = ["msgfmt", "--check-format", "--check-domain", "-o", str(tmp_path / "out.mo"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\nmsgstr "b"\nnonsense\n', r"document\.po: not a \.po file: .*line 3"),
        ('msgid "a\nmsgstr "b"\n', r"document\.po, line 1: not a \.po file"),
        ('msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n', "charset=ISO-8859-1; convert"),
        (b'msgid "\xe4"\nmsgstr ""\n', "line 1: not UTF-8"),
        ('msgid ""\nmsgstr "Plural-Forms: nplurals=99; plural=0;\\n"\n', "99 plural forms"),
    ],
)
def test_what_is_wrong(po, text: str | bytes, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=message):
        po(text)
