"""Test sets that lie on the disk the other way round than the experiment translates."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from termweave.errors import ConfigError
from termweave.experiments.plan import TestSetPlan
from termweave.experiments.set_steps import _brought_links, _lines


def context(direction: str) -> Any:
    source, target = direction.split("-")
    return SimpleNamespace(direction=direction, source_language=source, target_language=target)


@pytest.fixture
def test_set(tmp_path: Path) -> TestSetPlan:
    (tmp_path / "a.de").write_text("das Haus\nja\nnein\n")
    (tmp_path / "a.en").write_text("a house then\nyes\nno\n")
    (tmp_path / "a.links").write_text("0-1 1-0 1-2\n0-0\n0-0\n")
    paths = [str(tmp_path / f"a.{end}") for end in ("de", "en", "links")]
    return TestSetPlan("a", *paths, languages="de-en", sentences=2)


def test_the_way_they_lie(test_set: TestSetPlan):
    assert _lines(test_set, context("de-en")) == [("das Haus", "a house then"), ("ja", "yes")]
    assert _brought_links(test_set, context("de-en")) == [[(0, 1), (1, 0), (1, 2)], [(0, 0)]]


def test_the_other_way(test_set: TestSetPlan):
    assert _lines(test_set, context("en-de")) == [("a house then", "das Haus"), ("yes", "ja")]
    assert _brought_links(test_set, context("en-de")) == [[(0, 1), (1, 0), (2, 1)], [(0, 0)]]


def test_other_languages_are_refused(test_set: TestSetPlan):
    with pytest.raises(ConfigError, match="de-en does not go with zh-en"):
        _lines(test_set, context("zh-en"))
