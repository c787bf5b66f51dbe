"""The files of the page: served with a strict policy, nothing from elsewhere, and in step with each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

import termweave.server.web_page

FOLDER = Path(termweave.server.web_page.__file__).parent / "page"
SCRIPTS = sorted(FOLDER.glob("*.js"))
PAGES = {"/": "index.html", "/docs": "reference.html"}
every_page = pytest.mark.parametrize("name", PAGES.values())


def html(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def scripts(name: str) -> list[str]:
    """The code of a page: the scripts it names, and those they import."""
    found: dict[str, str] = {}
    wanted = re.findall(r'src="page/([^"]+)"', html(name))
    while wanted:
        script = wanted.pop()
        if script not in found:
            found[script] = (FOLDER / script).read_text(encoding="utf-8")
            wanted += re.findall(r'from "\./([^"]+)"', found[script])
    return list(found.values())


@pytest.mark.parametrize("place", PAGES)
def test_the_pages_and_all_they_name_are_served(server: Any, place: str):
    page = httpx.get(server.url + place)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    named = re.findall(r'(?:href|src)="([^"#]+)"', page.text)
    assert len(named) >= 3
    for name in named:
        assert httpx.get(f"{server.url}/{name}").status_code == 200, name


def test_all_scripts_are_served_and_used(server: Any):
    used = [script for name in PAGES.values() for script in scripts(name)]
    assert all(path.read_text(encoding="utf-8") in used for path in SCRIPTS)
    for path in SCRIPTS:
        answer = httpx.get(f"{server.url}/page/{path.name}")
        assert answer.headers["content-type"].startswith("text/javascript")
        for name in re.findall(r'from "\./([^"]+)"', answer.text):
            assert (FOLDER / name).exists(), name


def test_only_what_comes_from_here_is_run(server: Any):
    for path in (*PAGES, "/page/page.js"):
        headers = httpx.get(server.url + path).headers
        policy = {part.split()[0]: part.split()[1:] for part in headers["content-security-policy"].split(";")}
        assert policy["default-src"] == ["'self'"]
        assert policy["frame-ancestors"] == ["'none'"]
        assert not any(word.startswith("'unsafe") for words in policy.values() for word in words)
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["nothing.js", "../web_page.py", "..%2fapp.py", "%2e%2e/app.py", "index.html/"])
def test_there_is_no_way_to_other_files(server: Any, name: str):
    assert httpx.get(f"{server.url}/page/{name}").status_code in (404, 307)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_no_address_leads_elsewhere(path: Path):
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")  # a name, no address
    assert not re.search(r"https?:|[\"'(]//|@import|\bwss?:", text)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_text_never_becomes_markup(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setHTML", text)


@every_page
def test_no_code_or_style_stands_inside_a_page(name: str):
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", html(name))


@every_page
def test_every_id_the_scripts_use_exists_once(name: str):
    ids = re.findall(r'\bid="([^"]+)"', html(name))
    assert len(ids) == len(set(ids))
    text = "".join(scripts(name))
    used = set(re.findall(r'(?:byId|getElementById)\("([^"]+)"\)', text)) | set(re.findall(r'"#([\w-]+)', text))
    assert len(used) > 8
    assert used <= set(ids)


@every_page
def test_every_control_has_a_name(name: str):
    page = html(name)
    labelled = set(re.findall(r'<label[^>]* for="([^"]+)"', page))
    loose = re.sub(r"<label(?![^>]* for=).*?</label>", "", page, flags=re.DOTALL)
    for attributes in re.findall(r"<(?:input|select|textarea)([^>]*)>", loose):
        assert re.search(r'id="([^"]+)"', attributes)[1] in labelled, attributes
    for content in re.findall(r"<button[^>]*>(.*?)</button>", page):
        words = re.sub(r"<[^>]+>", "", content)
        assert re.search(r"[A-Za-z]{3}", words) or '<span class="hidden"></span>' in content, (
            content
        )  # told by a script
    for reference in re.findall(r'aria-(?:labelledby|describedby)="([^"]+)"', page):
        assert f'id="{reference}"' in page


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_as_defined():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WCAG's well-known example


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_apart(scheme: int):
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    block = re.findall(r":root {(.*?)}", style, re.DOTALL)[scheme]
    colour = dict(re.findall(r"--([\w-]+): (#\w{6});", block))
    grounds = ("ground", "surface", "met", "missed", "kept")
    letters = [("text", ground) for ground in grounds]
    letters += [(name, "surface") for name in ("quiet", "accent", "warning", "missed-line")]
    letters += [("quiet", "ground"), ("on-accent", "accent")]
    for name, ground in letters:
        assert contrast(colour[name], colour[ground]) >= 4.5, (name, ground)
    for name, ground in [("line", "surface"), ("met-line", "met"), ("missed-line", "missed"), ("kept-line", "kept")]:
        assert contrast(colour[name], colour[ground]) >= 3, (name, ground)
