"""The page about documents is true: each call is made, and prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "documents.md"


def test_the_page_shows_real_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    printed = io.StringIO()
    calls = 0
    for language, text in blocks:
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(text, names)
            calls += 1
        else:
            shown = printed.getvalue().replace("WindowsPath", "PosixPath")
            assert shown.rstrip("\n") == text.rstrip("\n")
    assert calls == 8
