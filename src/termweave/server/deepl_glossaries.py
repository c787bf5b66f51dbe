"""Glossaries by DeepL's interface: `/v2/glossaries` of one dictionary each, and `/v3/glossaries` of several."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from termweave.server.bodies import Fields, read_fields
from termweave.server.documentation import body, fields, problems, query, text
from termweave.server.entries import FORMATS, as_table, read_entries
from termweave.server.problems import bad_request, not_found
from termweave.server.service import Service, service_of
from termweave.server.store import Dictionary, DictionarySummary, StoredGlossary

router = APIRouter(tags=["DeepL-compatible"])

TSV = "text/tab-separated-values"
_DICTIONARY = {
    "source_lang": text("Such as de.", examples=["de"]),
    "target_lang": text("Such as en.", examples=["en"]),
    "entries": text("A line for each term: source and target.", examples=["Haus\tbuilding"]),
    "entries_format": text("How they are written.", enum=list(FORMATS)),
}
_DICTIONARIES = {"type": "array", "items": fields(("source_lang", "target_lang", "entries"), **_DICTIONARY)}
_NAME = text("What people call it.", examples=["houses"])
_PAIR = {
    "parameters": [
        query("source_lang", "Such as de.", required=True, examples=["de"]),
        query("target_lang", "Such as en.", required=True, examples=["en"]),
    ]
}


class LanguagePair(BaseModel):
    source_lang: str
    target_lang: str


class LanguagePairs(BaseModel):
    supported_languages: list[LanguagePair]


class GlossaryV2(BaseModel):
    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossariesV2(BaseModel):
    glossaries: list[GlossaryV2]


class DictionaryInfo(BaseModel):
    source_lang: str
    target_lang: str
    entry_count: int


class GlossaryV3(BaseModel):
    glossary_id: str
    name: str
    creation_time: str
    dictionaries: list[DictionaryInfo]


class GlossariesV3(BaseModel):
    glossaries: list[GlossaryV3]


class DictionaryEntries(BaseModel):
    source_lang: str
    target_lang: str
    entries: str
    entries_format: str


class DictionariesEntries(BaseModel):
    dictionaries: list[DictionaryEntries]


@router.get("/v2/glossary-language-pairs", responses=problems())
async def language_pairs(request: Request) -> LanguagePairs:
    """Between which languages there can be glossaries."""
    service = service_of(request)
    await service.identify(request)
    pairs = [LanguagePair(source_lang=source, target_lang=target) for source, target in service.languages.pairs]
    return LanguagePairs(supported_languages=pairs)


# Version 2


@router.post(
    "/v2/glossaries",
    status_code=201,
    openapi_extra=body(fields(("name", "source_lang", "target_lang", "entries"), name=_NAME, **_DICTIONARY)),
    responses=problems(),
)
async def create_v2(request: Request) -> GlossaryV2:
    """Make a glossary. It is kept for good before the answer is sent."""
    service, given = await _open(request)
    name = given.text("name")
    dictionary = await _dictionary(service, given)
    return _as_v2(await service.workers.glossaries(lambda: service.glossaries.create(name, [dictionary])))


@router.get("/v2/glossaries", responses=problems())
async def list_v2(request: Request) -> GlossariesV2:
    """All glossaries of one dictionary."""
    service, _ = await _open(request)
    stored = await service.workers.short(service.glossaries.list)
    return GlossariesV2(glossaries=[_as_v2(glossary) for glossary in stored if len(glossary.dictionaries) == 1])


@router.get("/v2/glossaries/{glossary_id}", responses=problems(404))
async def get_v2(request: Request, glossary_id: str) -> GlossaryV2:
    """One glossary, without its entries."""
    service, _ = await _open(request)
    return _as_v2(await service.workers.short(_single, service, glossary_id))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    response_class=Response,
    responses={200: {"content": {TSV: {"schema": {"type": "string"}}}}, **problems(404)},
)
async def entries_v2(request: Request, glossary_id: str) -> Response:
    """Its entries, a line each, with a tab between source and target."""
    service, _ = await _open(request)

    def read() -> str:
        (dictionary,) = _single(service, glossary_id).dictionaries
        return as_table(service.glossaries.entries(glossary_id, dictionary.source, dictionary.target))

    return Response(await service.workers.glossaries(read), media_type=f"{TSV}; charset=utf-8")


@router.delete("/v2/glossaries/{glossary_id}", status_code=204, responses=problems(404))
async def delete_v2(request: Request, glossary_id: str) -> None:
    """Delete a glossary for good."""
    service, _ = await _open(request)
    await service.workers.glossaries(lambda: service.glossaries.delete(_single(service, glossary_id).id))


# Version 3


@router.post(
    "/v3/glossaries",
    status_code=201,
    openapi_extra=body(fields(("name", "dictionaries"), name=_NAME, dictionaries=_DICTIONARIES)),
    responses=problems(),
)
async def create_v3(request: Request) -> GlossaryV3:
    """Make a glossary of several dictionaries."""
    service, given = await _open(request)
    name = given.text("name")
    dictionaries = [await _dictionary(service, own) for own in given.records("dictionaries")]
    return as_v3(await service.workers.glossaries(lambda: service.glossaries.create(name, dictionaries)))


@router.get("/v3/glossaries", responses=problems())
async def list_v3(request: Request) -> GlossariesV3:
    """All glossaries."""
    service, _ = await _open(request)
    return GlossariesV3(glossaries=[as_v3(own) for own in await service.workers.short(service.glossaries.list)])


@router.get("/v3/glossaries/{glossary_id}", responses=problems(404))
async def get_v3(request: Request, glossary_id: str) -> GlossaryV3:
    """One glossary, without its entries."""
    service, _ = await _open(request)
    return as_v3(await service.workers.short(service.glossaries.get, glossary_id))


@router.patch(
    "/v3/glossaries/{glossary_id}",
    openapi_extra=body(fields(name=_NAME, dictionaries=_DICTIONARIES)),
    responses=problems(404),
)
async def edit_v3(request: Request, glossary_id: str) -> GlossaryV3:
    """Rename a glossary, or add entries: those of a known source take the place of the older ones."""
    service, given = await _open(request)
    name = given.text("name") if "name" in given else None
    dictionaries = [await _dictionary(service, own) for own in given.records("dictionaries")]
    if name is None and not dictionaries:
        raise bad_request("Nothing to change", "send a name, dictionaries, or both")
    return as_v3(await service.workers.glossaries(lambda: service.glossaries.edit(glossary_id, name, dictionaries)))


@router.delete("/v3/glossaries/{glossary_id}", status_code=204, responses=problems(404))
async def delete_v3(request: Request, glossary_id: str) -> None:
    """Delete a glossary for good."""
    service, _ = await _open(request)
    await service.workers.glossaries(lambda: service.glossaries.delete(glossary_id))


@router.get("/v3/glossaries/{glossary_id}/entries", openapi_extra=_PAIR, responses=problems(404))
async def entries_v3(request: Request, glossary_id: str) -> DictionariesEntries:
    """The entries for one pair of languages."""
    service, given = await _open(request)
    source, target = service.languages.pair(given.text("source_lang"), given.text("target_lang"))
    table = await service.workers.glossaries(lambda: as_table(service.glossaries.entries(glossary_id, source, target)))
    own = DictionaryEntries(source_lang=source, target_lang=target, entries=table, entries_format="tsv")
    return DictionariesEntries(dictionaries=[own])


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    openapi_extra=body(fields(("source_lang", "target_lang", "entries"), **_DICTIONARY)),
    responses=problems(404),
)
async def replace_v3(request: Request, glossary_id: str) -> DictionaryInfo:
    """Put a dictionary in the place of an older one, or add it."""
    service, given = await _open(request)
    dictionary = await _dictionary(service, given)
    stored = await service.workers.glossaries(lambda: service.glossaries.replace(glossary_id, dictionary))
    return _as_info(stored.dictionary(dictionary.source, dictionary.target))


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries", status_code=204, openapi_extra=_PAIR, responses=problems(404)
)
async def delete_dictionary_v3(request: Request, glossary_id: str) -> None:
    """Delete the dictionary of one pair of languages."""
    service, given = await _open(request)
    source, target = service.languages.pair(given.text("source_lang"), given.text("target_lang"))
    await service.workers.glossaries(lambda: service.glossaries.delete_dictionary(glossary_id, source, target))


async def _open(request: Request) -> tuple[Service, Fields]:
    service = service_of(request)
    await service.identify(request)
    return service, await read_fields(request)


async def _dictionary(service: Service, given: Fields) -> Dictionary:
    source, target = service.languages.pair(given.text("source_lang"), given.text("target_lang"))
    table, kind = given.text("entries"), given.text("entries_format", "tsv").lower()
    return Dictionary(source, target, await service.workers.glossaries(read_entries, table, kind))


def _single(service: Service, identifier: str) -> StoredGlossary:
    """A glossary as version 2 knows them."""
    glossary = service.glossaries.get(identifier)
    if len(glossary.dictionaries) != 1:
        raise not_found("Glossary", "it has not exactly one dictionary; ask for it under /v3/glossaries")
    return glossary


def _as_v2(glossary: StoredGlossary) -> GlossaryV2:
    (dictionary,) = glossary.dictionaries
    return GlossaryV2(
        glossary_id=glossary.id,
        name=glossary.name,
        ready=True,
        source_lang=dictionary.source,
        target_lang=dictionary.target,
        creation_time=glossary.created,
        entry_count=dictionary.count,
    )


def as_v3(glossary: StoredGlossary) -> GlossaryV3:
    return GlossaryV3(
        glossary_id=glossary.id,
        name=glossary.name,
        creation_time=glossary.created,
        dictionaries=[_as_info(dictionary) for dictionary in glossary.dictionaries],
    )


def _as_info(dictionary: DictionarySummary) -> DictionaryInfo:
    return DictionaryInfo(source_lang=dictionary.source, target_lang=dictionary.target, entry_count=dictionary.count)
