"""Killed without warning while it writes, a store keeps all it acknowledged. KILLS=100 says how often to try."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from termweave.server.database import Database
from termweave.server.settings import Limits
from termweave.server.store import GlossaryStore

KILLS = int(os.environ.get("KILLS", "20"))
WRITER = Path(__file__).with_name("writer.py")


def acknowledged(store: Path, chance: random.Random) -> dict[str, int]:
    """Let a process write for a moment, kill it, and return what it had been told was written."""
    with subprocess.Popen([sys.executable, WRITER, store], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]  # it has begun
        time.sleep(chance.random() / 20)
        process.kill()
        lines += process.stdout.read().split("\n")
    whole = [line.split() for line in lines if len(line.split()) == 2]
    return {glossary: int(count) for glossary, count in whole}


def test_no_acknowledged_write_is_lost(tmp_path: Path):
    path, chance = tmp_path / "store.sqlite", random.Random(1)
    known: dict[str, int] = {}
    for _ in range(KILLS):
        known |= acknowledged(path, chance)
    store = GlossaryStore(Database(path), Limits())
    stored = {glossary.id: glossary.dictionaries[0].count for glossary in store.list()}
    assert len(known) >= KILLS
    for glossary, count in known.items():
        assert stored[glossary] >= count, "a write that was acknowledged is gone"
        assert len(store.entries(glossary, "de", "en")) == stored[glossary] in (50, 100)
    assert len(stored) <= len(known) + KILLS, "at most one write a kill was done but not acknowledged"
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
