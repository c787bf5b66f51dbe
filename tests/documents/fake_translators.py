"""Translators whose output is known: the tests of documents need no model."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from termweave.documents import Options, Translate, translate_file


def same(lines: list[str]) -> list[str]:
    return lines


def shout(lines: list[str]) -> list[str]:
    """Upper case, but for tokens and placeholders: what a translator that knows them would do."""
    kept = re.compile(r"(</?\d+/?>|%\S*|\{\w*\}|https?://\S+)")
    return ["".join(piece if kept.fullmatch(piece) else piece.upper() for piece in kept.split(line)) for line in lines]


def shout_all(lines: list[str]) -> list[str]:
    """Upper case without exception: placeholders with letters are lost, numbered tokens survive."""
    return [line.upper() for line in lines]


def lose_tokens(lines: list[str]) -> list[str]:
    """Upper case, and every token is dropped."""
    return [re.sub(r"</?\d+/?>", "", line).upper() for line in lines]


def backwards(lines: list[str]) -> list[str]:
    """The words in reverse: tokens come back in an order that cannot be used, unless they stand alone."""
    return [" ".join(re.findall(r"</?\d+/?>|[^<\s]+|<", line)[::-1]) for line in lines]


class Recorder:
    """Remembers what was asked."""

    def __init__(self, inner: Translate = shout) -> None:
        self.inner = inner
        self.lines: list[str] = []
        self.calls = 0

    def __call__(self, lines: list[str]) -> list[str]:
        self.calls += 1
        self.lines.extend(lines)
        return self.inner(lines)


def run(path: Path, translate: Translate = shout, options: Options | None = None, **settings: object) -> str:
    """The translation of a file as text."""
    stream = BytesIO()
    translate_file(path, stream, translate, options, **settings)  # type: ignore[arg-type]
    return stream.getvalue().decode()


def runner(suffix: str, folder: Path) -> Callable[..., str]:
    """A function from the text of a document to that of its translation."""

    def translated(text: str | bytes, translate: Translate = shout, **options: object) -> str:
        path = folder / f"document.{suffix}"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return run(path, translate, Options(**options))  # type: ignore[arg-type]

    return translated
