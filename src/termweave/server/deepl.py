"""The part of DeepL's interface that translates: `/v2/translate`, `/v2/languages`, `/v2/usage`.

What a client may send and we do not do is refused in words, if leaving it out would change the translation; what is a
mere preference is taken and has no effect.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from termweave.server.backend import SearchSettings
from termweave.server.bodies import Fields, read_fields
from termweave.server.documentation import body, fields, flag, problems, query, text, texts
from termweave.server.markup import KINDS, markup_of
from termweave.server.problems import Problem, bad_request
from termweave.server.segments import Splitting
from termweave.server.service import UNLIMITED, Service, service_of
from termweave.server.settings import MOST_GLOSSARIES
from termweave.server.translating import Wanted

router = APIRouter(tags=["DeepL-compatible"])

_SPLITTINGS: dict[str, Splitting] = {"0": "none", "1": "lines", "nonewlines": "sentences"}
_NOT_DONE = ("style_id", "custom_instructions", "translation_memory_id", "translation_memory_threshold")
_FLAGS = ("preserve_formatting", "show_billed_characters")  # checked, and without effect
_FORMALITIES = ("default", "prefer_more", "prefer_less")

_TRANSLATE = body(
    fields(
        required=("text", "target_lang"),
        text=texts("Texts to translate.", minItems=1, examples=[["Der Lehrer hat ein Haus gekauft."]]),
        source_lang=text("Language of the texts, such as DE; without it, it is detected."),
        target_lang=text("Language to translate into, such as EN-US or DE.", examples=["EN-US"]),
        glossary_id=text("Glossary whose terms must be used; needs source_lang."),
        glossary_ids=texts(f"Up to {MOST_GLOSSARIES} glossaries, an earlier one before a later one."),
        split_sentences=text("Where texts are split.", enum=list(_SPLITTINGS)),
        preserve_formatting=flag("Taken; formatting is always preserved."),
        formality=text("Preferences are taken and have no effect.", enum=list(_FORMALITIES)),
        tag_handling=text("What the texts hold besides text.", enum=["", *KINDS]),
        ignore_tags=texts("Elements whose content stays as it is."),
        splitting_tags=texts("Tags of XML that no sentence goes across."),
        non_splitting_tags=texts("Tags of XML that are none of those."),
        show_billed_characters=flag("Taken; they are always told."),
    )
)


class DeepLTranslation(BaseModel):
    detected_source_language: str
    text: str
    billed_characters: int


class DeepLTranslations(BaseModel):
    translations: list[DeepLTranslation]


class DeepLLanguage(BaseModel):
    language: str
    name: str
    supports_formality: bool | None = None


class DeepLUsage(BaseModel):
    character_count: int
    character_limit: int = Field(description="A month; a key without a limit is told a very large one.")


@router.post("/v2/translate", openapi_extra=_TRANSLATE, responses=problems(404, 456))
async def translate(request: Request) -> DeepLTranslations:
    """Translate texts, each on its own."""
    service = service_of(request)
    caller = await service.identify(request)
    given = await read_fields(request)
    wanted = given.texts("text")
    if not wanted:
        raise bad_request("Parameter 'text' not specified", "send one text or more")
    refuse_what_is_not_done(given)
    for name in _FLAGS:
        given.flag(name)
    markup = markup_of(given)
    target = service.languages.target(given.text("target_lang"))
    glossaries = glossaries_of(given)
    splitting = _splitting(given)
    sources = await _sources(service, given, wanted, target)
    results: dict[int, DeepLTranslation] = {}
    async with service.accepting(request, caller, wanted):
        for source in dict.fromkeys(sources):  # texts may be in several languages if nobody says which
            direction = service.languages.direction(source, target)
            places = [place for place, own in enumerate(sources) if own == source]
            terms = await service.workers.short(service.terms, glossaries, source, target)
            own = Wanted([wanted[place] for place in places], SearchSettings(direction), terms, splitting)
            if markup is None:
                found = [result.text for result in await service.translate(request, own)]
            else:
                found = await service.translate_markup(request, own, markup)
            for place, result in zip(places, found, strict=True):
                results[place] = DeepLTranslation(
                    detected_source_language=source.upper(), text=result, billed_characters=len(wanted[place])
                )
    return DeepLTranslations(translations=[results[place] for place in range(len(wanted))])


@router.get(
    "/v2/languages",
    openapi_extra={"parameters": [query("type", "Which languages to list.", enum=["source", "target"])]},
    responses=problems(),
    response_model_exclude_none=True,
)
async def languages(request: Request) -> list[DeepLLanguage]:
    """The languages that can be translated from, or into."""
    service = service_of(request)
    await service.identify(request)
    kind = (await read_fields(request)).text("type", "source")
    if kind not in ("source", "target"):
        raise bad_request("Value for 'type' not supported", "use source or target")
    if kind == "source":
        return [DeepLLanguage(language=code, name=name) for code, name in service.languages.deepl_sources()]
    return [
        DeepLLanguage(language=code, name=name, supports_formality=False)
        for code, name in service.languages.deepl_targets()
    ]


@router.get("/v2/usage", responses=problems())
async def usage(request: Request) -> DeepLUsage:
    """How many characters this key has had translated in this month, and how many it may."""
    service = service_of(request)
    caller = await service.identify(request)
    count = await service.workers.short(service.usage.total, caller.id)
    limit = UNLIMITED if caller.character_limit is None else caller.character_limit
    return DeepLUsage(character_count=count, character_limit=limit)


def refuse_what_is_not_done(given: Fields) -> None:
    if given.text("formality", "default").lower() not in _FORMALITIES:
        raise _not_supported("formality", f"the model has one form of address; use one of: {', '.join(_FORMALITIES)}")
    for name in _NOT_DONE:
        if name in given:
            raise _not_supported(name, "this server has nothing of the kind; leave it out")


def _not_supported(name: str, remedy: str) -> Problem:
    return bad_request(f"Parameter '{name}' not supported", remedy)


def _splitting(given: Fields) -> Splitting:
    value = given.text("split_sentences", "1")
    if value not in _SPLITTINGS:
        raise bad_request("Value for 'split_sentences' not supported", f"use one of: {', '.join(_SPLITTINGS)}")
    return _SPLITTINGS[value]


def glossaries_of(given: Fields) -> list[str]:
    """The ids asked for, in order; forms have them in one field, with commas between."""
    single = given.text("glossary_id", "")
    several = [part.strip() for value in given.texts("glossary_ids") for part in value.split(",") if part.strip()]
    if single and several:
        raise bad_request("Parameters 'glossary_id' and 'glossary_ids' exclude each other", "send one of them")
    if len(several) > MOST_GLOSSARIES:
        raise bad_request("Too many glossaries", f"'glossary_ids' takes {MOST_GLOSSARIES} at most")
    if (single or several) and not given.text("source_lang", ""):
        raise bad_request("Parameter 'source_lang' not specified", "it is required where a glossary is used")
    return [single] if single else list(dict.fromkeys(several))


async def _sources(service: Service, given: Fields, wanted: list[str], target: str) -> list[str]:
    """The language of each text."""
    known, code = service.languages, given.text("source_lang", "")
    if code:
        return [known.source(code)] * len(wanted)

    def detect() -> list[str]:
        return [known.detect_source(own, target) for own in wanted]

    return await service.workers.short(detect)
