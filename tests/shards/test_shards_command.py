"""`termweave translate --shards`: options, interruptions, and what the user is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engine_here import Here

from termweave.shards.ledger import FOLDER


@pytest.fixture
def command(model: Path, corpus: Path, tmp_path: Path) -> tuple[object, ...]:
    options = ("--model", model, "--device", "cpu", "--beam", "1", "--chunk-lines", "2")
    return ("translate", "--shards", corpus, "--output", tmp_path / "out", *options)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Here], Here]:
    """The command uses this engine instead of processes: starting those takes seconds."""

    def use(chosen: Here) -> Here:
        monkeypatch.setattr("termweave.cli.translation.make_engine", lambda *_: chosen)
        return chosen

    return use


def test_interrupted_and_gone_on_with(termweave, command, engine, tmp_path):
    terms = ("--term", "Haus=house", "--term", "Mühle=mill", "--receipts", tmp_path / "told")
    engine(Here(until=14))
    result = termweave(*command, *terms)
    assert (result.code, result.output) == (130, "")
    assert "out/a.de: 23 sentences" in result.errors
    kept = f"interrupted; finished chunks are kept in {tmp_path / 'out'}; the same command goes on from there"
    assert kept in result.errors
    rest = engine(Here())
    result = termweave(*command, *terms)
    assert (result.code, rest.done) == (0, [("more/b.de.gz", number) for number in (2, 3, 4)])
    assert "3 shards, 33 sentences" in result.errors and "27 sentences from runs before" in result.errors
    assert "the term 'Mühle' occurs in no sentence" in result.errors and "'Haus' occurs" not in result.errors
    assert (tmp_path / "told" / "a.de.jsonl").exists()


def test_a_run_that_was_killed_is_gone_on_with(termweave, command, engine, tmp_path):
    """The real thing: a process with a worker, killed by the system. Its worker ends with it."""

    def finished() -> set[Path]:
        return set((tmp_path / "out" / FOLDER).glob("a.de/0*.json"))

    arguments = [sys.executable, "-m", "termweave", *map(str, command), "--workers", "1"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE) as running:
        while not finished():
            assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(0.01)
        workers = list(children(running.pid))
        running.kill()
    for worker in workers:
        while Path(f"/proc/{worker}").exists():
            time.sleep(0.01)
    kept = {(path.parent.name, int(path.stem)) for path in finished()}
    rest = engine(Here())
    assert termweave(*command).code == 0
    assert kept and rest.done and not kept & set(rest.done)
    assert len(kept) + len(rest.done) == 12 + 5
    interrupted = (tmp_path / "out" / "a.de").read_bytes()
    engine(Here())
    termweave(*command, "--output", tmp_path / "whole")
    assert interrupted == (tmp_path / "whole" / "a.de").read_bytes()


def children(process: int) -> Iterator[int]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text().rpartition(")")[2].split()[1]) == process:
                yield int(status.parent.name)
        except OSError:
            continue


MISTAKES = {
    "no input": (("--output", "out"), "name files, folders or patterns"),
    "no output": (("a.de",), "name the folder to write to with --output"),
    "a file as output": (("a.de", "--output", "a.de"), "with --shards this is a folder"),
    "receipts into a stream": (("a.de", "--output", "out", "--receipts", "-"), "with --shards this is a folder"),
    "no such file": (("absent.de", "--output", "out"), "absent.de: no such file or folder"),
    "nbest": (("a.de", "--output", "out", "--nbest", "2"), "--nbest has no effect here"),
    "a format": (("a.de", "--output", "out", "--format", "txt"), "--format has no effect here"),
    "Ray's option": (("a.de", "--output", "out", "--ray-gpus", "1"), "it belongs to --engine ray"),
    "a column of text": (("a.de", "--output", "out", "--column", "text"), "--column has no effect here"),
    "a direction": (("a.de", "--output", "out", "--direction", "en-fr"), "the model does not translate en-fr"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained(termweave, engine, corpus, model, monkeypatch, name):
    engine(Here())
    monkeypatch.chdir(corpus)
    arguments, message = MISTAKES[name]
    result = termweave("translate", "--shards", *arguments, "--model", model, "--device", "cpu")
    assert result.code == 1 and message in result.errors and "Traceback" not in result.errors


def test_two_runs_do_not_share_a_folder(termweave, command, engine, tmp_path):
    import fcntl

    (tmp_path / "out" / FOLDER).mkdir(parents=True)
    engine(Here())
    with (tmp_path / "out" / FOLDER / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = termweave(*command)
    assert result.code == 1 and "is at work there" in result.errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), r"finished sentences of text.txt are kept in .text.en.txt.journal; the same command goes on from there"),
        (("--receipts", "told.jsonl"), "nothing of text.txt is kept"),
        (("--lines",), "nothing is kept; --shards translates a corpus"),
    ],
)
def test_ctrl_c_without_shards_tells_what_is_kept(termweave, model, tmp_path, monkeypatch, options, message):
    """A real signal, sent when the second batch is begun."""
    from termweave.decoding.searcher import Searcher

    monkeypatch.chdir(tmp_path)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it otherwise
    Path("text.txt").write_text("das Haus\n" * 300)
    search, calls = Searcher.search, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return search(*arguments, **options)

    monkeypatch.setattr(Searcher, "search", interrupted)
    batches = ("--batch-tokens", "2048" if not options else "100")
    arguments = ("--model", model, "--device", "cpu", "--beam", "1", "--search", "beam", "--no-protect", *batches)
    result = termweave("translate", "text.txt", *arguments, *options)
    assert (result.code, result.output) == (130, "")
    assert message in result.errors
