"""Documents of clients vanish with the server that worked on them, even if it was killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gated_backend import GatedBackend

from termweave.server.work_folder import PREFIX, WorkFolder

SERVER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from termweave.server.work_folder import WorkFolder
folder = WorkFolder()
(folder.path / "A1").mkdir()
(folder.path / "A1" / "source.txt").write_text("a letter")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_killed_server_leaves_its_documents_to_the_next_to_remove(place: Path, running: Callable[..., Any]):
    command = [sys.executable, "-c", SERVER, place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            letter = Path(process.stdout.readline().strip()) / "A1" / "source.txt"
            with running(GatedBackend()):
                assert letter.read_text() == "a letter", "its server is alive"
        finally:
            process.kill()
    assert letter.exists()
    with running(GatedBackend()):
        assert not letter.parent.parent.exists()
        assert len(list(place.glob(PREFIX + "*"))) == 1
    assert not list(place.glob(PREFIX + "*"))


def test_nothing_else_is_removed(place: Path):
    new, other = place / (PREFIX + "new"), place / "other"
    for folder in (new, other):
        folder.mkdir()
    (other / "lock").touch()
    (other / "letters").mkdir()
    (place / (PREFIX + "link")).symlink_to(other)
    WorkFolder().close()
    assert {own.name for own in place.iterdir()} == {PREFIX + "new", "other", PREFIX + "link"}
    assert {own.name for own in other.iterdir()} == {"lock", "letters"}
