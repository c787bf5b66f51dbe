"""Glossary files: uploaded, checked, exported, and used by every interface."""

from __future__ import annotations

from typing import Any

import deepl
import httpx
import pytest

PAIR = {"source": "de", "target": "en"}
TABLE = (
    "source\ttarget\ttarget\tpolicy\tnote\n"
    "Müller\tgrinder\tmiller\tmust\tan old trade\n"
    "Termweave\t\t\tkeep\t\n"
    "Mehl\tpowder\t\tforbid\t\n"
)
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><tbx><text><body>&c;</body></text></tbx>'
)


def upload(server: Any, content: str | bytes, **query: str) -> httpx.Response:
    body = content.encode() if isinstance(content, str) else content
    return httpx.post(
        server.url + "/v1/glossaries", params={"name": "mine", **PAIR, "format": "tsv", **query}, content=body
    )


def test_a_file_is_stored_with_all_that_belongs_to_it(server: Any):
    answer = upload(server, TABLE)
    assert answer.status_code == 201, answer.text
    glossary = answer.json()["glossary"]
    assert glossary["dictionaries"] == [{"source_lang": "de", "target_lang": "en", "entry_count": 3}]
    assert answer.json()["lint"]["entries"] == 3
    where = f"{server.url}/v1/glossaries/{glossary['glossary_id']}/file"
    for kind in ("tsv", "csv", "tbx"):
        exported = httpx.get(where, params={**PAIR, "format": kind})
        again = upload(server, exported.content, format=kind).json()["glossary"]["glossary_id"]
        table = httpx.get(f"{server.url}/v1/glossaries/{again}/file", params=PAIR)
        assert table.content == httpx.get(where, params=PAIR).content
        assert table.headers["content-type"].startswith("text/tab-separated-values")


def test_every_interface_uses_it(server: Any):
    identifier = upload(server, TABLE).json()["glossary"]["glossary_id"]
    client = deepl.DeepLClient("any", server_url=server.url)
    options = {"source_lang": "DE", "target_lang": "EN-US", "glossary": identifier}
    text = client.translate_text("Müller Termweave", **options).text
    assert "grinder" in text or "miller" in text
    assert "Termweave" in text
    assert client.get_glossary_entries(identifier) == {"Müller": "grinder", "Termweave": "Termweave"}
    listed = httpx.get(server.url + "/v1/glossaries").json()["glossaries"]
    assert identifier in {glossary["glossary_id"] for glossary in listed}
    assert httpx.delete(f"{server.url}/v1/glossaries/{identifier}").status_code == 204
    assert httpx.delete(f"{server.url}/v1/glossaries/{identifier}").status_code == 404


def test_lint_names_lines_and_stores_nothing(server: Any):
    before = httpx.get(server.url + "/v1/glossaries").json()
    answer = httpx.post(
        server.url + "/v1/lint",
        params={**PAIR, "format": "csv"},
        content=b"Haus,house\nHaus,home\n,nothing\n",
    )
    assert answer.status_code == 200, answer.text
    findings = answer.json()["findings"]
    assert {finding["line"] for finding in findings} >= {2, 3}
    assert all(finding["remedy"] for finding in findings)
    assert httpx.get(server.url + "/v1/glossaries").json() == before


def test_the_type_of_the_body_tells_the_format(server: Any):
    headers = {"Content-Type": "text/csv; charset=utf-8"}
    answer = httpx.post(
        server.url + "/v1/glossaries", params={"name": "c", **PAIR}, content=b"Haus,house", headers=headers
    )
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("content", "query", "status"),
    [
        ("", {}, 400),
        ("Haus\n", {}, 400),
        (b"\xff\xfe\x00", {}, 400),
        (BOMB, {"format": "tbx"}, 400),
        ("no markup", {"format": "tbx"}, 400),
        ("Haus\thouse", {"format": "xls"}, 415),
        ("Haus\thouse", {"source": "fr"}, 400),
        ("Haus\thouse", {"name": ""}, 400),
        ("a" * 21 * 2**20, {}, 413),
    ],
)
def test_what_is_wrong_is_said(server: Any, content: str | bytes, query: dict[str, str], status: int):
    answer = upload(server, content, **query)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"message", "detail"}
    assert "/tmp" not in answer.text


