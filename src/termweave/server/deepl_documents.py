"""The part of DeepL's interface for documents: upload one, ask how far it is, fetch it."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from termweave.documents import Options
from termweave.server.backend import SearchSettings
from termweave.server.bodies import read_fields, read_upload
from termweave.server.deepl import glossaries_of, refuse_what_is_not_done
from termweave.server.document_store import State, StoredDocument
from termweave.server.documentation import body, fields, problems, text, upload_body
from termweave.server.problems import Problem, bad_request
from termweave.server.service import Service, service_of

router = APIRouter(tags=["DeepL-compatible"])

_SAMPLE = 5000  # characters, by which the language is told
_UPLOAD = upload_body(
    required=("file", "target_lang"),
    source_lang=text("Language of the document, such as DE; without it, it is detected."),
    target_lang=text("Language to translate into, such as EN-US or DE.", examples=["EN-US"]),
    filename=text("Its name, if the upload has none; the suffix tells the format."),
    glossary_id=text("Glossary whose terms must be used; needs source_lang."),
)
_KEY = body(
    fields(("document_key",), document_key=text("What the upload was answered with.", examples=["DOCUMENT_KEY"]))
)


class DeepLDocument(BaseModel):
    document_id: str
    document_key: str


class DeepLDocumentStatus(BaseModel):
    document_id: str
    status: State
    seconds_remaining: int | None = Field(None, description="A guess.")
    progress: float = Field(description="The share that is done; not DeepL's, but ours.")
    billed_characters: int | None = None
    error_message: str | None = None


@router.post("/v2/document", openapi_extra=_UPLOAD, responses=problems(404, 456))
async def upload(request: Request) -> DeepLDocument:
    """Have a document translated: text, a table, Markdown, HTML, .po or XLIFF."""
    service = service_of(request)
    caller = await service.identify(request)
    given, name, content = await read_upload(request)
    refuse_what_is_not_done(given)
    name = given.text("filename", name)
    wanted = given.text("output_format", "").lower()
    if wanted and not name.lower().endswith("." + wanted):
        raise bad_request("Value for 'output_format' not supported", "a document keeps its format; leave it out")
    target = service.languages.target(given.text("target_lang"))
    code = given.text("source_lang", "")
    sample = content.decode("utf-8", errors="replace")[:_SAMPLE]
    source = (
        service.languages.source(code)
        if code
        else await service.workers.short(service.languages.detect_source, sample, target)
    )
    settings = SearchSettings(service.languages.direction(source, target))
    terms = await service.workers.short(service.terms, glossaries_of(given), source, target)
    lines = await service.document_lines(caller, settings, terms)
    options = Options(source, target)
    work = await service.workers.documents(service.documents.accept, name, content, caller.id, options, lines)
    return DeepLDocument(document_id=work.id, document_key=work.secret)


@router.post(
    "/v2/document/{document_id}", openapi_extra=_KEY, responses=problems(404), response_model_exclude_none=True
)
async def status(request: Request, document_id: str) -> DeepLDocumentStatus:
    """How far a document is."""
    own = await _find(request, document_id)
    return DeepLDocumentStatus(
        document_id=own.id,
        status=own.state,
        seconds_remaining=own.seconds_left,
        progress=own.progress,
        billed_characters=own.characters if own.state == "done" else None,
        error_message=own.problem.sentence if own.problem else None,
    )


@router.post(
    "/v2/document/{document_id}/result",
    openapi_extra=_KEY,
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **problems(404)},
)
async def result(request: Request, document_id: str) -> Response:
    """The translated document. It can be fetched again for an hour."""
    return await fetched(service_of(request), await _find(request, document_id))


async def _find(request: Request, document_id: str) -> StoredDocument:
    service = service_of(request)
    caller = await service.identify(request)
    secret = (await read_fields(request)).text("document_key")
    return await service.workers.documents(service.documents.find, document_id, caller.id, secret)


async def fetched(service: Service, own: StoredDocument) -> Response:
    """The translated document as an answer, or the problem there is with it."""
    if own.problem is not None:
        raise own.problem
    if own.state != "done":
        raise Problem(503, "The document is not ready", "Ask for its status first.", own.seconds_left or 1)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(own.name, safe='', errors='replace')}",
        "X-Content-Type-Options": "nosniff",  # a page that was uploaded must not become one of this server's
    }
    content = await service.workers.documents(service.documents.content, own)
    return Response(content, media_type="application/octet-stream", headers=headers)
