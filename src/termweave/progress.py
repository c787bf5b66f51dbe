"""Progress bars for long steps: drawn on a terminal, silent everywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")

console = Console(stderr=True)


class Advance(Protocol):
    """Called after each piece of work, with how much of the total it was."""

    def __call__(self, amount: float = 1) -> None: ...


@contextmanager
def progress_bar(description: str, total: int | None = None, shown: bool = True) -> Iterator[Advance]:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not (shown and console.is_terminal),
    )
    with bar:
        task = bar.add_task(description, total=total)

        def advance(amount: float = 1) -> None:
            bar.advance(task, amount)

        yield advance


def track(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Iterate with a progress bar."""
    with progress_bar(description, total) as advance:
        for item in items:
            yield item
            advance()
