"""The page in a real browser, against a running server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from steps import SENTENCE, add_term, sources, translate

from termweave.server.backend import Backend

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect


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
    assert sources(page) == ["Müller", "Mehl", "Mehl"]
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
    columns = page.locator("#attention thead th").count()
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
    expect(page.locator("#files li").last).to_contain_text("It was not translated")  # the other one stays
    expect(link).to_be_visible()
    page.get_by_role("button", name="Remove seite.html").last.click()
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


def test_terms_are_written_while_the_server_does_not_answer(page: Any):
    page.route("**/v1/lint*", lambda route: route.abort())
    add_term(page, "Mehl", "flour")
    expect(page.locator("#glossary-told")).to_have_text("The terms are not checked: The server does not answer.")
    expect(page.get_by_role("alert")).to_be_hidden()
    page.reload()
    assert sources(page) == ["Mehl"]


def test_a_server_with_keys_asks_for_one(visiting: Callable[..., Any], backend: Backend, running: Callable[..., Any]):
    with running(backend) as server:
        _, secret = server.service.keys.create("a team")
        with visiting(server) as page:
            expect(page.get_by_role("alert")).to_contain_text("Authorization failed")
            page.get_by_label("API key").fill(secret)
            page.keyboard.press("Enter")
            expect(page.locator("#direction")).to_be_enabled()
            expect(page.get_by_role("alert")).to_be_hidden()
            add_term(page, "Mehl", "flour")
            translate(page, SENTENCE)
            page.get_by_label("Name").fill("ours")
            page.get_by_role("button", name="Save on the server").click()
            expect(page.get_by_role("checkbox", name="ours")).to_be_visible()
        with visiting(server, "/docs") as page:  # there is nothing secret in it
            expect(page.locator("#found")).to_contain_text("routes")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_on_a_phone(visiting: Callable[..., Any], empty_server: Any, scheme: str):
    phone = {"viewport": {"width": 360, "height": 700}, "color_scheme": scheme, "has_touch": True}
    with visiting(empty_server, **phone) as page:
        expect(page.locator("#direction")).to_be_enabled()
        add_term(page, "Mehl", "flour")
        translate(page, SENTENCE)
        page.locator("#output mark").tap()
        expect(page.locator("#receipt")).to_be_visible()
        page.get_by_label("Name").fill("ours")
        page.get_by_role("button", name="Save on the server").click()
        expect(page.get_by_role("checkbox", name="ours")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        small = page.evaluate(
            "[...document.querySelectorAll('button, select, #stored label')]"
            ".filter(it => it.offsetParent && it.offsetHeight < 40).length"
        )
        assert small == 0, "a finger needs room"
        assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)") == (
            scheme == "light"
        )
        breaks = "[...document.querySelectorAll('#receipts-panel th')].some(it => it.getClientRects()[0].height > 40)"
        assert not page.evaluate(breaks), "the names of the columns are not broken"


def test_who_is_faster_than_the_server_is_told(page: Any):
    page.route("**/languages", lambda route: route.abort())
    page.reload()
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("The server does not answer")
    page.get_by_role("button", name="Add a term").click()
    expect(problem).to_contain_text("There is no direction yet")
    drop(page, "#drop", brief_txt="ein Haus")
    expect(page.locator("#files li")).to_contain_text("There is no direction yet")
    page.unroute("**/languages")
    translate(page, SENTENCE)  # which asks once more
    add_term(page, "Mehl", "flour")


def test_a_slow_answer_can_be_stopped(page: Any):
    page.route("**/v1/translate", lambda route: None)  # it never comes
    page.locator("#source").fill(SENTENCE)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#told")).to_have_text("Translating…")
    page.get_by_role("button", name="Stop").press("Enter")
    expect(page.locator("#told")).to_have_text("Stopped.")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page.get_by_role("button", name="Translate")).to_be_focused()
    page.unroute("**/v1/translate")
    translate(page, SENTENCE)


def test_arrow_keys_go_from_term_to_term(page: Any):
    add_term(page, "Mehl", "flour")
    add_term(page, "Müller", "miller")
    translate(page, SENTENCE)
    found = page.locator("#output mark").all_text_contents()
    assert sorted(found) == ["flour", "miller"]
    page.locator("#output").focus()
    for wanted in (found[0], found[1], found[0]):
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.textContent") == wanted
        expect(page.locator("#receipt")).to_contain_text(wanted)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy")).to_be_focused()  # one stop, however many terms there are


def test_a_receipt_stays_beside_its_term(page: Any):
    add_term(page, "Mehl", "flour")
    translate(page, SENTENCE)
    page.set_viewport_size({"width": 1100, "height": 500})
    page.evaluate("scrollTo(0, 0)")
    page.locator("#output mark").focus()
    for place in ("#output", "h1", "#source", "h1"):  # wherever the mouse goes
        page.locator(place).hover(position={"x": 5, "y": 5})
        expect(page.locator("#receipt")).to_be_visible()
    before = page.locator("#receipt").bounding_box()["y"]
    page.mouse.wheel(0, 60)
    page.wait_for_function("() => scrollY === 60")
    page.wait_for_function("y => document.querySelector('#receipt').getBoundingClientRect().y < y - 50", arg=before)
    expect(page.locator("#receipt")).to_be_visible()


def test_lines_from_right_to_left_lie_on_their_marks(page: Any):
    add_term(page, "Mehl", "flour")
    translate(page, "שלום Mehl עולם\nein Haus am Fluss")
    width = page.locator("#backdrop").bounding_box()["width"]
    mark, field = page.locator("#backdrop mark").bounding_box(), page.locator("#backdrop").bounding_box()
    assert mark["x"] - field["x"] > width / 2  # the first line begins at the right, as in the textarea
    for name in ("direction", "unicodeBidi", "textAlign"):
        same = [page.locator(own).evaluate(f"it => getComputedStyle(it).{name}") for own in ("#source", "#backdrop")]
        assert same[0] == same[1], name


def test_a_thousand_terms_can_be_searched(page: Any, tmp_path: Path):
    file = tmp_path / "terms.tsv"
    file.write_text("".join(f"Wort{number}\tword{number}\n" for number in range(1000)), "utf-8")
    page.locator("#upload").set_input_files(file)
    expect(page.locator(".term-row")).to_have_count(1000)
    page.locator("#terms-filter").fill("wort77")
    expect(page.locator(".term-row:visible")).to_have_count(11)  # 77 and 770 to 779
    page.locator(".term-row:visible .remove").nth(1).click()
    expect(page.locator(".term-row:visible")).to_have_count(10)
    assert page.evaluate("document.activeElement.value") == "Wort771"
    assert page.locator(".term-row").nth(770).locator("legend").text_content() == "Term 771"
    assert page.evaluate("document.documentElement.scrollHeight") < 5000  # what comes after them stays within reach
    page.locator("#add").click()
    expect(page.locator("#terms-filter")).to_have_value("")
    page.locator("#add").click()  # one too many
    expect(page.get_by_role("alert")).to_contain_text("The editor is full")


def test_two_tabs_show_the_same_terms(page: Any, server: Any):
    other = page.context.new_page()
    other.goto(server.url)
    expect(other.locator("#direction")).to_be_enabled()
    add_term(page, "Mehl", "flour")
    expect(other.locator('[data-field="target"]')).to_have_value("flour")
    add_term(other, "Haus", "house")
    expect(page.locator('[data-field="target"]').nth(1)).to_have_value("house")
    assert sources(page) == ["Mehl", "Haus"]


def drop(page: Any, place: str, **files: str) -> None:
    given = page.evaluate_handle(
        "files => { const brought = new DataTransfer();"
        " for (const [name, text] of Object.entries(files)) brought.items.add(new File([text], name));"
        " return brought; }",
        {name.replace("_", "."): text for name, text in files.items()},
    )
    page.dispatch_event(place, "drop", {"dataTransfer": given})


def test_files_may_be_dropped_anywhere_and_wrong_ones_say_so(page: Any):
    drop(page, "#source", brief_txt="ein Haus", foto_png="…")
    expect(page.get_by_role("link", name="Save brief.en.txt")).to_be_visible()
    expect(page.locator("#files li", has_text="foto.png")).to_contain_text("the suffix names no known format")
    expect(page.locator("#source")).to_have_value("")


def test_a_file_is_waited_for_while_the_server_does_not_answer(page: Any):
    failures = iter([True, True])
    page.route("**/v2/document/*", lambda route: route.abort() if next(failures, False) else route.continue_())
    drop(page, "#drop", brief_txt="ein Haus")
    expect(page.locator("#files li")).to_contain_text("The server does not answer; asking again…")
    expect(page.get_by_role("link", name="Save brief.en.txt")).to_be_visible()


def test_a_glossary_of_the_wrong_kind_is_told(page: Any, tmp_path: Path):
    file = tmp_path / "terms.docx"
    file.write_bytes(b"PK")
    page.locator("#upload").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text("terms.docx is no glossary")


def test_all_terms_are_removed_only_after_a_question(page: Any):
    add_term(page, "Mehl", "flour")
    page.get_by_role("button", name="Remove all").click()
    expect(page.get_by_role("dialog", name="Remove all terms?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".term-row")).to_have_count(1)
    page.get_by_role("button", name="Remove all").click()
    page.get_by_role("button", name="Remove them").click()
    expect(page.locator(".term-row")).to_have_count(0)
    expect(page.get_by_role("button", name="Add a term")).to_be_focused()
