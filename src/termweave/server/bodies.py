"""Bodies of requests, JSON or forms, as fields whose types are checked here: what is wrong is a 400 that names it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from termweave.server.problems import Problem, bad_request

_MOST_FIELDS = 10_000
_NESTED = re.compile(r"(\w+)\[(\d{1,4})\]\.(\w+)")  # dictionaries[0].source_lang
_TRUE, _FALSE = ("1", "true"), ("0", "false")


class Fields:
    """The fields of a body. JSON values keep their types; those of forms are lists of texts."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        value = self._single(name)
        if value is None:
            if default is None:
                raise bad_request(f"Parameter '{name}' not specified", "it is required")
            return default
        if not isinstance(value, str):
            raise _wrong(name, "a text")
        return value

    def texts(self, name: str) -> list[str]:
        """One text counts as a list of it."""
        value = self._values.get(name)
        if value is None:
            return []
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in values):
            raise _wrong(name, "a list of texts")
        return list(values)

    def is_list(self, name: str) -> bool:
        """Several values, or a JSON list of any length."""
        value = self._values.get(name)
        return isinstance(value, list) and not (isinstance(value, _FormValues) and len(value) == 1)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._single(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        written = str(value).lower()
        if written not in _TRUE + _FALSE:
            raise _wrong(name, "true or false")
        return written in _TRUE

    def number(self, name: str, default: int) -> int:
        value = self._single(name)
        if value is None:
            return default
        if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value, re.ASCII):
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(name, "a whole number")
        return value

    def records(self, name: str) -> list[Fields]:
        """A list of objects; in forms, `name[0].field`."""
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise _wrong(name, "a list of objects")
        return [Fields(item) for item in value]

    def _single(self, name: str) -> Any:
        value = self._values.get(name)
        if isinstance(value, _FormValues):
            return value[-1]
        return value


class _FormValues(list[str]):
    """All values of a field of a form."""


def query_fields(request: Request) -> Fields:
    """The fields of the address alone, where the body is a file."""
    return Fields(_form(request.scope.get("query_string", b"")))


async def read_fields(request: Request) -> Fields:
    """The fields of the body and of the address; some clients send a form with GET, others put it in the address."""
    query = _form(request.scope.get("query_string", b""))
    body = await read_body(request)
    if not body:
        return Fields(query)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return Fields({**query, **_json_object(body)})
    if kind in ("application/x-www-form-urlencoded", ""):
        return Fields({**query, **_form(body)})
    if kind == "multipart/form-data":
        return Fields({**query, **await _multipart(request)})
    raise Problem(415, "Content-Type not supported", "send application/json or application/x-www-form-urlencoded")


async def read_upload(request: Request, name: str = "file") -> tuple[Fields, str, bytes]:
    """The fields of a form, and the name and the content of the file it brings."""
    await read_body(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise Problem(415, "Content-Type not supported", f"send multipart/form-data with a file as '{name}'")
    form = await _parsed_form(request)
    file = form.get(name)
    if not isinstance(file, UploadFile):
        raise bad_request(f"Parameter '{name}' not specified", "send a file")
    pairs = [(key, value) for key, value in form.multi_items() if isinstance(value, str)]
    return Fields(_grouped(pairs)), file.filename or "", await file.read()


async def read_body(request: Request) -> bytes:
    return await request.body()


def _json_object(body: bytes) -> dict[str, Any]:
    value = read_json(body)
    if not isinstance(value, dict):
        raise bad_request("The body is no JSON object", "send an object such as {…}")
    return value


def read_json(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # halves of characters can be written as \ud800
    except UnicodeDecodeError as error:
        raise bad_request("The body is not UTF-8", f"byte {error.start}") from None
    except UnicodeEncodeError:
        raise bad_request("The body holds half a character", "a surrogate (\\ud800 to \\udfff) stands alone") from None
    except RecursionError:
        raise bad_request("The body is nested too deeply", "send a flat object") from None
    except ValueError as error:
        raise bad_request("The body is not valid JSON", _where(error)) from None
    return value


def _where(error: ValueError) -> str:
    """The place, but nothing of the text."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return "it holds a number that JSON has not, or one that is too long"


def _no_number(_: str) -> None:
    raise ValueError


def _form(data: bytes) -> dict[str, Any]:
    try:
        pairs = parse_qsl(data.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise bad_request("The form is not UTF-8", "encode it as UTF-8, then by percent signs") from None
    except ValueError:
        raise bad_request("The form has too many fields", f"at most {_MOST_FIELDS:,} are read") from None
    return _grouped(pairs)


async def _multipart(request: Request) -> dict[str, Any]:
    pairs = []
    for name, value in (await _parsed_form(request)).multi_items():
        if isinstance(value, UploadFile):
            try:
                pairs.append((name, (await value.read()).decode("utf-8")))
            except UnicodeDecodeError as error:
                raise bad_request(f"The file '{name}' is not UTF-8", f"byte {error.start}") from None
        else:
            pairs.append((name, value))
    return _grouped(pairs)


async def _parsed_form(request: Request) -> FormData:
    try:
        return await request.form(max_files=10, max_fields=1000)
    except HTTPException as error:
        raise bad_request("The form cannot be read", str(error.detail)) from None


def _grouped(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """`a=1&a=2` → {a: [1, 2]}; `d[0].x=1` → {d: [{x: [1]}]}."""
    values: dict[str, Any] = {}
    records: dict[str, dict[int, dict[str, Any]]] = {}
    for name, value in pairs:
        nested = _NESTED.fullmatch(name)
        if nested:
            record = records.setdefault(nested[1], {}).setdefault(int(nested[2]), {})
            record.setdefault(nested[3], _FormValues()).append(value)
        else:
            values.setdefault(name.removesuffix("[]"), _FormValues()).append(value)
    return values | {name: [own[place] for place in sorted(own)] for name, own in records.items()}


def _wrong(name: str, expected: str) -> Problem:
    return bad_request(f"Value for '{name}' not supported", f"it must be {expected}")
