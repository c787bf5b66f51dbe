"""A translator that waits until it is told to go on, so that tests decide what happens when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from termweave.decoding.translator import Translation
from termweave.errors import ConstraintError
from termweave.server.backend import SearchSettings, Sentence


class GatedBackend:
    """Turns texts round. Waits at a gate before each batch, if it is closed; remembers the batches."""

    directions = ("de-en", "en-de")
    longest = 100

    def __init__(self, open_gate: bool = True) -> None:
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.batches: list[list[str]] = []
        self.settings: list[SearchSettings] = []
        if open_gate:
            self.gate.set()

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def translate(self, sentences: Sequence[Sentence], settings: SearchSettings) -> list[Translation]:
        self.batches.append([sentence.text for sentence in sentences])
        self.settings.append(settings)
        self.entered.release()
        self.gate.wait()
        if any("wrong" in sentence.text for sentence in sentences):
            raise ConstraintError("a wrong text")
        if any("broken" in sentence.text for sentence in sentences):
            raise ZeroDivisionError
        return [Translation(sentence.text[::-1], 0.0) for sentence in sentences]


def until(condition: Callable[[], bool]) -> None:
    """Wait for something another thread does."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)
