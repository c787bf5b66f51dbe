"""Names of files, options and variables are told from ordinary text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.constraints.protection import find_protected

NAMES = {
    "path": [
        "/etc/file.conf", "/usr/lib", "~/file", "./file", "../file/x", "~/.config/file", "C:\\file.txt", "d:/file/x",
        "\\\\server\\file", "report.file", "file.txt", "README.md", "my-file.tar.gz", "src/file.py", "Übersicht.pdf",
        "Photo.JPG", "file_name.txt", "main.c", "*.file", "song.mp3", "/file.conf", "example.com", "/home/%s/file",
        "/a/{x}/y",
    ],
    "option": ["--file", "--file=NAME", "--no-file", "-o", '--file="a b"', "--file=/etc/file", "-file=NAME"],
    "identifier": [
        "file_name", "FILE_NAME", "__file_name__", "os.file_name", "file_name.maximum", "fileName", "getFile",
        "FileName", "file_2", "open_file()", "log_in",
    ],
}  # fmt: skip


def found(text: str) -> list[str]:
    return [
        text[span.start : span.end] for span in find_protected(text) if span.kind in ("path", "option", "identifier")
    ]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
@pytest.mark.parametrize(
    "sentence", ["{}", "open {} now", "({})", "Siehe {}.", "„{}“", "{}, or not", "[{}]", "<b>{}</b>"]
)
def test_names_are_kept_whole(kind: str, name: str, sentence: str) -> None:
    text = sentence.replace("{}", name)
    assert (name, kind) in [(text[span.start : span.end], span.kind) for span in find_protected(text)]
    assert found(text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "this and/or that, he/she/it, TCP/IP, km/h", "1/2 of it, 18/11/2026, 24/7", "z.B. das, d.h. dies, u.a. jenes",
        "e.g. this, i.e. that, 5 p.m. and Ph.D.", "He said Hello.World is round.", "am 18.11.2026 um 10.30 Uhr",
        "the end.The beginning", "done.then it went on", "fertig.und dann", "ca.zwei Stunden, bzw.drei, Nr.fünf",
        "a dash - and another -- and more", "the house--old and grey--stood", "Haupt- und Nebensatz, U-Bahn-Station",
        "-5 degrees, +3, -3 °C", "am 3.mai, die 1.liga", "Lehrer_innen und Schüler_innen, jede_r, ein_e Bürger_in",
        "LehrerInnen, GmbH, MwSt, URLs, DVDs, kWh, PhD, StGB", "Name: ____ Datum____Ort", "_wichtig_ und *sehr*",
        "this is /important/ to know", "wait... what", "v1.2 and 3.5.1", "Dr.med. Kern", "_File", "Save _As",
        "...oder nicht", "U.S.A. and U.S.", "St.Gallen", "Smith-Jones", "a / b", "x: y", "C: the disk",
        "https and www", "@name",
    ],
)  # fmt: skip
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Open /etc/file.conf or C:\\file.txt or report.file.", ["/etc/file.conf", "C:\\file.txt", "report.file"]),
        ("--file=NAME open the file NAME (or -o, -x)", ["--file=NAME", "-o", "-x"]),
        ("打开file.txt和file_name吧", ["file.txt", "file_name"]),
        ("the file_name-setting of PowerPoint-files", ["file_name", "PowerPoint"]),
        ("in /a/b/{{ name }} and --x={{ y }}", ["/a/b/", "--x="]),
        ("usage: [--file=A|--open] {dir}/file.txt", ["--file=A", "--open", "/file.txt"]),
    ],
)
def test_several_in_a_sentence(text: str, expected: list[str]) -> None:
    assert found(text) == expected


def test_addresses_tags_and_placeholders_stay_what_they_are() -> None:
    text = 'a_b@c.example https://a.example/b_c.txt <a href="x/y.txt">t</a> {user.file_name} %(file_name)s ${a_b}'
    assert [span.kind for span in find_protected(text)] == ["email", "url", "tag", "tag", *["placeholder"] * 3]


WORDS = st.text(st.sampled_from("abcdeäöü"), min_size=1, max_size=7)
PLAIN = st.lists(st.one_of(WORDS, WORDS.map(str.capitalize), st.integers(0, 3000).map(str)), min_size=1, max_size=8)


@given(PLAIN, st.sampled_from([" ", ", ", " - ", " -- ", ". ", " / ", "/", "... ", ": ", "; ", "–", "-"]))
def test_words_and_punctuation_are_no_names(words: list[str], separator: str) -> None:
    assert found(separator.join(words) + ".") == []


@given(PLAIN, st.sampled_from([name for names in NAMES.values() for name in names]), PLAIN)
def test_a_name_is_found_between_any_words(before: list[str], name: str, after: list[str]) -> None:
    assert found(" ".join([*before, name, *after])) == [name]
