"""The page in a real browser, against a running server. Skipped where there is no Playwright or no Chromium."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from termweave.server.backend import Backend

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

expect = playwright.expect
SENTENCE = "der alte Müller verkauft Mehl"
DEADLINE = 30_000  # milliseconds; only a page that does not work at all comes near it


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, server: Any) -> Iterator[Any]:
    """A fresh visitor. Mistakes of the page and requests to elsewhere fail the test."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    page = context.new_page()
    page.set_default_timeout(DEADLINE)
    expect.set_options(timeout=DEADLINE)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
    page.on(
        "request", lambda request: None if request.url.startswith((server.url, "blob:")) else wrong.append(request.url)
    )
    page.goto(server.url)
    expect(page.locator("#direction")).to_be_enabled()
    yield page
    context.close()
    assert not wrong


def add_term(page: Any, source: str, target: str) -> None:
    page.get_by_role("button", name="Add a term").click()
    row = page.locator(".term-row").last
    row.get_by_label("Source").fill(source)
    row.get_by_label("Target").fill(target)


def translate(page: Any, text: str) -> None:
    page.get_by_role("textbox", name="Text").fill(text)
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#told")).to_contain_text("Translated")


def test_a_text_is_translated_by_keyboard_alone(page: Any):
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    page.locator("#source").press_sequentially(SENTENCE)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#told")).to_have_text("Translated.")
    expect(page.locator("#output")).not_to_be_empty()
    assert page.locator("#output").get_attribute("lang") == "en"


def test_a_term_is_met_and_shown_on_both_sides(page: Any):
    add_term(page, "Mehl", "wheat flour")
    translate(page, f"😀 {SENTENCE}")  # its first character is two units to a browser
    mark = page.locator("#output mark")
    expect(mark).to_have_text("wheat flour")
    expect(mark).to_have_class("met")
    expect(page.locator("#backdrop mark")).to_have_text("Mehl")
    expect(page.locator("#told")).to_have_text("Translated; 1 term, all as wanted.")
    mark.focus()
    receipt = page.locator("#receipt")
    expect(receipt).to_contain_text("Mehl → wheat flour")
    expect(receipt).to_contain_text("met (must)")
    expect(receipt).to_contain_text("probability")
    expect(page.locator("#backdrop mark")).to_have_class("met shown")
    page.keyboard.press("Escape")
    expect(receipt).to_be_hidden()
    page.locator("#source").press("End")
    expect(receipt).to_contain_text("met (must)")  # the caret stands behind the term
    cells = page.locator("#receipts td").all_text_contents()
    assert cells[:3] == ["Mehl", "wheat flour", "met"]
    page.locator("#source").press_sequentially(" ")
    expect(page.locator("#backdrop mark")).to_have_count(0)


def test_alternatives_can_be_chosen(page: Any):
    translate(page, SENTENCE)
    first = page.locator("#output").text_content()
    other = page.locator("#others button").first
    wanted = other.text_content()
    assert wanted != first
    other.click()
    expect(page.locator("#output")).to_have_text(wanted)
    assert first in page.locator("#others button").all_text_contents()


def test_a_glossary_is_uploaded_checked_and_exported(page: Any, tmp_path: Path):
    file = tmp_path / "terms.tsv"
    file.write_text("source\ttarget\tpolicy\nMüller\tmiller\t\nMehl\tflour\tprefer\nMehl\tmeal\t\nHaus\t\t\n", "utf-8")
    page.locator("#upload").set_input_files(file)
    expect(page.locator("#glossary-told")).to_contain_text("3 of 3 terms of terms.tsv are new. Line 5 was left out")
    sources = [own.input_value() for own in page.locator('[data-field="source"]').all()]
    assert sources == ["Müller", "Mehl", "Mehl"]
    expect(page.locator(".findings").nth(2)).to_contain_text("`must` here and `prefer` in row 2")
    translate(page, SENTENCE)
    assert "miller" in page.locator("#output mark").all_text_contents()
    page.reload()
    expect(page.locator(".term-row")).to_have_count(3)  # they stay in the browser
    for kind, beginning in (("tsv", "source\ttarget"), ("tbx", "<?xml")):
        page.locator("#export-format").select_option(kind)
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        assert download.value.suggested_filename == f"glossary.de-en.{kind}"
        assert Path(download.value.path()).read_text("utf-8").startswith(beginning)


def test_a_table_is_pasted_and_mistakes_are_told_in_place(page: Any):
    page.get_by_text("Paste a table").click()
    page.locator("#paste").fill("Haus,building\nFluss,<b>river</b>")
    page.get_by_role("button", name="Add these terms").click()
    expect(page.locator(".term-row")).to_have_count(2)
    expect(page.locator('[data-field="target"]').nth(1)).to_have_value("<b>river</b>")
    add_term(page, "Mühle", "")
    expect(page.locator(".findings").nth(2)).to_contain_text("error")
    page.locator(".remove").nth(2).click()
    expect(page.locator(".term-row")).to_have_count(2)
    translate(page, "ein Haus am Fluss")
    expect(page.locator("#output b")).to_have_count(0)  # text never becomes markup


