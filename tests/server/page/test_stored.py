"""Glossaries of the server on the page: ticked, opened, saved, replaced, deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from steps import SENTENCE, add_term, sources, translate

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect
PAIR = {"source": "de", "target": "en"}


def store(server: Any, name: str, table: str, **pair: str) -> str:
    where = {"name": name, "format": "tsv", **(pair or PAIR)}
    answer = httpx.post(server.url + "/v1/glossaries", params=where, content=table.encode())
    assert answer.status_code == 201, answer.text
    return answer.json()["glossary"]["glossary_id"]


def table(server: Any, identifier: str) -> str:
    return httpx.get(f"{server.url}/v1/glossaries/{identifier}/file", params=PAIR).text


def look_again(page: Any) -> None:
    page.get_by_role("button", name="Look again").click()
    expect(page.locator("#stored-told")).not_to_be_empty()


def save(page: Any, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Save on the server").click()


def names(server: Any) -> list[str]:
    return [glossary.name for glossary in server.service.glossaries.list()]


def test_ticked_glossaries_are_applied_after_the_terms_of_the_page(page: Any, server: Any):
    store(server, "trade", "Mehl\tmeal\nMüller\tmiller\n")
    store(server, "other way", "house\tHaus\n", source="en", target="de")
    look_again(page)
    expect(page.locator("#stored li")).to_have_count(1)  # the other one does not fit
    translate(page, SENTENCE)
    expect(page.locator("#output mark")).to_have_count(0)
    box = page.get_by_role("checkbox", name="trade")
    box.focus()
    page.keyboard.press("Space")
    add_term(page, "Mehl", "wheat flour")
    translate(page, SENTENCE)
    assert sorted(page.locator("#output mark").all_text_contents()) == ["miller", "wheat flour"]
    page.reload()
    expect(page.get_by_role("checkbox", name="trade")).to_be_checked()  # it stays so in this browser


def test_ticked_glossaries_are_applied_to_files(page: Any, server: Any, tmp_path: Path):
    store(server, "rivers", "Fluss\tstream\n")
    look_again(page)
    page.get_by_role("checkbox", name="rivers").check()
    file = tmp_path / "brief.txt"
    file.write_text("ein Haus am Fluss\n", "utf-8")
    page.locator("#file").set_input_files(file)
    with page.expect_download() as download:
        page.get_by_role("link", name="Save brief.en.txt").click()
    assert "stream" in Path(download.value.path()).read_text("utf-8")


def test_at_most_five_are_ticked_and_many_are_searched(page: Any, server: Any):
    for number in range(9):
        store(server, f"glossary {number}", "Haus\thouse\n")
    look_again(page)
    for number in range(5):
        page.get_by_role("checkbox", name=f"glossary {number}").check()
    expect(page.get_by_role("checkbox", name="glossary 7")).to_be_disabled()
    expect(page.locator("#stored-told")).to_have_text("Up to 5 can be ticked at once.")
    page.get_by_role("checkbox", name="glossary 2").uncheck()
    expect(page.get_by_role("checkbox", name="glossary 7")).to_be_enabled()
    page.get_by_label("Find a glossary").fill("GLOSSARY 7")
    expect(page.locator("#stored li:visible")).to_have_count(1)


def test_terms_are_saved_opened_and_saved_again_with_all_that_belongs_to_them(page: Any, server: Any):
    add_term(page, "Mehl", "flour | wheat flour")
    page.locator('[data-field="policy"]').select_option("prefer")
    add_term(page, "Haus", "")  # not finished
    save(page, "trade")
    expect(page.locator("#glossary-told")).to_contain_text("Saved on the server as trade: 1 term.")
    expect(page.locator("#glossary-told")).to_contain_text("left out: 1 term.")
    (stored,) = server.service.glossaries.list()
    assert table(server, stored.id) == "source\ttarget\ttarget\tpolicy\nMehl\tflour\twheat flour\tprefer\n"
    page.get_by_role("button", name="Remove all").click()
    page.get_by_role("button", name="Open trade").click()
    expect(page.locator('[data-field="target"]')).to_have_value("flour | wheat flour")
    expect(page.locator('[data-field="policy"]')).to_have_value("prefer")
    expect(page.get_by_label("Name")).to_have_value("trade")
    add_term(page, "Haus", "house")
    expect(page.locator("#opened")).to_contain_text("changed since it was saved")
    page.get_by_role("button", name="Save on the server").click()  # what was opened is replaced without a question
    expect(page.locator("#glossary-told")).to_contain_text("2 terms")
    assert names(server) == ["trade"]
    assert "Haus\thouse" in table(server, stored.id)


def test_targets_that_hold_the_separator_are_saved_as_they_were(page: Any, server: Any):
    rows = ["Haus\tbuilding|home\t", "Fluss\ta\\|b\tstream", "Mehl\tC:\\mill\tends\\", "Müller\ta\\\\b\t|"]
    lines = "source\ttarget\ttarget\n" + "".join(f"{row}\n" for row in rows)
    identifier = store(server, "signs", lines)
    before = table(server, identifier)
    look_again(page)
    page.get_by_role("button", name="Open signs").click()
    expect(page.locator(".term-row")).to_have_count(4)
    shown = [field.input_value() for field in page.locator('[data-field="target"]').all()]
    assert shown[:3] == ["building\\|home", "a\\\\\\|b | stream", "C:\\mill | ends\\"]
    save(page, "signs")
    expect(page.locator("#glossary-told")).to_contain_text("Saved on the server as signs: 4 terms.")
    assert table(server, identifier) == before == lines


def test_opening_asks_before_terms_are_lost(page: Any, server: Any):
    store(server, "trade", "Müller\tmiller\n")
    look_again(page)
    add_term(page, "Mehl", "flour")
    page.get_by_role("button", name="Open trade").click()
    expect(page.get_by_role("dialog", name="Open trade in their place?")).to_be_visible()
    expect(page.get_by_role("button", name="Leave it as it is")).to_be_focused()
    page.keyboard.press("Enter")
    assert sources(page) == ["Mehl"]
    expect(page.get_by_role("button", name="Open trade")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Open it").click()
    expect(page.locator("#opened")).to_have_text("trade is open")
    assert sources(page) == ["Müller"]


def test_another_glossary_of_the_name_is_replaced_only_after_a_question(page: Any, server: Any):
    older = store(server, "trade", "Müller\tmiller\n")
    add_term(page, "Mehl", "flour")
    save(page, "trade")
    question = page.get_by_role("dialog", name="Replace the glossary trade?")
    expect(question).to_contain_text("What it has now is lost: 1 term.")
    page.keyboard.press("Escape")
    assert "Müller" in table(server, older)
    save(page, "trade")
    page.get_by_role("button", name="Replace it").click()
    expect(page.locator("#glossary-told")).to_contain_text("Saved")
    assert table(server, older) == "source\ttarget\nMehl\tflour\n"
    assert names(server) == ["trade"]


def test_what_somebody_else_changed_is_not_lost_unasked(page: Any, server: Any):
    identifier = store(server, "trade", "Müller\tmiller\n")
    look_again(page)
    page.get_by_role("button", name="Open trade").click()
    expect(page.locator(".term-row")).to_have_count(1)
    place = f"{server.url}/v1/glossaries/{identifier}/file"
    httpx.put(place, params={**PAIR, "format": "tsv"}, content=b"Haus\thouse\n")
    add_term(page, "Mehl", "flour")
    save(page, "trade")
    expect(page.get_by_role("dialog")).to_contain_text("has saved it since you opened it")
    page.get_by_role("button", name="Leave it as it is").click()
    assert "house" in table(server, identifier)
    save(page, "trade")
    page.get_by_role("button", name="Replace it").click()
    expect(page.locator("#glossary-told")).to_contain_text("2 terms")
    assert "house" not in table(server, identifier)


def test_deleting_asks_first(page: Any, server: Any):
    store(server, "trade", "Müller\tmiller\n")
    look_again(page)
    page.get_by_role("checkbox", name="trade").check()
    page.get_by_role("button", name="Delete trade").click()
    expect(page.get_by_role("dialog")).to_contain_text("for everybody who uses this server")
    page.keyboard.press("Escape")
    assert names(server) == ["trade"]
    page.get_by_role("button", name="Delete trade").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("#stored-told")).to_have_text("trade was deleted.")
    expect(page.get_by_role("heading", name="Glossaries on the server")).to_be_focused()
    assert names(server) == []
    translate(page, SENTENCE)


def test_a_ticked_glossary_that_somebody_deleted_is_told(page: Any, server: Any):
    identifier = store(server, "trade", "Müller\tmiller\n")
    look_again(page)
    page.get_by_role("checkbox", name="trade").check()
    httpx.delete(f"{server.url}/v1/glossaries/{identifier}")
    page.locator("#source").fill(SENTENCE)
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("alert")).to_contain_text("Glossary not found")
    expect(page.locator("#stored-told")).to_have_text("No longer there, and ticked no longer: trade.")
    translate(page, SENTENCE)


def test_a_file_is_stored_as_it_is_and_what_is_too_large_to_edit_is_told(page: Any, server: Any, tmp_path: Path):
    file = tmp_path / "words.csv"
    file.write_text("".join(f"Wort{number},word{number}\n" for number in range(1001)), "utf-8")
    page.locator("#store").set_input_files(file)
    expect(page.locator("#stored-told")).to_have_text("words.csv was stored as words.")
    expect(page.locator("#stored li")).to_contain_text("1,001 terms")
    page.get_by_role("button", name="Open words").click()
    expect(page.get_by_role("alert")).to_contain_text("words has 1,001 terms, the editor holds 1000")
    page.get_by_role("checkbox", name="words").check()
    translate(page, "Wort1000 am Fluss")
    expect(page.locator("#output mark")).to_have_text("word1000")


def test_a_key_that_was_revoked_is_asked_for(visiting: Callable[..., Any], backend: Any, running: Callable[..., Any]):
    with running(backend) as server:
        key, secret = server.service.keys.create("a team")
        with visiting(server) as page:
            page.get_by_label("API key").fill(secret)
            page.keyboard.press("Enter")
            expect(page.locator("#direction")).to_be_enabled()
            server.service.keys.revoke(key.id)
            page.get_by_role("button", name="Look again").click()
            expect(page.get_by_role("alert")).to_contain_text("Authorization failed")
            _, another = server.service.keys.create("the same team")
            page.get_by_label("API key").fill(another)
            page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_be_hidden()
            look_again(page)
