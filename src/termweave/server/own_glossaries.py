"""Glossaries as files, by our own interface: upload, export and lint of TSV, CSV and TBX."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from termweave.constraints.glossary import CaseRule, Fault, Glossary, Policy
from termweave.constraints.glossary_files import read_glossary, write_glossary
from termweave.constraints.glossary_lint import Finding, lint_glossary
from termweave.errors import DataError
from termweave.server.bodies import Fields, query_fields, read_body
from termweave.server.deepl_glossaries import GlossariesV3, GlossaryV3, as_v3
from termweave.server.documentation import problems, query
from termweave.server.problems import Problem, bad_request
from termweave.server.service import Service, service_of
from termweave.server.store import Dictionary, StoredGlossary

router = APIRouter(tags=["Termweave"])

Format = Literal["tsv", "csv", "tbx"]
FORMATS: tuple[str, ...] = get_args(Format)
TYPES = {"tsv": "text/tab-separated-values", "csv": "text/csv", "tbx": "application/x-tbx"}
_FILE = {
    "requestBody": {
        "required": True,
        "content": {kind: {} for kind in (*TYPES.values(), "application/octet-stream")},  # {}: bytes, as they are
    }
}
_FORMAT = query("format", "How the file is written; without it, the type of the body tells.", enum=list(FORMATS))
_PAIR = [
    query("source", "Language of the source terms, such as de.", required=True, examples=["de"]),
    query("target", "Language of the target terms, such as en.", required=True, examples=["en"]),
]

_ENTITY_TAG = re.compile(r'(?:W/)?"([^"]*)"|([^\s,"]+)')  # without quotes too, as people type them
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of what is to be replaced, or several; if it was changed meanwhile, the answer is 412.",
    "schema": {"type": "string"},
}


class LintFinding(BaseModel):
    severity: Literal["error", "warning", "note"]
    code: str
    line: int
    message: str
    remedy: str


class LintAnswer(BaseModel):
    entries: int
    findings: list[LintFinding]


class FileTerm(BaseModel):
    """A row of a glossary file."""

    line: int
    source: str
    targets: list[str] = Field(description="The preferred one first.")
    policy: Policy
    case: CaseRule
    note: str


class TermsAnswer(BaseModel):
    terms: list[FileTerm]
    findings: list[LintFinding] = Field(description="Rows that are no terms are among these, as errors.")


class UploadAnswer(BaseModel):
    glossary: GlossaryV3
    lint: LintAnswer


@router.post(
    "/v1/glossaries",
    status_code=201,
    openapi_extra={
        "parameters": [query("name", "What people call it.", required=True, examples=["houses"]), *_PAIR, _FORMAT],
        **_FILE,
    },
    responses=problems(),
)
async def upload(request: Request, response: Response) -> UploadAnswer:
    """Store a glossary file, with policies, alternatives, letter case and notes. Rows without sense are refused."""
    glossaries, given = service_of(request).glossaries, query_fields(request)
    return await _store_file(request, response, lambda dictionary: glossaries.create(given.text("name"), [dictionary]))


@router.put(
    "/v1/glossaries/{glossary_id}/file",
    openapi_extra={"parameters": [*_PAIR, _FORMAT, _IF_MATCH], **_FILE},
    responses=problems(404, 412),
)
async def replace(request: Request, response: Response, glossary_id: str) -> UploadAnswer:
    """Put a file in the place of the entries of one pair of languages, or add it.

    The header ETag, here and where a glossary is stored or read as a file, names what it holds. Sent back as
    If-Match, it keeps you from replacing what somebody else has changed meanwhile.
    """
    glossaries, versions = service_of(request).glossaries, _versions(request)
    return await _store_file(
        request, response, lambda dictionary: glossaries.replace(glossary_id, dictionary, versions)
    )


@router.post("/v1/lint", openapi_extra={"parameters": [*_PAIR, _FORMAT], **_FILE}, responses=problems())
async def lint(request: Request) -> LintAnswer:
    """What is probably wrong with a glossary file, line by line. Nothing is stored."""
    service = service_of(request)
    await service.identify(request)
    given = query_fields(request)
    source, target = service.languages.pair(given.text("source"), given.text("target"))
    body, kind = await read_body(request), _format(request, given)

    def check() -> LintAnswer:
        return _answer(*_checked(body, kind, source, target))

    return await service.workers.glossaries(check)


@router.post("/v1/terms", openapi_extra={"parameters": [*_PAIR, _FORMAT], **_FILE}, responses=problems())
async def terms(request: Request) -> TermsAnswer:
    """The terms of a glossary file, and what is probably wrong with them. Nothing is stored."""
    service = service_of(request)
    await service.identify(request)
    given = query_fields(request)
    source, target = service.languages.pair(given.text("source"), given.text("target"))
    body, kind = await read_body(request), _format(request, given)

    def read() -> TermsAnswer:
        glossary, findings = _checked(body, kind, source, target)
        rows = [
            FileTerm(
                line=entry.line,
                source=entry.source,
                targets=list(entry.targets),
                policy=entry.policy,
                case=entry.case,
                note=entry.note,
            )
            for entry in glossary.entries
        ]
        return TermsAnswer(terms=rows, findings=_answer(glossary, findings).findings)

    return await service.workers.glossaries(read)


@router.post(
    "/v1/convert",
    openapi_extra={
        "parameters": [*_PAIR, _FORMAT, query("to", "How to write it.", required=True, enum=list(FORMATS))],
        **_FILE,
    },
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in TYPES.values()}}, **problems()},
)
async def convert(request: Request) -> Response:
    """A glossary file in another format. Nothing is stored."""
    service = service_of(request)
    await service.identify(request)
    given = query_fields(request)
    source, target = service.languages.pair(given.text("source"), given.text("target"))
    body, kind, wanted = await read_body(request), _format(request, given), _wanted_format(given, "to")
    glossary = await service.workers.glossaries(_read, body, kind, source, target, None)
    return await _file(service, glossary, wanted)


@router.get("/v1/glossaries", responses=problems())
async def list_glossaries(request: Request) -> GlossariesV3:
    """All glossaries; those made by DeepL's interface are the same ones."""
    service = service_of(request)
    await service.identify(request)
    return GlossariesV3(glossaries=[as_v3(own) for own in await service.workers.short(service.glossaries.list)])


