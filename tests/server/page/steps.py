"""What visitors do again and again."""

from __future__ import annotations

from typing import Any

SENTENCE = "der alte Müller verkauft Mehl"


def add_term(page: Any, source: str, target: str) -> None:
    page.get_by_role("button", name="Add a term").click()
    row = page.locator(".term-row").last
    row.get_by_label("Source").fill(source)
    row.get_by_label("Target").fill(target)


def translate(page: Any, text: str) -> None:
    page.get_by_role("textbox", name="Text", exact=True).fill(text)
    page.get_by_role("button", name="Translate").click()
    page.locator("#told", has_text="Translated").wait_for()


def sources(page: Any) -> list[str]:
    """The sources in the editor, row by row."""
    return [field.input_value() for field in page.locator('[data-field="source"]').all()]
