"""What the model looked at while it translated a sentence, by our own interface: a picture for the curious."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from termweave.constraints.constraint import Constraint
from termweave.decoding.marked import LAYER
from termweave.decoding.translator import InspectedOutput
from termweave.server.bodies import read_body
from termweave.server.documentation import model_body, problems
from termweave.server.own import parse
from termweave.server.problems import Problem
from termweave.server.service import service_of

router = APIRouter(tags=["Termweave"])


class TermPair(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    source: str
    target: str


class InspectBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(description="One sentence.", examples=["Das Haus"])
    translation: str = Field(description="Its translation, by this server or anyone.", examples=["the building"])
    source: str = Field(description="Language of the text, such as de.", examples=["de"])
    target: str = Field(description="Language of the translation, such as en.", examples=["en"])
    terms: list[TermPair] = Field([], max_length=40, description="Those the model is told.")


class InspectAnswer(BaseModel):
    source_pieces: list[str] = Field(description="Subwords of the text, with the marks the model adds.")
    term_pieces: list[str] = Field(description="Those of the terms' sources, one after the other.")
    output_pieces: list[str]
    attention: list[list[float]] = Field(
        description="A row for each output piece, a column for each source piece and then each term piece. Means over "
        "the heads of the last decoder layer but one, which shows best what is being translated."
    )
    gates: list[float] = Field(description="How far the gate to the terms was open for each output piece.")


@router.post("/v1/inspect", openapi_extra=model_body(InspectBody), responses=problems())
async def inspect(request: Request) -> InspectAnswer:
    """Where the model looks while it produces a translation: at the sentence and at the terms."""
    service = service_of(request)
    await service.identify(request)
    given = parse(InspectBody, await read_body(request))
    source, target = service.languages.pair(given.source, given.target)
    constraints = [Constraint(term.source, term.target) for term in given.terms]
    longest = service.backend.longest

    def look() -> InspectAnswer:
        if max(service.backend.count_tokens(text) for text in (given.text, given.translation)) > longest:
            raise Problem(413, "The sentence is too long", f"at most {longest} subwords are inspected at once")
        return _answer(service.backend.inspect(given.text, given.translation, constraints, f"{source}-{target}"))

    return await service.workers.inspecting(look)


def _answer(seen: InspectedOutput) -> InspectAnswer:
    layer = max(LAYER, -len(seen.source))
    rows = zip(seen.source[layer].mean(dim=0).tolist(), seen.constraints[layer].mean(dim=0).tolist(), strict=True)
    return InspectAnswer(
        source_pieces=list(seen.source_pieces),
        term_pieces=list(seen.constraint_pieces),
        output_pieces=list(seen.output_pieces),
        attention=[[round(weight, 4) for weight in (*source, *terms)] for source, terms in rows],
        gates=[round(gate, 4) for gate in seen.gates.tolist()],
    )
