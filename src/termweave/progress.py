"""Progress bars for long steps: drawn on a terminal, silent everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

Item = TypeVar("Item")

console = Console(stderr=True)


class Advance(Protocol):
    """Called after each piece of work, with how much of the total it was."""

    def __call__(self, amount: float = 1) -> None: ...


class _SpeedColumn(ProgressColumn):
    """How much is done a second, of late."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.1f} {self.unit}/s" if task.speed else "")


@contextmanager
def progress_bar(
    description: str, total: int | None = None, shown: bool = True, *, done: int = 0, unit: str = ""
) -> Iterator[Advance]:
    """done: how much was finished before. unit: of the work, whose speed is then shown as well."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        *([_SpeedColumn(unit)] if unit else []),
        console=console,
        disable=not (shown and console.is_terminal),
    )
    with bar:
        task = bar.add_task(description, total=total, completed=done)

        def advance(amount: float = 1) -> None:
            bar.advance(task, amount)

        yield advance


@contextmanager
def share_of(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that says each time how much of the whole is done, and how much the whole is."""
    with progress_bar(description, 1) as advance:
        shown = 0.0

        def tell(done: int, total: int) -> None:
            nonlocal shown
            share = done / max(total, 1)
            advance(share - shown)
            shown = share

        yield tell


def track(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Iterate with a progress bar."""
    with progress_bar(description, total) as advance:
        for item in items:
            yield item
            advance()
