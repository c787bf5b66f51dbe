"""Writes glossaries without end and tells each when it is written, to be killed by a test.

`python writer.py STORE`: a line `ID ENTRIES` for each glossary that was acknowledged with so many entries.
"""

from __future__ import annotations

import sys
from pathlib import Path

from termweave.constraints.glossary import GlossaryEntry
from termweave.server.database import Database
from termweave.server.settings import Limits
from termweave.server.store import Dictionary, GlossaryStore


def entries(first: int, count: int) -> tuple[GlossaryEntry, ...]:
    return tuple(GlossaryEntry(f"Wort {number}", (f"word {number}",)) for number in range(first, first + count))


def main() -> None:
    store = GlossaryStore(Database(Path(sys.argv[1])), Limits(glossaries=1_000_000))
    while True:
        glossary = store.create("words", [Dictionary("de", "en", entries(0, 50))])
        print(glossary.id, 50, flush=True)
        store.edit(glossary.id, None, [Dictionary("de", "en", entries(50, 50))])
        print(glossary.id, 100, flush=True)


if __name__ == "__main__":
    main()
