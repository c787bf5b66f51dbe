"""LibreTranslate's interface: `/translate`, `/languages`, `/detect`, `/health`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from termweave.documents import Options
from termweave.server.backend import SearchSettings
from termweave.server.bodies import Fields, read_fields, read_upload
from termweave.server.deepl_documents import fetched
from termweave.server.detection import detect
from termweave.server.documentation import body, count, fields, problems, text, texts, upload_body
from termweave.server.languages import Languages, name_of
from termweave.server.markup import Markup
from termweave.server.problems import bad_request
from termweave.server.service import Service, service_of
from termweave.server.translating import Translated, Wanted

router = APIRouter(tags=["LibreTranslate-compatible"])

PATHS = frozenset({"/translate", "/languages", "/detect", "/health", "/translate_file"})
_FILES = "/download_file/"
_FORMATS = ("text", "html")
_LIKELY = 0.05  # guesses below this are not told
_TEXT = "Der Lehrer hat ein Haus gekauft."
_KEY = text("An API key, if the server wants one; the header Authorization does as well.")
_TRANSLATE = body(
    fields(
        required=("q", "source", "target"),
        q=texts("A text, or a list of texts.", minItems=1, examples=[[_TEXT]]),
        source=text("Its language, such as de, or auto.", examples=["de"]),
        target=text("Language to translate into, such as en.", examples=["en"]),
        format=text("What the texts are.", enum=list(_FORMATS)),
        alternatives=count("So many other translations."),
        api_key=_KEY,
    )
)


def is_path(path: str) -> bool:
    """Where errors look as LibreTranslate's clients expect them."""
    return path in PATHS or path.startswith(_FILES)


class ErrorBody(BaseModel):
    error: str


class DetectedLanguage(BaseModel):
    language: str
    confidence: float = Field(description="0 to 100.")


class LibreTranslation(BaseModel):
    translatedText: str | list[str]  # noqa: N815  (the name others gave it)
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815


class TranslatedFile(BaseModel):
    translatedFileUrl: str = Field(description="Where it can be fetched for an hour.")  # noqa: N815


class LibreLanguage(BaseModel):
    code: str
    name: str
    targets: list[str]


class Health(BaseModel):
    status: str


@router.post(
    "/translate",
    openapi_extra=_TRANSLATE,
    responses=problems(456, model=ErrorBody),
    response_model_exclude_none=True,
)
async def translate(request: Request) -> LibreTranslation:
    """Translate a text or a list of texts."""
    service = service_of(request)
    given = await read_fields(request)
    caller = await service.identify(request, given.text("api_key", ""))
    wanted, several = _texts(given)
    markup = Markup("html") if _format(given) == "html" else None
    target = _known(service.languages, given.text("target"), "target")
    alternatives = _alternatives(given, service.limits.beam)
    detected = await _detected(service, given.text("source"), wanted, target)
    results: dict[int, Translated] = {}
    async with service.accepting(request, caller, wanted):
        for source in dict.fromkeys(language for language, _ in detected):
            beam = max(4, alternatives + 1)
            settings = SearchSettings(service.languages.direction(source, target), beam=beam, nbest=alternatives + 1)
            places = [place for place, (language, _) in enumerate(detected) if language == source]
            terms = await service.workers.short(service.terms, (), source, target)
            own = Wanted([wanted[place] for place in places], settings, terms)
            if markup is None:
                found = await service.translate(request, own)
            else:
                found = [Translated(html) for html in await service.translate_markup(request, own, markup)]
            results |= dict(zip(places, found, strict=True))
    return _answer([results[place] for place in range(len(wanted))], detected, several, alternatives)


@router.post(
    "/translate_file",
    openapi_extra=upload_body(
        ("file", "source", "target"),
        source=text("Its language, such as de, or auto.", examples=["de"]),
        target=text("Language to translate into, such as en.", examples=["en"]),
        api_key=_KEY,
    ),
    responses=problems(456, model=ErrorBody),
)
async def translate_file(request: Request) -> TranslatedFile:
    """Translate a file: text, a table, Markdown, HTML, .po or XLIFF. The answer comes when it is done."""
    service = service_of(request)
    given, name, content = await read_upload(request)
    caller = await service.identify(request, given.text("api_key", ""))
    target = _known(service.languages, given.text("target"), "target")
    sample = content.decode("utf-8", errors="replace")[:5000]
    [(source, _)] = await _detected(service, given.text("source"), [sample], target)
    settings = SearchSettings(service.languages.direction(source, target))
    terms = await service.workers.short(service.terms, (), source, target)
    lines = await service.document_lines(caller, settings, terms)
    work = await service.workers.documents(
        service.documents.accept, name, content, caller.id, Options(source, target), lines
    )
    await service.finished(request, work)
    if work.problem is not None:
        await service.workers.documents(service.documents.remove, work)
        raise work.problem
    return TranslatedFile(translatedFileUrl=f"{request.base_url}{_FILES[1:]}{work.id}.{work.secret}")