def test_terms_of_a_file_are_told_with_what_is_wrong(server: Any):
    table = "source\ttarget\ttarget\tpolicy\nHaus\tbuilding\thouse\tprefer\nMehl\t\t\t\n"
    place = f"{server.url}/v1/terms?source=de&target=en&format=tsv"
    found = httpx.post(place, content=table.encode()).json()
    expected = {
        "line": 2,
        "source": "Haus",
        "targets": ["building", "house"],
        "policy": "prefer",
        "case": "carry",
        "note": "",
    }
    assert found["terms"] == [expected]
    assert [(own["severity"], own["line"]) for own in found["findings"]] == [("error", 3)]


def test_files_are_converted_without_being_stored(server: Any):
    place = f"{server.url}/v1/convert?source=de&target=en&format=csv&to="
    answer = httpx.post(place + "tsv", content=b"Haus,building\n")
    assert answer.text == "source\ttarget\nHaus\tbuilding\n"
    assert httpx.post(place + "tbx", content=b"Haus,building\n").text.startswith("<?xml")
    assert httpx.post(place + "pdf", content=b"Haus,building\n").status_code == 400


def test_a_file_takes_the_place_of_another_unless_that_was_changed(server: Any):
    stored = upload(server, TABLE)
    place = f"{server.url}/v1/glossaries/{stored.json()['glossary']['glossary_id']}/file"

    def put(content: str, **headers: str) -> httpx.Response:
        return httpx.put(place, params={**PAIR, "format": "tsv"}, content=content.encode(), headers=headers)

    read = httpx.get(place, params=PAIR)
    assert read.headers["etag"] == stored.headers["etag"]
    first = put("source\ttarget\tpolicy\nMehl\tpowder\tforbid\n", **{"If-Match": read.headers["etag"]})
    assert first.status_code == 200, first.text
    assert first.json()["glossary"]["dictionaries"] == [{"source_lang": "de", "target_lang": "en", "entry_count": 1}]
    late = put("Haus\thouse\n", **{"If-Match": read.headers["etag"]})
    assert late.status_code == 412
    assert late.json()["message"] == "The glossary was changed meanwhile"
    assert "powder\tforbid" in httpx.get(place, params=PAIR).text
    several = f'"foo", W/"bar,baz",{first.headers["etag"]}'
    assert put("Mehl\tflour\n", **{"If-Match": several}).status_code == 200
    assert put("Mehl\tmeal\n", **{"If-Match": several}).status_code == 412  # it is none of them any more
    assert put("Haus\thouse\n").status_code == 200  # whoever names no version means any
    assert httpx.get(place, params=PAIR).text == "source\ttarget\nHaus\thouse\n"
    again = httpx.put(place, params={"source": "en", "target": "de", "format": "tsv"}, content=b"house\tHaus\n")
    assert len(again.json()["glossary"]["dictionaries"]) == 2  # the other direction is added
    elsewhere = place.replace("/glossaries/", "/glossaries/no-")
    assert httpx.put(elsewhere, params={**PAIR, "format": "tsv"}, content=b"Haus\thouse\n").status_code == 404


def test_entries_added_by_deepls_interface_end_an_older_ban(server: Any):
    table = "source\ttarget\tpolicy\nHaus\tbuilding\tmust\nHaus\thome\tforbid\n"
    identifier = upload(server, table).json()["glossary"]["glossary_id"]
    added = {"source_lang": "de", "target_lang": "en", "entries": "Haus\thome", "entries_format": "tsv"}
    changed = httpx.patch(f"{server.url}/v3/glossaries/{identifier}", json={"dictionaries": [added]})
    assert changed.status_code == 200, changed.text
    body = {"texts": ["ein Haus"], **PAIR, "glossaries": [identifier]}
    answer = httpx.post(server.url + "/v1/translate", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    assert "home" in answer.json()["translations"][0]["text"]


def test_what_may_be_stored_may_be_checked_and_converted(server: Any):
    table = "source\ttarget\tnote\n" + "".join(f"Haus {n}\thouse {n}\t{'a' * 2**16}\n" for n in range(32))
    assert upload(server, table).status_code == 201
    for path in ("/v1/lint", "/v1/terms", "/v1/convert"):
        query = {**PAIR, "format": "tsv", "to": "csv"}
        answer = httpx.post(server.url + path, params=query, content=table.encode(), timeout=60)
        assert answer.status_code == 200, answer.text[:1000]
