"""The pages against the rules of axe-core (WCAG 2.2, levels A and AA). Skipped where `make browser` found no npm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from steps import SENTENCE, add_term, translate

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect
AXE = Path(__file__).parents[3] / "build" / "node" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed")


def violations(page: Any) -> list[str]:
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 10
    return [f"{own['id']}: {own['nodes'][0]['target']}" for own in found["violations"]]


@pytest.fixture(params=["light", "dark"])
def options(request: Any) -> dict[str, Any]:
    # The policy of the pages keeps scripts from elsewhere out, this one too. Colours that fade are measured too early.
    return {"color_scheme": request.param, "bypass_csp": True, "reduced_motion": "reduce"}


def test_the_page(visiting: Callable[..., Any], empty_server: Any, options: dict[str, Any]):
    with visiting(empty_server, **options) as page:
        expect(page.locator("#direction")).to_be_enabled()
        add_term(page, "Mehl", "flour")
        add_term(page, "Haus", "")
        expect(page.locator(".findings").nth(1)).not_to_be_empty()
        page.locator(".remove").nth(1).click()
        page.get_by_label("Name").fill("trade")
        page.get_by_role("button", name="Save on the server").click()
        expect(page.get_by_role("checkbox", name="trade")).to_be_visible()
        translate(page, SENTENCE)
        page.get_by_text("What the model looked at").click()
        expect(page.locator("#attention td")).not_to_have_count(0)
        assert violations(page) == []
        page.get_by_role("button", name="Delete trade").click()
        assert violations(page) == []


def test_the_reference(visiting: Callable[..., Any], server: Any, options: dict[str, Any]):
    with visiting(server, "/docs", **options) as page:
        expect(page.locator("#found")).to_contain_text("routes")
        page.locator("#post-v1-translate summary").click()
        assert violations(page) == []