@router.get(
    _FILES + "{name}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **problems(404, model=ErrorBody)},
)
async def download_file(request: Request, name: str) -> Response:
    """A translated file. Its address is a secret, so it needs no key."""
    service = service_of(request)
    if not await service.workers.keys(lambda: service.keys.required):
        await service.identify(request)
    identifier, _, secret = name.partition(".")
    return await fetched(service, await service.workers.documents(service.documents.find, identifier, None, secret))


@router.get("/languages", responses=problems(model=ErrorBody))
async def languages(request: Request) -> list[LibreLanguage]:
    """The languages that can be translated from, each with those it can be translated into."""
    known = service_of(request).languages
    given = await read_fields(request)
    await service_of(request).identify(request, given.text("api_key", ""))
    return [LibreLanguage(code=code, name=name_of(code), targets=known.targets_of(code)) for code in known.sources]


@router.post(
    "/detect",
    openapi_extra=body(fields(("q",), q=text("A text.", minLength=1, examples=[_TEXT]), api_key=_KEY)),
    responses=problems(model=ErrorBody),
)
async def detect_language(request: Request) -> list[DetectedLanguage]:
    """What language a text is probably in, the likeliest first; one without letters is told with confidence 0."""
    service = service_of(request)
    given = await read_fields(request)
    await service.identify(request, given.text("api_key", ""))
    wanted = given.text("q")
    if not wanted:
        raise bad_request("Parameter 'q' not specified", "send a text that is not empty")
    if not any(map(str.isalpha, wanted)):  # no language: as in LibreTranslate, some answer, and that it means nothing
        known = service.languages.sources
        return [DetectedLanguage(language="en" if "en" in known else known[0], confidence=0.0)]
    found = await service.workers.short(detect, wanted)
    likely = [own for own in found if own[1] >= _LIKELY] or found[:1]
    return [DetectedLanguage(language=language, confidence=round(100 * share, 1)) for language, share in likely]


@router.head("/health", include_in_schema=False)  # as monitors ask
@router.get("/health", responses={503: {"model": Health, "description": "It does not translate."}})
async def health(request: Request) -> JSONResponse:
    """Does the server translate? Needs no key."""
    alive = service_of(request).batcher.alive
    return JSONResponse({"status": "ok" if alive else "stopping"}, 200 if alive else 503)


def _texts(given: Fields) -> tuple[list[str], bool]:
    """The texts, and whether they came as a list, for then the answer is one too."""
    wanted = given.texts("q")
    if not wanted:
        raise bad_request("Parameter 'q' not specified", "send a text or a list of texts")
    return wanted, given.is_list("q")


def _format(given: Fields) -> str:
    name = given.text("format", "text").lower()
    if name not in _FORMATS:
        raise bad_request("Value for 'format' not supported", f"use one of: {', '.join(_FORMATS)}")
    if name == "html" and given.number("alternatives", 0):
        raise bad_request("Value for 'alternatives' not supported", "HTML has one translation; leave them out")
    return name


def _known(known: Languages, code: str, name: str) -> str:
    language = code.strip().lower().partition("-")[0]
    offered = known.sources if name == "source" else known.targets
    if language not in offered:
        raise bad_request(f"Value for '{name}' not supported", f"use one of: {', '.join(offered)}")
    return language


def _alternatives(given: Fields, beam: int) -> int:
    alternatives = given.number("alternatives", 0)
    if not 0 <= alternatives < beam:
        raise bad_request("Value for 'alternatives' not supported", f"it lies between 0 and {beam - 1}")
    return alternatives


async def _detected(
    service: Service, source: str, wanted: list[str], target: str
) -> list[tuple[str, DetectedLanguage | None]]:
    """The language of each text, and, where it was guessed, how sure that is."""
    known = service.languages
    if source.strip().lower() != "auto":
        return [(_known(known, source, "source"), None)] * len(wanted)

    def guess(text: str) -> tuple[str, DetectedLanguage]:
        language = known.detect_source(text, target)
        share = dict(detect(text)).get(language, 0.0)
        return language, DetectedLanguage(language=language, confidence=round(100 * share, 1))

    return [await service.workers.short(guess, text) for text in wanted]


def _answer(results: list[Translated], detected: list[Any], several: bool, alternatives: int) -> LibreTranslation:
    others = [[other.text for other in result.others] for result in results]
    guesses = [guess for _, guess in detected if guess is not None]
    if several:
        return LibreTranslation(
            translatedText=[result.text for result in results],
            alternatives=others if alternatives else None,
            detectedLanguage=guesses or None,
        )
    return LibreTranslation(
        translatedText=results[0].text,
        alternatives=others[0] if alternatives else None,
        detectedLanguage=guesses[0] if guesses else None,
    )
