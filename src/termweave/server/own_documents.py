"""Documents by our own interface: with terms that come along. How far it is and the result are asked as DeepL's are."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import RootModel

from termweave.documents import Options
from termweave.server.backend import SearchSettings
from termweave.server.bodies import read_upload
from termweave.server.deepl_documents import DeepLDocument
from termweave.server.documentation import problems, text, texts, upload_body
from termweave.server.own import Term, entry_of, parse
from termweave.server.problems import Problem, bad_request
from termweave.server.service import service_of
from termweave.server.settings import MOST_GLOSSARIES

router = APIRouter(tags=["Termweave"])


class Terms(RootModel[list[Term]]):
    pass


@router.post(
    "/v1/documents",
    openapi_extra=upload_body(
        ("file", "source", "target"),
        source=text("Language of the document, such as de.", examples=["de"]),
        target=text("Language to translate into, such as en.", examples=["en"]),
        terms=text(
            "Terms as /v1/translate takes them: a list, written as JSON.",
            examples=['[{"source": "Haus", "target": "building"}]'],
        ),
        glossaries=texts(f"Ids of up to {MOST_GLOSSARIES} stored glossaries, which come after the terms."),
    ),
    responses=problems(404, 456),
)
async def upload(request: Request) -> DeepLDocument:
    """Have a document translated with terms. Ask for it at /v2/document/{document_id}."""
    service = service_of(request)
    caller = await service.identify(request)
    given, name, content = await read_upload(request)
    source, target = service.languages.pair(given.text("source"), given.text("target"))
    entries = [entry_of(term) for term in parse(Terms, given.text("terms", "[]").encode()).root]
    if len(entries) > service.limits.terms:
        raise Problem(413, "Too many terms", f"at most {service.limits.terms} fit into one request; make a glossary")
    glossaries = given.texts("glossaries")
    if len(glossaries) > MOST_GLOSSARIES:
        raise bad_request("Too many glossaries", f"'glossaries' takes {MOST_GLOSSARIES} at most")
    terms = await service.workers.short(service.terms, glossaries, source, target, entries)
    lines = await service.document_lines(caller, SearchSettings(f"{source}-{target}"), terms)
    options = Options(source, target)
    work = await service.workers.documents(service.documents.accept, name, content, caller.id, options, lines)
    return DeepLDocument(document_id=work.id, document_key=work.secret)
