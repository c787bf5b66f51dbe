"""Chromium, driven by Playwright, and visitors to the pages. Skipped where there is no Playwright or no Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

DEADLINE = 30_000  # milliseconds; only a page that does not work at all comes near it


@pytest.fixture(scope="module")  # while Playwright runs, nothing else can run an event loop
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    playwright.expect.set_options(timeout=DEADLINE)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def visiting(browser: Any) -> Callable[..., Any]:
    """`with visiting(server) as page`: a fresh visitor. Mistakes of the page and requests to elsewhere are failures."""

    @contextmanager
    def visit(server: Any, path: str = "/", **options: Any) -> Iterator[Any]:
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}, **options})
        page = context.new_page()
        page.set_default_timeout(DEADLINE)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
        page.on(
            "request", lambda asked: None if asked.url.startswith((server.url, "blob:")) else wrong.append(asked.url)
        )
        page.goto(server.url + path)
        yield page
        context.close()
        assert not wrong

    return visit


@pytest.fixture
def empty_server(server: Any) -> Any:
    """Without glossaries of earlier tests."""
    for glossary in server.service.glossaries.list():
        server.service.glossaries.delete(glossary.id)
    return server


@pytest.fixture
def page(visiting: Callable[..., Any], empty_server: Any) -> Iterator[Any]:
    """The page at `/`, with nothing stored: neither in the browser nor on the server."""
    with visiting(empty_server) as page:
        page.locator("#direction:enabled").wait_for()
        yield page
