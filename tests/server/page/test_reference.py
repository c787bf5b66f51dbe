"""The page at `/docs`: every route of the OpenAPI document, and examples that work."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect


@pytest.fixture
def reference(visiting: Callable[..., Any], server: Any) -> Iterator[Any]:
    with visiting(server, "/docs") as page:
        expect(page.locator("#found")).to_contain_text("routes")
        yield page


def test_every_route_is_there_with_all_that_belongs_to_it(reference: Any, server: Any):
    document = httpx.get(server.url + "/openapi.json").json()
    reference.get_by_role("button", name="Show all").click()
    expected = {
        (method.upper(), path): (operation, operation["tags"][0])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    shown = reference.locator(".route").all()
    assert len(shown) == len(expected)
    for route in shown:
        place = route.locator(".method").text_content(), route.locator(".path").text_content()
        operation, tag = expected.pop(place)
        text = route.inner_text()
        assert operation["description"].split("\n")[0].replace("`", "") in text
        for name in [own["name"] for own in operation.get("parameters", [])] + list(operation["responses"]):
            assert name in text, (place, name)
        assert route.locator("xpath=..").locator("h2").text_content() == tag
    assert not expected


def test_bodies_and_answers_are_told_field_by_field(reference: Any):
    route = reference.locator("#post-v1-translate")
    route.locator("summary").click()
    policy = route.locator("li", has=reference.locator("> code", has_text="policy")).first
    expect(policy).to_contain_text('must | prefer | keep | forbid, "must" unless given')
    texts = route.locator("li", has=reference.locator("> code", has_text=re.compile("^texts$")))
    expect(texts).to_contain_text("list of string, at least 1 of them required")
    spans = route.locator("li", has=reference.locator("> code", has_text="target_span")).first
    expect(spans).to_contain_text("[integer, integer] or null")


def test_routes_are_searched_and_linked(reference: Any, server: Any):
    reference.keyboard.press("Tab")
    reference.keyboard.press("Enter")  # the link that skips the head
    expect(reference.locator("#search")).to_be_focused()
    reference.keyboard.type("length_penalty")
    expect(reference.locator("#found")).to_contain_text("1 of ")
    expect(reference.locator(".route:visible .path")).to_have_text("/v1/translate")
    reference.locator("#search").fill("overloaded")  # only errors say so, and those of all routes
    expect(reference.locator("#found")).to_contain_text("0 of ")
    reference.locator("#search").fill("length_penalty")
    reference.get_by_role("link", name="Link to this route").click()
    assert reference.url == f"{server.url}/docs#post-v1-translate"
    reference.reload()
    expect(reference.locator("#post-v1-translate")).to_have_attribute("open", "")
    expect(reference.locator("#post-v1-translate summary")).to_be_focused()


def test_an_example_is_copied(reference: Any):
    reference.context.grant_permissions(["clipboard-read", "clipboard-write"])
    route = reference.locator("#get-v2-usage")
    route.locator("summary").click()
    route.get_by_role("button", name="Copy this example").click()
    expect(route.locator(".told")).to_have_text("Copied.")
    assert reference.evaluate("navigator.clipboard.readText()") == route.locator(".example").text_content()
    reference.get_by_label("Examples with a key").check()
    expect(route.locator(".example")).to_contain_text('-H "Authorization: Bearer $KEY"')


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_examples_do_what_they_say(reference: Any, server: Any, tmp_path: Path):
    (tmp_path / "text.txt").write_text("ein Haus am Fluss\n", "utf-8")
    (tmp_path / "FILE").write_text("Haus\tbuilding\n", "utf-8")
    statuses = {}
    for example in reference.locator(".example").all_text_contents():
        script = f"{example} \\\n --silent --output answer --write-out '%{{http_code}}'"
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
        statuses[example] = done.stdout, (tmp_path / "answer").read_text("utf-8") if done.stdout != "204" else ""
    assert len(statuses) > 30
    for example, (status, answer) in statuses.items():
        # Names in capitals are for the reader to fill in; there is nothing called so.
        is_named = re.search(r"/(?:GLOSSARY_ID|DOCUMENT_ID|NAME)\b", example)
        assert status == "404" if is_named else status in ("200", "201"), (example, status, answer)


def test_it_fits_on_a_phone(visiting: Callable[..., Any], server: Any):
    with visiting(server, "/docs", viewport={"width": 360, "height": 700}, color_scheme="dark") as page:
        page.get_by_role("button", name="Show all").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_server_that_does_not_answer_is_told(visiting: Callable[..., Any], server: Any):
    with visiting(server, "/docs") as page:
        page.route("**/openapi.json", lambda route: route.abort())
        page.reload()
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
