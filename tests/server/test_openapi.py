"""The OpenAPI document: whole, true about errors, and open to programs that read it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest


@pytest.fixture(scope="module")
def document(server: Any) -> dict[str, Any]:
    return httpx.get(server.url + "/openapi.json").json()


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, own) for path, entry in document["paths"].items() for method, own in entry.items()]


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for item in value.values() for found in references(item)]
    return [found for item in value for found in references(item)] if isinstance(value, list) else []


def test_every_reference_leads_somewhere(document: dict[str, Any]):
    found = references(document)
    assert found
    for reference in found:
        place: Any = document
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def test_no_route_answers_422(document: dict[str, Any]):
    assert not [path for path, _, own in operations(document) if "422" in own["responses"]]


def test_every_route_says_what_it_does(document: dict[str, Any]):
    for path, method, own in operations(document):
        assert own.get("description"), f"{method} {path}"
        assert len(own["responses"]) > 1, f"{method} {path} knows no errors"


def test_names_in_paths_are_parameters(document: dict[str, Any]):
    for path, _, own in operations(document):
        names = {parameter["name"] for parameter in own.get("parameters", []) if parameter["in"] == "path"}
        assert names == set(re.findall(r"{(\w+)}", path))


def test_what_changes_something_has_a_body(document: dict[str, Any]):
    for path, method, own in operations(document):
        assert ("requestBody" in own) == (method in ("post", "put", "patch")), f"{method} {path}"