def test_attention_is_drawn_when_it_is_asked_for(page: Any):
    add_term(page, "Mehl", "flour")
    translate(page, f"ein Haus am Fluss\n{SENTENCE}")
    expect(page.locator("#attention td")).to_have_count(0)
    page.get_by_text("What the model looked at").click()
    expect(page.locator("#attention td")).not_to_have_count(0)
    page.locator("#attention-sentence").select_option(f"2. {SENTENCE}")
    expect(page.locator("#attention .term-piece")).not_to_have_count(0)  # the term stands in the second sentence
    columns = page.locator("#attention thead th").count() - 1
    rows = page.locator("#attention tbody tr").all()
    for row in rows:
        weights = [float(text) for text in row.locator("td").all_text_contents()]
        assert len(weights) == columns
        assert sum(weights) == pytest.approx(1, abs=0.005 * columns)


def test_a_file_is_translated_with_the_terms(page: Any, tmp_path: Path):
    add_term(page, "Fluss", "stream")
    file = tmp_path / "seite.html"
    file.write_text("<p>ein <b>Haus</b> am Fluss</p>", "utf-8")
    page.locator("#file").set_input_files(file)
    link = page.get_by_role("link", name="Save seite.en.html")
    expect(link).to_be_visible()
    with page.expect_download() as download:
        link.click()
    found = Path(download.value.path()).read_text("utf-8")
    assert found.startswith("<p>")
    assert "stream" in found
    file.write_bytes(b"\xff")
    page.locator("#file").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text("seite.html was not translated")
    expect(page.locator("#files li")).to_have_count(1)


def test_the_direction_is_switched(page: Any):
    add_term(page, "Mehl", "flour")
    translate(page, SENTENCE)
    found = page.locator("#output").text_content()
    page.get_by_role("button", name="The other way round").click()
    expect(page.locator("#source")).to_have_value(found)
    assert page.locator("#output").get_attribute("lang") == "de"
    expect(page.locator(".term-row")).to_have_count(0)  # each direction has its own terms
    page.locator("#direction").select_option("German → English")
    expect(page.locator(".term-row")).to_have_count(1)


def test_errors_are_told_and_the_text_stays(page: Any, server: Any):
    page.locator("#source").fill(SENTENCE)
    refusal = {"message": "The server is overloaded", "detail": "Too many texts are waiting."}
    page.route(
        "**/v1/translate",
        lambda route: route.fulfill(status=503, headers={"Retry-After": "7"}, body=json.dumps(refusal)),
    )
    page.get_by_role("button", name="Translate").click()
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("The server is overloaded")
    expect(problem).to_contain_text("Try again in 7 s.")
    page.unroute("**/v1/translate")
    page.route("**/v1/translate", lambda route: route.abort())
    page.get_by_role("button", name="Translate").click()
    expect(problem).to_contain_text("The server does not answer")
    page.unroute("**/v1/translate")
    add_term(page, "Mehl", "flour")
    add_term(page, "Mehl", "flour")
    page.locator('[data-field="policy"]').last.select_option("forbid")
    page.get_by_role("button", name="Translate").click()
    expect(problem).to_contain_text("The request cannot be fulfilled")  # what must be is forbidden too
    expect(page.locator("#source")).to_have_value(SENTENCE)
    page.get_by_role("button", name="Close this message").click()
    expect(problem).to_be_hidden()


def test_a_server_with_keys_asks_for_one(browser: Any, backend: Backend, running: Callable[..., Any]):
    with running(backend) as server:
        _, secret = server.service.keys.create("a team")
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url)
        expect(page.get_by_role("alert")).to_contain_text("Authorization failed")
        page.get_by_label("API key").fill(secret)
        page.keyboard.press("Enter")
        expect(page.locator("#direction")).to_be_enabled()
        expect(page.get_by_role("alert")).to_be_hidden()
        translate(page, SENTENCE)
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_on_a_phone(browser: Any, server: Any, scheme: str):
    context = browser.new_context(viewport={"width": 360, "height": 700}, color_scheme=scheme, has_touch=True)
    page = context.new_page()
    page.goto(server.url)
    add_term(page, "Mehl", "flour")
    translate(page, SENTENCE)
    page.locator("#output mark").tap()
    expect(page.locator("#receipt")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        "[...document.querySelectorAll('button, select')].filter(it => it.offsetParent && it.offsetHeight < 40).length"
    )
    assert small == 0, "a finger needs room"
    assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)") == (
        scheme == "light"
    )
    context.close()
