"""Requests made from the OpenAPI document, right ones and wrong ones: no 5xx, and no answer it does not announce.

EXAMPLES=500 says how many to make for each operation.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import schemathesis
from gated_backend import GatedBackend
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from termweave.server.app import create_app

EXAMPLES = int(os.environ.get("EXAMPLES", "8"))
schemathesis.serializer.alias("application/x-tbx", "text/csv")
LANGUAGES = {"source": "de", "target": "en", "source_lang": "de", "target_lang": "en"}


def document() -> Any:
    """Of a server for German and English. Told which languages these are, most requests get past that question."""
    with tempfile.TemporaryDirectory() as folder:
        told = create_app(GatedBackend(), Path(folder) / "store.sqlite").openapi()
    for operation in (operation for path in told["paths"].values() for operation in path.values()):
        tell_languages(operation.get("requestBody", {}))
        for parameter in operation.get("parameters", []):
            if parameter["name"] in LANGUAGES:
                parameter["schema"] = {"enum": [LANGUAGES[parameter["name"]]]}
    return schemathesis.openapi.from_dict(told)


def tell_languages(value: Any) -> None:
    """Wherever an object has a field for a language, inside a body."""
    if isinstance(value, dict) and isinstance(value.get("properties"), dict):
        fields = value["properties"]
        for name in LANGUAGES.keys() & fields.keys():
            fields[name] = {"enum": [LANGUAGES[name], *([None] if "null" in str(fields[name]) else [])]}
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        tell_languages(item)


@document().parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_answer_is_as_the_document_says(case: Any, server: Any):
    # What the document cannot say, such as which glossaries there are, is refused in requests that are right by it.
    case.call_and_validate(base_url=server.url, timeout=60, excluded_checks=[positive_data_acceptance])
