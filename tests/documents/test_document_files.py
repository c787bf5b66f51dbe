"""Files: names, formats, progress, and going on after an interruption."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from io import BytesIO
from pathlib import Path

import pytest
from fake_translators import Recorder, shout

from termweave.documents import FORMATS, Options, output_beside, translate_file
from termweave.documents.journal import journal_path
from termweave.errors import ConfigError, DataError

XLIFF = '<xliff version="1.2"><file><body><trans-unit><source>one</source></trans-unit></body></file></xliff>'
GERMAN = Options(target_language="de")


class Failing(Recorder):
    """Breaks down after some sentences."""

    def __init__(self, sentences: int) -> None:
        super().__init__(shout)
        self.left = sentences

    def __call__(self, lines: list[str]) -> list[str]:
        if len(lines) > self.left:
            raise KeyboardInterrupt
        self.left -= len(lines)
        return super().__call__(lines)


@pytest.mark.parametrize(
    ("name", "source", "target", "expected"),
    [
        ("letter.txt", "en", "de", "letter.de.txt"),
        ("letter.en.txt", "en", "de", "letter.de.txt"),
        ("letter.fr.txt", "en", "de", "letter.fr.de.txt"),
        ("app.pot", "en", "de", "app.de.po"),
        ("page.html", "en", "zh-Hans", "page.zh-Hans.html"),
    ],
)
def test_where_the_output_goes(name: str, source: str, target: str, expected: str) -> None:
    options = Options(source_language=source, target_language=target)
    assert output_beside(Path("folder") / name, options) == Path("folder") / expected


def test_beside_the_input(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")
    report = translate_file(tmp_path / "a.txt", None, shout, GERMAN)
    assert report.output == tmp_path / "a.de.txt"
    assert report.output.read_text() == "ONE\nTWO"
    assert (report.segments, report.sentences, report.resumed) == (2, 2, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de.txt", "a.txt"]


def test_to_a_stream_and_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.text").write_text("one `two`")
    stream = BytesIO()
    assert translate_file(str(tmp_path / "a.text"), stream, shout, format="md").output is None
    assert stream.getvalue() == b"ONE `two`"


def test_progress_reaches_the_whole(tmp_path: Path) -> None:
    contents = {"txt": "a\nb\nä", "tsv": "a\tb\n", "md": "# a\n\nb *c*\n\nä\n", "html": "<p title=x>a<p>b</p>ä"}
    contents["po"] = 'msgid "a"\nmsgstr ""\n\nmsgid "b"\nmsgstr ""\n'
    contents["xliff"] = (
        "<xliff version='1.2'><file><body><trans-unit><source>a</source></trans-unit></body></file></xliff>"
    )
    assert contents.keys() == FORMATS.keys()
    for suffix, text in contents.items():
        (tmp_path / f"a.{suffix}").write_text(text, encoding="utf-8")
        seen: list[tuple[int, int]] = []
        translate_file(
            tmp_path / f"a.{suffix}",
            BytesIO(),
            shout,
            progress=lambda done, total, seen=seen: seen.append((done, total)),
        )
        assert seen[-1][0] == seen[-1][1] > 0
        assert seen == sorted(seen)


TEXTS = {
    "txt": "".join(f"Line number {number}. It goes on.\n" for number in range(40)),
    "html": "".join(f"<p title='tip {number}'>Line <b>number</b> {number}. It goes on.</p>" for number in range(20)),
    "po": "".join(f'msgid "message {number}"\nmsgstr ""\n\n' for number in range(40)),
}


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("finished", [0, 7, 33])
def test_an_interrupted_run_goes_on(tmp_path: Path, suffix: str, finished: int) -> None:
    path, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    path.write_text(TEXTS[suffix])
    with pytest.raises(KeyboardInterrupt):
        translate_file(path, output, broken := Failing(finished), GERMAN, batch=4, key="model 1")
    left = [journal_path(output).name] if broken.lines else []  # a journal without a sentence is of no use
    assert [entry.name for entry in tmp_path.iterdir() if entry != path] == left
    recorder = Recorder()
    report = translate_file(path, output, recorder, GERMAN, batch=4, key="model 1")
    assert report.resumed == len(broken.lines)
    everything = Recorder()
    stream = BytesIO()
    translate_file(path, stream, everything, GERMAN, batch=4)
    assert broken.lines + recorder.lines == everything.lines
    assert without_date(output.read_bytes()) == without_date(stream.getvalue())
    assert not journal_path(output).exists()


def without_date(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if b"PO-Revision-Date" not in line]


@pytest.mark.parametrize("change", ["input", "options", "key", "batch", "damage"])
def test_a_journal_of_another_run_is_not_used(tmp_path: Path, change: str) -> None:
    path, output = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text(TEXTS["txt"])
    with pytest.raises(KeyboardInterrupt):
        translate_file(path, output, Failing(40), GERMAN, batch=4)
    if change == "input":
        path.write_text("New. " + TEXTS["txt"])
    if change == "damage":
        journal = journal_path(output)
        journal.write_bytes(b"[" * 100000 + b"\n" + journal.read_bytes())
    options = Options(target_language="fr") if change == "options" else GERMAN
    report = translate_file(
        path, output, shout, options, batch=5 if change == "batch" else 4, key="other" if change == "key" else ""
    )
    assert report.resumed == 0
    assert output.read_text() == path.read_text().upper()


def test_half_a_line_in_the_journal(tmp_path: Path) -> None:
    path, output = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text(TEXTS["txt"])
    with pytest.raises(KeyboardInterrupt):
        translate_file(path, output, Failing(40), GERMAN, batch=4)
    journal = journal_path(output)
    journal.write_bytes(journal.read_bytes()[:-9])
    report = translate_file(path, output, shout, GERMAN, batch=4)
    assert report.resumed == 39
    assert output.read_text() == TEXTS["txt"].upper()


def test_an_older_output_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path, output = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text(TEXTS["txt"])
    output.write_text("older")
    with pytest.raises(KeyboardInterrupt):
        translate_file(path, output, Failing(20), GERMAN, batch=4)
    assert output.read_text() == "older"


def test_two_runs_at_once(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path, output = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("one\ntwo\n")

    def meddle(lines: list[str]) -> list[str]:
        with pytest.raises(DataError, match="another run is writing"):
            translate_file(path, output, shout)
        return lines

    translate_file(path, output, meddle)


@pytest.mark.parametrize(
    ("name", "data", "options", "message"),
    [
        ("a.tsv", b"id\ttext\n1\tone\n", Options(column="nope"), "no column 'nope'"),
        ("a.tsv", b"1\tone\n" * 9 + b"ragged\n", Options(column=2), "line 10: no column 2"),
        ("a.txt", b"one\n" * 9 + b"\xff\n", Options(), "line 10: not UTF-8"),
        ("a.md", b"one\n\xff\n", Options(), "line 2: not UTF-8"),
    ],
)
def test_a_refused_file_leaves_nothing_and_is_refused_at_once(
    tmp_path: Path, name: str, data: bytes, options: Options, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    recorder = Recorder()
    for output in (tmp_path / "new" / "b.txt", BytesIO()):
        with pytest.raises(DataError, match=message):
            translate_file(tmp_path / name, output, recorder, options, batch=1)
    assert recorder.lines == []
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_refusal_does_not_cost_the_journal_of_an_interrupted_run(tmp_path: Path) -> None:
    path, output = tmp_path / "a.tsv", tmp_path / "b.tsv"
    path.write_text("one\ntwo\nthree\n")
    with pytest.raises(KeyboardInterrupt):
        translate_file(path, output, Failing(2), batch=1)
    with pytest.raises(DataError, match="no column 'nope'"):
        translate_file(path, output, shout, Options(column="nope"), batch=1)
    with pytest.raises(KeyboardInterrupt):  # nor does one that ends before it has come as far
        translate_file(path, output, Failing(0), batch=1)
    assert translate_file(path, output, shout, batch=1).resumed == 2


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path, output = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("one\n")
    kept = [f".b.txt.{os.getppid()}.partial", f".c.txt.{gone.pid}.partial", ".b.txt.x.partial"]
    for name in [f".b.txt.{gone.pid}.partial", *kept]:
        (tmp_path / name).write_text("half")
    translate_file(path, output, shout)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(["a.txt", "b.txt", *kept])


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("txt", "one\ntwo\n", "ONE\nTWO\n"),
        ("tsv", "id\ttext\n1\tone\n", "id\ttext\n1\tONE\n"),
        ("md", "# one `two`\n", "# ONE `two`\n"),
        ("html", "<p>one</p>", "<p>ONE</p>"),
        ("po", 'msgid "one"\nmsgstr ""\n', 'msgid "one"\nmsgstr "ONE"\n'),
        ("xliff", XLIFF, XLIFF.replace("</source>", "</source><target>ONE</target>")),
    ],
)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_a_pipe(tmp_path: Path, kind: str, text: str, expected: str) -> None:
    pipe, output = tmp_path / "pipe", tmp_path / "b"
    os.mkfifo(pipe)
    options = Options(column="text" if kind == "tsv" else 1)
    seen: list[tuple[int, int]] = []
    for to in (output, BytesIO()):
        writer = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
        writer.start()
        report = translate_file(pipe, to, shout, options, format=kind, progress=lambda *now: seen.append(now))
        writer.join()
        assert (report.sentences, report.resumed) == (1 + (kind == "txt"), 0)
        written = (output.read_bytes() if to is output else to.getvalue()).decode()
        assert re.sub(r' state[a-z-]*="[^"]*"', "", written).endswith(expected)
    assert all(done <= total for done, total in seen)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["b", "pipe"]
    with pytest.raises(ConfigError, match="is a pipe, and beside it is no place"):
        translate_file(pipe, None, shout, GERMAN, format=kind)


def test_standard_input(tmp_path: Path) -> None:
    if not Path("/dev/stdin").exists():
        pytest.skip("no such name on this system")
    call = (
        "translate_file('/dev/stdin', sys.stdout.buffer, lambda lines: [line.upper() for line in lines], format='txt')"
    )
    program = f"import sys; from termweave.documents import translate_file; {call}"
    done = subprocess.run([sys.executable, "-c", program], input=b"one\n", capture_output=True, check=True)
    assert done.stdout == b"ONE\n"


def test_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    with pytest.raises(DataError, match="no such file"):
        translate_file(tmp_path / "none.txt", None, shout, GERMAN)
    with pytest.raises(DataError, match="is no file"):
        translate_file(tmp_path, None, shout, GERMAN, format="txt")
    with pytest.raises(ConfigError, match=r"a\.docx: the suffix names no known format"):
        translate_file(tmp_path / "a.docx", None, shout, GERMAN)
    with pytest.raises(ConfigError, match="no format 'doc'; there are txt, tsv"):
        translate_file(path, None, shout, GERMAN, format="doc")
    with pytest.raises(ConfigError, match="name an output, or the target language"):
        translate_file(path, None, shout)
    with pytest.raises(ConfigError, match="overwritten by its own translation"):
        translate_file(path, path, shout)
    with pytest.raises(ConfigError, match="is a folder"):
        translate_file(path, tmp_path, shout)
    with pytest.raises(ConfigError, match="batch 0"):
        translate_file(path, None, shout, GERMAN, batch=0)
    with pytest.raises(DataError, match="a file stands in the place"):
        translate_file(path, path / "b.txt", shout)
