"""Damaged documents of every format: our own errors or a result, and never a long wait."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_translators import backwards, run, shout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_html import DOCUMENT as HTML
from test_line_formats import TABLE, TEXT
from test_markdown import DOCUMENT as MARKDOWN
from test_po import DOCUMENT as MESSAGES
from test_xliff import FIRST, SECOND

from termweave.documents import Options
from termweave.errors import TermweaveError

SEEDS = {"txt": [TEXT], "tsv": [TABLE], "md": [MARKDOWN], "html": [HTML], "po": [MESSAGES], "xliff": [FIRST, SECOND]}
LIMIT = 60  # seconds of processor time, of which a document here takes two or three: a hang, not a slow machine


def attempt(data: bytes, suffix: str, folder: Path) -> None:
    path = folder / f"damaged.{suffix}"
    path.write_bytes(data)
    for translate in (shout, backwards):
        try:
            with guarded():
                run(path, translate, Options(target_language="de"))
        except TermweaveError as error:
            assert "damaged" in str(error)


@contextmanager
def guarded() -> Iterator[None]:
    """Ends what does not end by itself, where the system can do that."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def give_up(*_: object) -> None:
        raise TimeoutError("this takes for ever")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def damaged(data: bytes, generator: random.Random) -> bytes:
    """A few cuts, copies, swaps and odd bytes."""
    mutable = bytearray(data)
    for _ in range(generator.randint(1, 6)):
        start = generator.randrange(len(mutable) + 1)
        end = min(len(mutable), start + generator.randint(1, 40))
        choice = generator.randrange(4)
        if choice == 0:
            del mutable[start:end]
        elif choice == 1:
            mutable[start:start] = mutable[start:end] * generator.randint(1, 3)
        elif choice == 2:
            mutable[start:start] = generator.choice(
                [b"<", b">", b"&", b'"', b"\\", b"\n", b"%", b"{", b"\xff", b"\0", b"*", b"`"]
            )
        else:
            other = generator.randrange(len(mutable) + 1)
            mutable[start:start] = mutable[other : other + 20]
    return bytes(mutable)


@pytest.mark.parametrize("suffix", SEEDS)
def test_damaged_documents(tmp_path: Path, suffix: str) -> None:
    generator = random.Random(7)
    for round_number in range(150):
        seed = SEEDS[suffix][round_number % len(SEEDS[suffix])]
        attempt(damaged(seed.encode(), generator), suffix, tmp_path)


@pytest.mark.parametrize("suffix", SEEDS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes(tmp_path: Path, suffix: str, data: bytes) -> None:
    attempt(data, suffix, tmp_path)


LONG = 20_000


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("html", "<b>" * LONG + "word" + "</b>" * LONG),
        ("html", "<!--" * LONG),
        ("html", "<a b='" * LONG),
        ("html", "</b>" * LONG + "<" * LONG),
        ("html", "<li>a<td>" * LONG),
        ("md", "*a " * LONG),
        ("md", "[" * LONG),
        ("md", "`" * LONG + " a"),
        ("md", "> " * 500 + "a"),
        ("md", "| a " * 2000 + "|\n" + "|---" * 2000 + "|\n"),
        ("txt", "a." * LONG),
        ("txt", "{" * LONG + "%" * LONG + "http://" * 2000),
        ("txt", "a@" * LONG),
        ("txt", "A. " * LONG),
        ("tsv", '"' * LONG + "\t" + "a" * LONG),
        ("po", 'msgid "a"\n' + '"b"\n' * LONG + 'msgstr ""\n'),
        (
            "xliff",
            "<xliff version='1.2'><file><body>"
            + "<trans-unit><source>a</source></trans-unit>" * 2000
            + "</body></file></xliff>",
        ),
        ("xliff", "<xliff version='1.2' a='" + "&amp;" * LONG + "'/>"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_no_input_takes_for_ever(tmp_path: Path, suffix: str, text: str) -> None:
    attempt(text.encode(), suffix, tmp_path)
