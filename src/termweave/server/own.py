"""Termweave's own interface: `/v1/translate` tells what became of every term."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, cast

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from termweave.constraints.glossary import CaseRule, GlossaryEntry, Policy
from termweave.decoding.terminology import Status
from termweave.server.backend import SearchSettings
from termweave.server.bodies import read_body, read_json
from termweave.server.documentation import model_body, problems
from termweave.server.languages import Languages
from termweave.server.problems import Problem, bad_request
from termweave.server.segments import Splitting
from termweave.server.service import Service, service_of
from termweave.server.settings import MOST_GLOSSARIES
from termweave.server.translating import Translated, Wanted

router = APIRouter(tags=["Termweave"])

Body = TypeVar("Body", bound=BaseModel)
Characters = tuple[int, int]


class Term(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    source: str = Field(description="As whole words. Only what is forbidden everywhere has none.")
    target: str | None = Field(None, description="What it becomes, or what must not be used; a term to keep has none.")
    alternatives: list[str] = Field([], description="Other targets that will do as well.")
    policy: Policy = Field(
        "must", description="must: use a target; prefer: if it suits; keep: do not translate; forbid: use no target."
    )
    case: CaseRule = Field(
        "carry", description="carry: any letter case, which is carried over; fixed: any; exact: only as written."
    )


class TranslateBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    texts: list[str] = Field(min_length=1, examples=[["Der Lehrer hat ein Haus gekauft."]])
    source: str | None = Field(None, description="Language of the texts, such as de; without it, it is detected.")
    target: str = Field(description="Language to translate into, such as en.", examples=["en"])
    terms: list[Term] = Field(
        [],
        description="Terms for this request; they come before those of glossaries.",
        examples=[[{"source": "Haus", "target": "building"}]],
    )
    glossaries: list[str] = Field(
        [], max_length=MOST_GLOSSARIES, description="Ids; an earlier one comes before a later one."
    )
    forbidden: list[str] = Field([], max_length=100, description="Phrases that must stand in no translation.")
    search: Literal["vdba", "beam"] = Field("vdba", description="vdba guarantees terms, beam leaves them to the model.")
    beam: int = Field(4, ge=1)
    nbest: int = Field(1, ge=1, description="So many translations of each text, the further ones in `others`.")
    ordered: bool = Field(False, description="Terms must come in the order of the source.")
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0
    probabilities: bool = Field(False, description="Receipts with probabilities; costs one more pass of the model.")
    splitting: Splitting = Field("lines", description="Where texts are split: nowhere, at sentences, at lines too.")


class TermReceipt(BaseModel):
    source: str = Field(description="The term as it stands in the text.")
    target: str = Field(description="What was preferred, or what was forbidden.")
    found: str | None = Field(description="What stands in the translation.")
    policy: Policy
    status: Status = Field(description="Of what is forbidden: met if it does not occur.")
    source_span: Characters
    target_span: Characters | None
    reason: str = Field(description="Of a conflict.")
    probability: float | None = Field(description="The model's own, of what was found, if it was asked for.")


class SentencePair(BaseModel):
    source_span: Characters
    target_span: Characters


class OtherTranslation(BaseModel):
    text: str
    score: float = Field(description="log P divided by length (at most the usual one), the mean over sentences.")
    receipts: list[TermReceipt]
    sentences: list[SentencePair] = Field(description="Where each sentence stands, and its translation.")


class TextTranslation(OtherTranslation):
    source: str = Field(description="Language of the text, given or detected.")
    others: list[OtherTranslation]


class TranslateAnswer(BaseModel):
    translations: list[TextTranslation]


@router.post("/v1/translate", openapi_extra=model_body(TranslateBody), responses=problems(404, 456))
async def translate(request: Request) -> TranslateAnswer:
    """Translate texts with terms, and tell what became of each of them."""
    service = service_of(request)
    caller = await service.identify(request)
    given = parse(TranslateBody, await read_body(request))
    _check_limits(given, service)
    target = service.languages.target(given.target)
    first = [entry_of(term) for term in given.terms]
    sources = await service.workers.short(_sources, service.languages, given, target)
    results: dict[int, TextTranslation] = {}
    async with service.accepting(request, caller, given.texts):
        for source in dict.fromkeys(sources):
            places = [place for place, own in enumerate(sources) if own == source]
            settings = _settings(given, service.languages.direction(source, target))
            terms = await service.workers.short(service.terms, given.glossaries, source, target, first)
            wanted = Wanted([given.texts[place] for place in places], settings, terms, given.splitting)
            for place, result in zip(places, await service.translate(request, wanted), strict=True):
                results[place] = _answer(result, source)
    return TranslateAnswer(translations=[results[place] for place in range(len(given.texts))])


def parse(model: type[Body], body: bytes) -> Body:
    """A JSON body, or a problem that names the field."""
    try:
        return model.model_validate(read_json(body))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise bad_request("The request is not valid", f"{place}: {first['msg']}") from None


def _check_limits(given: TranslateBody, service: Service) -> None:
    if given.beam > service.limits.beam:
        raise bad_request("The request is not valid", f"beam: at most {service.limits.beam}")
    if len(given.terms) > service.limits.terms:
        raise Problem(413, "Too many terms", f"at most {service.limits.terms} fit into one request; make a glossary")


def _sources(known: Languages, given: TranslateBody, target: str) -> list[str]:
    if given.source is not None:
        return [known.source(given.source)] * len(given.texts)
    return [known.detect_source(text, target) for text in given.texts]


def _settings(given: TranslateBody, direction: str) -> SearchSettings:
    return SearchSettings(
        direction,
        given.search,
        given.beam,
        given.nbest,
        given.ordered,
        tuple(given.forbidden),
        given.length_penalty,
        given.probabilities,
    )


def entry_of(term: Term) -> GlossaryEntry:
    targets = ([] if term.target is None else [term.target]) + term.alternatives
    return GlossaryEntry(term.source, tuple(targets), term.policy, term.case)


def _answer(translated: Translated, source: str) -> TextTranslation:
    others = [OtherTranslation(**_fields(other)) for other in translated.others]
    return TextTranslation(**_fields(translated), source=source, others=others)


def _fields(translated: Translated) -> dict[str, Any]:
    """What a translation and another one have in common."""
    pairs = [SentencePair(source_span=here, target_span=there) for here, there in translated.sentences]
    return {
        "text": translated.text,
        "score": round(translated.score, 4),
        "receipts": _receipts(translated),
        "sentences": pairs,
    }


def _receipts(translated: Translated) -> list[TermReceipt]:
    return [
        TermReceipt(
            source=receipt.source,
            target=receipt.target,
            found=receipt.found,
            policy=cast(Policy, receipt.policy),
            status=receipt.status,
            source_span=receipt.source_span,
            target_span=receipt.target_span,
            reason=receipt.reason,
            probability=None if receipt.probability is None else round(receipt.probability, 4),
        )
        for receipt in translated.receipts
    ]
