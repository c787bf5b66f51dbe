"""Format strings: whatever a translator does to their directives, what is written has those of the source."""

from __future__ import annotations

import random
import shutil
import subprocess
from io import BytesIO
from pathlib import Path
from string import Formatter
from tempfile import TemporaryDirectory

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.documents import Options, translate_file
from termweave.documents.directives import formats_of, has_same_directives

PERCENT = ("%s", "%d", "%-10s", "%*d", "%.2lf", "%%", "% d", "%5u", "%c", "%<PRIu64>")
NUMBERED = ("%1$s", "%2$d", "%3$.2f")
BRACES = ("{0}", "{1:>{2}}", "{{x}}", "{3!r:>5}", "{4.name}", "{{", "}}")
WORDS = ("file", "the <b>old file</b>", "deletes", "a <i>computer</i>", "now.", "It is", "and", "50", "|", "\n")
HEADER = r"""msgid ""
msgstr ""
"Project-Id-Version: own\n"
"Last-Translator: own\n"
"Language-Team: own\n"
"Content-Type: text/plain; charset=UTF-8\n"
"""


class Mangling:
    """Doubles, drops, swaps and cuts words, and adds signs that belong to nothing."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __call__(self, lines: list[str]) -> list[str]:
        return [self.mangled(line) for line in lines]

    def mangled(self, line: str) -> str:
        words = line.upper().split(" ") if self.random.random() < 0.2 else line.replace("file", "Datei").split(" ")
        for _ in range(self.random.choice((0, 0, 1, 2))):
            place = self.random.randrange(len(words))
            kind = self.random.randrange(5)
            if kind == 0:
                words.insert(place, self.random.choice(words))
            elif kind == 1 and len(words) > 1:
                words.pop(place)
            elif kind == 2:
                words.insert(place, self.random.choice(("%", "{", "}", "%s", "{x}", "5%", "%n", "</1>", "<2/>")))
            elif kind == 3:
                self.random.shuffle(words)
            else:
                cut = self.random.randrange(len(words[place]) + 1)
                words[place] = f"{words[place][:cut]}{self.random.choice((' ', '<1>', '%'))}{words[place][cut:]}"
        return " ".join(words)


def counted(text: str, known: tuple[str, ...], sign: str) -> list[str]:
    """The directives of a text that was made of known ones, in order; every other sign is one too many."""
    found = []
    while (place := min((at for each in sign if (at := text.find(each)) >= 0), default=-1)) >= 0:
        rest = text[place:]
        own = next((each for each in sorted(known, key=len, reverse=True) if rest.startswith(each)), rest[0])
        found.append(own)
        text = rest[len(own) :]
    return found


messages = st.one_of(
    st.tuples(st.just("c-format"), st.lists(st.sampled_from(PERCENT + WORDS), min_size=1, max_size=8)),
    st.tuples(st.just("c-format"), st.lists(st.sampled_from(NUMBERED + WORDS), min_size=1, max_size=8)),
    st.tuples(st.just("python-brace-format"), st.lists(st.sampled_from(BRACES + WORDS), min_size=1, max_size=8)),
)


def is_format(flag: str, text: str) -> bool:
    """Some of what comes by chance is no format at all: a lonely brace, %2$s without %1$s."""
    if flag != "python-brace-format":
        numbers = {int(own[1]) for own in NUMBERED if own in text}
        return numbers == set(range(1, len(numbers) + 1))
    try:
        list(Formatter().parse(text))
    except ValueError:
        return False
    return True


@settings(max_examples=150)
@given(st.lists(messages, min_size=1, max_size=6), st.integers(0, 10**6))
def test_what_is_written_has_the_directives_of_its_source(chosen: list[tuple[str, list[str]]], seed: int) -> None:
    wanted = {" ".join(words).strip(): flag for flag, words in chosen}
    wanted = {text: flag for text, flag in wanted.items() if is_format(flag, text)}
    file = polib.POFile()
    file.extend(polib.POEntry(msgid=text, flags=[flag]) for text, flag in wanted.items() if text)
    with TemporaryDirectory() as folder:
        path, output = Path(folder) / "a.po", Path(folder) / "a.de.po"
        path.write_text(HEADER + str(file).partition("\n\n")[2].join(("\n", "\n")), encoding="utf-8")
        report = translate_file(path, output, Mangling(seed), Options(target_language="de"))
        written = polib.pofile(str(output))
        if shutil.which("msgfmt"):
            result = subprocess.run(
                ["msgfmt", "-c", "-o", "-", str(output)], capture_output=True, text=True, errors="replace", check=False
            )
            assert result.returncode == 0, result.stderr
    assert sum(not entry.msgstr for entry in written) == report.unchanged
    for entry in written:
        known, sign = (BRACES, "{}") if "python-brace-format" in entry.flags else (PERCENT + NUMBERED, "%")
        if entry.msgstr:
            here, there = counted(entry.msgid, known, sign), counted(entry.msgstr, known, sign)
            assert sorted(here) == sorted(there)
            in_order = [own for own in here if own in PERCENT and own != "%%"]
            assert in_order == [own for own in there if own in PERCENT and own != "%%"]


def translated(folder: Path, flag: str, message: str, output: str) -> tuple[str, int]:
    path = folder / "own.po"
    path.write_text(f'{HEADER}\n#, {flag}\nmsgid "{message}"\nmsgstr ""\n', encoding="utf-8")
    stream = BytesIO()
    report = translate_file(path, stream, lambda lines: [output] * len(lines), Options(target_language="de"))
    return polib.pofile(stream.getvalue().decode())[0].msgstr, report.unchanged


@pytest.mark.parametrize(
    ("flag", "message", "output", "expected"),
    [
        ("c-format", "File %-10s|%*d %.2lf", "Dokument %-10s|% %*d %.2lf", ""),
        ("c-format", "File %-10s|%*d %.2lf", "Dokument %-10s|%*d %.2lf", "Dokument %-10s|%*d %.2lf"),
        ("python-brace-format", "{0} file {1:>{2}} {{x}}", "{0} Dokument {{x}} {2} {x}", ""),
        ("python-brace-format", "{0} file {1:>{2}}", "{1:>{2}} Dokument {0}", "{1:>{2}} Dokument {0}"),
        ("python-brace-format", "100% sure", "100% sicher", "100% sicher"),
        ("qt-format", "50% of %1", "50% von %1", "50% von %1"),
        ("c-format", "file", "Datei %s", ""),
        ("no-c-format", "file", "Datei 5% neu", "Datei 5% neu"),
    ],
)
def test_what_is_taken(tmp_path: Path, flag: str, message: str, output: str, expected: str) -> None:
    assert translated(tmp_path, flag, message, output) == (expected, not expected)


def test_a_plural_with_one_form_translated_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "plural.po"
    path.write_text(
        f'{HEADER}\n#, c-format\nmsgid "file"\nmsgid_plural "files"\nmsgstr[0] ""\nmsgstr[1] ""\n', encoding="utf-8"
    )
    stream = BytesIO()
    translate_file(path, stream, lambda lines: [{"file": "Datei"}.get(line, "5%n") for line in lines])
    (entry,) = polib.pofile(stream.getvalue().decode())
    assert entry.msgstr_plural == {0: "Datei", 1: ""} and entry.fuzzy


@pytest.mark.parametrize(
    ("flag", "source", "translation", "same"),
    [
        ("c-format", "%s of %d", "%d von %s", False),
        ("c-format", "%1$s of %2$d", "%2$d von %1$s", True),
        ("c-format", "%<PRIu64> files", "%<PRIu64> Dateien", True),
        ("c-format", "%<PRIu64> files", "%<PRId64> Dateien", False),
        ("python-format", "%(a)s of %(b)d", "%(b)d von %(a)s", True),
        ("ruby-format", "%{a} of %<b>d", "%<b>d von %{a}", True),
        ("python-brace-format", "{} of {:>5}", "{:>5} von {}", False),
        ("java-format", "{0} does not", "{0} geht''s", True),
        ("java-format", "{0} does {1}", "{0} geht's {1}", False),
        ("qt-format", "%1 of %L2", "%L2 von %1", True),
        ("qt-format", "%1 of %L2", "%2 von %1", False),
        ("boost-format", "%1% of %2%", "%2% von %1%", True),
        ("sh-format", "$name is ${x}", "${x} ist $name", True),
        ("sh-format", "$name", "$Name", False),
        ("lisp-format", "~a of ~:d", "~a von ~:d", True),
        ("lisp-format", "~a of ~:d", "~:d von ~a", False),
    ],
)
def test_languages(flag: str, source: str, translation: str, same: bool) -> None:
    assert has_same_directives(source, translation, formats_of([flag])) is same


def test_flags() -> None:
    assert formats_of(["fuzzy", "c-format", "no-python-format", "possible-qt-format"]) == ("c", "qt")
