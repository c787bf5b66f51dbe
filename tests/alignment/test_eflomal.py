"""The road to eflomal, with a stand-in: the real program is no dependency, and is measured in the benchmark."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from termweave.alignment import ALIGN_STEPS, LINK, align_with_eflomal
from termweave.errors import DataError
from termweave.storage import RaggedArray


def align(path: Path, source: list[list[int]], target: list[list[int]], **options: Any) -> RaggedArray:
    sides = RaggedArray.from_rows(source, np.int32), RaggedArray.from_rows(target, np.int32)
    align_with_eflomal(*sides, path, source_words=10, target_words=10, **options)
    return RaggedArray.open(path, LINK)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Aligns place by place forward, and only equal words backward."""
    seen: dict[str, list[str]] = {}

    class Aligner:
        def align(self, source: Any, target: Any, links_filename_fwd: str, links_filename_rev: str) -> None:
            seen["source"], seen["target"] = list(source), list(target)
            pairs = [
                (first.split(), second.split()) for first, second in zip(seen["source"], seen["target"], strict=True)
            ]
            forward = [[(k, k) for k in range(min(len(first), len(second)))] for first, second in pairs]
            backward = [[(i, second.index(w)) for i, w in enumerate(first) if w in second] for first, second in pairs]
            for name, rows in ((links_filename_fwd, forward), (links_filename_rev, backward)):
                Path(name).write_text("".join(" ".join(f"{i}-{j}" for i, j in row) + "\n" for row in rows))

    module = ModuleType("eflomal")
    module.Aligner = Aligner  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "eflomal", module)
    return seen


def test_both_directions_are_read_and_symmetrised(tmp_path: Path, stand_in: dict[str, list[str]]) -> None:
    steps: list[int] = []
    source, target = [[1, 2, 3], [], [4, 5]], [[1, 2, 9], [7], [5, 4]]
    links = align(tmp_path / "links", source, target, advance=lambda amount=1: steps.append(amount))
    assert stand_in["source"] == ["1 2 3\n", "\n", "4 5\n"]
    # Third pair: the two directions contradict each other, so nothing to grow from; final-and takes what fits.
    assert [links[row].tolist() for row in range(3)] == [[(0, 0), (1, 1), (2, 2)], [], [(0, 0), (1, 1)]]
    assert sum(steps) == ALIGN_STEPS
    assert {path.name for path in tmp_path.iterdir()} == {"links.values", "links.offsets"}


def test_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(DataError, match="eflomal is not installed; `pip install eflomal`"):
        align(tmp_path / "links", [[1]], [[1]])


def test_failure_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Aligner:
        def align(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("exit status 1")

    module = ModuleType("eflomal")
    module.Aligner = Aligner  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "eflomal", module)
    with pytest.raises(DataError, match="eflomal failed: exit status 1"):
        align(tmp_path / "links", [[1]], [[1]])
    assert not list(tmp_path.iterdir())