@router.get(
    "/v1/glossaries/{glossary_id}/file",
    openapi_extra={"parameters": [*_PAIR, query("format", "How to write it.", enum=list(FORMATS))]},
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in TYPES.values()}}, **problems(404)},
)
async def export(request: Request, glossary_id: str) -> Response:
    """The entries of one pair of languages as a file, with all that belongs to them."""
    service = service_of(request)
    await service.identify(request)
    given = query_fields(request)
    source, target = service.languages.pair(given.text("source"), given.text("target"))
    kind = _wanted_format(given, "format", "tsv")

    def read() -> tuple[Glossary, str]:
        # The version first: if the entries change in between, it is too old, and replacing them is refused.
        version = service.glossaries.get(glossary_id).dictionary(source, target).version
        return Glossary(service.glossaries.entries(glossary_id, source, target), source, target), version

    glossary, version = await service.workers.glossaries(read)
    answer = await _file(service, glossary, kind)
    answer.headers["ETag"] = f'"{version}"'
    return answer


@router.delete("/v1/glossaries/{glossary_id}", status_code=204, responses=problems(404))
async def delete(request: Request, glossary_id: str) -> None:
    """Delete a glossary for good."""
    service = service_of(request)
    await service.identify(request)
    await service.workers.glossaries(service.glossaries.delete, glossary_id)


async def _store_file(
    request: Request, response: Response, store: Callable[[Dictionary], StoredGlossary]
) -> UploadAnswer:
    """Read the glossary of a body, have it stored, and tell what is probably wrong with it."""
    service = service_of(request)
    await service.identify(request)
    given = query_fields(request)
    source, target = service.languages.pair(given.text("source"), given.text("target"))
    body, kind = await read_body(request), _format(request, given)

    def work() -> tuple[StoredGlossary, LintAnswer]:
        glossary = _read(body, kind, source, target, None)
        stored = store(Dictionary(source, target, glossary.merged().entries))
        return stored, _answer(glossary, lint_glossary(glossary))

    stored, lint = await service.workers.glossaries(work)
    response.headers["ETag"] = f'"{stored.dictionary(source, target).version}"'
    return UploadAnswer(glossary=as_v3(stored), lint=lint)


def _versions(request: Request) -> frozenset[str] | None:
    """What If-Match names, which may be several; anything will do for a star, as for nothing."""
    named = ",".join(request.headers.getlist("if-match")).strip()
    if named in ("", "*"):
        return None
    return frozenset(quoted or bare for quoted, bare in _ENTITY_TAG.findall(named))


def _wanted_format(given: Fields, name: str, default: str | None = None) -> str:
    kind = given.text(name, default)
    if kind not in FORMATS:
        raise bad_request(f"Value for '{name}' not supported", f"use one of: {', '.join(FORMATS)}")
    return kind


async def _file(service: Service, glossary: Glossary, kind: str) -> Response:
    def write() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"glossary.{kind}"
            write_glossary(glossary, path)
            return path.read_bytes()

    headers = {"Content-Disposition": f'attachment; filename="glossary.{kind}"'}
    return Response(
        await service.workers.glossaries(write), media_type=f"{TYPES[kind]}; charset=utf-8", headers=headers
    )


def _format(request: Request, given: Fields) -> str:
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    told = {own: kind for kind, own in TYPES.items()} | {"application/xml": "tbx", "text/xml": "tbx"}
    kind = given.text("format", told.get(sent, ""))
    if kind not in FORMATS:
        raise Problem(415, "The format of the file is not known", f"add format= to the address: {', '.join(FORMATS)}")
    return kind


def _read(body: bytes, kind: str, source: str, target: str, faults: list[Fault] | None) -> Glossary:
    """The glossary of a file; the readers tell formats by the name of a file, so for a moment it becomes one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"glossary.{kind}"
        path.write_bytes(body)
        try:
            return read_glossary(path, source, target, faults)
        except DataError as error:
            raise bad_request("The glossary cannot be read", str(error).replace(str(path), "the file")) from None


def _checked(body: bytes, kind: str, source: str, target: str) -> tuple[Glossary, list[Finding]]:
    """The glossary of a file without the rows that are no entries, and all there is to say about both."""
    faults: list[Fault] = []
    glossary = _read(body, kind, source, target, faults)
    wrong = [Finding("error", "no-entry", line, *_parted(message)) for line, message in faults]
    return glossary, sorted([*wrong, *lint_glossary(glossary)], key=lambda finding: finding.line)


def _parted(message: str) -> tuple[str, str]:
    problem, _, remedy = message.partition("; ")
    return problem, remedy


def _answer(glossary: Glossary, findings: list[Finding]) -> LintAnswer:
    told: list[Any] = [LintFinding(**vars(finding)) for finding in findings]
    return LintAnswer(entries=len(glossary), findings=told)
