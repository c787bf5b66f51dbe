"""What the OpenAPI document says about bodies that are read by hand, and about errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

FORM = "application/x-www-form-urlencoded"
SCHEMAS: dict[str, Any] = {}  # what bodies read by hand refer to


class ProblemBody(BaseModel):
    """What every error looks like."""

    message: str = Field(description="What is wrong.")
    detail: str = Field(description="Where, and what to do about it.")


SUCCESSES = {"200": "What was asked for.", "201": "It was made.", "204": "It was done; there is no body."}
_MEANINGS = {
    400: "The request is wrong; the answer says what to mend.",
    403: "No key, an unknown one, or a revoked one.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    412: "It was changed meanwhile: it is not what If-Match names.",
    413: "The body, or what it brings, is too large.",
    415: "A kind of body that is not read here.",
    429: "Too many requests with this key; see Retry-After.",
    456: "The characters of this key are used up for this month.",
    500: "A mistake of the server.",
    503: "Overloaded, shutting down, or without its store; see Retry-After.",
}


def problems(*statuses: int, model: type[BaseModel] = ProblemBody) -> dict[int | str, dict[str, Any]]:
    """The answers a route may give besides its own."""
    always = (400, 403, 408, 413, 415, 429, 500, 503)
    return {status: {"model": model, "description": _MEANINGS[status]} for status in sorted({*always, *statuses})}


def body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """A body that may be JSON or a form, for `openapi_extra`."""
    content = {"application/json": {"schema": _with_nulls(schema)}, FORM: {"schema": schema}}
    return {"requestBody": {"required": required, "content": content}}


def _with_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """The same in JSON, where null is as good as a field that is left out, of objects in lists too."""
    if schema.get("type") == "array":
        return {**schema, "items": _with_nulls(schema["items"])}
    if "properties" not in schema:
        return schema
    properties = {
        name: _with_nulls(own) if name in schema["required"] else _or_null(_with_nulls(own))
        for name, own in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """What people read of it stands in front, where readers of the document look for it."""
    shown = {name: value for name, value in schema.items() if name in ("description", "examples")}
    return {"anyOf": [schema, {"type": "null"}], **shown}


def upload_body(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    """A form with a file, for `openapi_extra`."""
    schema = fields(
        required,
        file={"type": "string", "format": "binary", "description": "The file.", "examples": ["text.txt"]},
        **properties,
    )
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def model_body(model: type[BaseModel]) -> dict[str, Any]:
    """A JSON body that is read by hand as `model`. What it refers to goes to the other schemas of the document."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    SCHEMAS.update(schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def fields(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required)}


def text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def texts(description: str, examples: Sequence[list[str]] = (), **more: Any) -> dict[str, Any]:
    """A list; one text counts as a list of it."""
    several = {"type": "array", "items": {"type": "string"}, **more}
    shown = {"examples": list(examples)} if examples else {}
    return {"anyOf": [several, {"type": "string"}], "description": description, **shown}


def flag(description: str) -> dict[str, Any]:
    """Some clients write them as texts or numbers."""
    return {"enum": [True, False, "true", "false", 1, 0, "1", "0"], "description": description}


def count(description: str) -> dict[str, Any]:
    """A whole number, also as a text."""
    whole = {"type": "integer", "minimum": 0}
    return {"anyOf": [whole, {"type": "string", "pattern": "^[0-9]{1,9}$"}], "description": description}


def query(name: str, description: str, required: bool = False, **schema: Any) -> dict[str, Any]:
    """A parameter of the address."""
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": {"type": "string", **schema},
    }
