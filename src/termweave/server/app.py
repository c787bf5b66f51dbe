"""The application: all routes, how errors are answered, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import Scope

from termweave import __version__
from termweave.errors import StoreError, TermweaveError
from termweave.server import (
    deepl,
    deepl_documents,
    deepl_glossaries,
    libretranslate,
    own,
    own_documents,
    own_glossaries,
    own_inspection,
    upkeep,
    web_page,
)
from termweave.server.backend import Backend
from termweave.server.documentation import SCHEMAS, SUCCESSES
from termweave.server.observation import BodyLimit, Observed, log
from termweave.server.problems import Problem, full_disk
from termweave.server.service import Service
from termweave.server.settings import Settings

_MODULES = (
    deepl,
    deepl_documents,
    deepl_glossaries,
    libretranslate,
    own,
    own_documents,
    own_glossaries,
    own_inspection,
    upkeep,
    web_page,
)
CLIENT_LEFT = 499  # nobody reads it; it stands in the log


def create_app(backend: Backend, store: str | Path, settings: Settings | None = None) -> FastAPI:
    """A server for a translator, with its glossaries and keys in `store`, a file or the address of a database."""
    settings = settings or Settings()
    service = Service(backend, store, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="Termweave",
        version=__version__,
        summary="Translation that keeps to a glossary.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere; ours is in web_page
        redoc_url=None,
    )
    app.state.service = service
    for module in _MODULES:
        app.include_router(module.router)
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    # The limits for files are ones on what is stored; in JSON and forms, quotes and escapes come on top.
    largest = max(settings.limits.glossary_bytes, settings.limits.document_bytes)
    app.add_middleware(
        BodyLimit,
        most=settings.limits.body_bytes,
        most_of_files=2 * largest,
        seconds=settings.limits.body_seconds,
    )
    app.add_middleware(Observed, metrics=service.metrics, routes=_routes)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _answer(request: Request, problem: Problem) -> Response:
    body = {"error": problem.sentence} if libretranslate.is_path(request.url.path) else problem.body
    return JSONResponse(body, problem.status, problem.headers)


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _answer(request, error)


async def _on_store(request: Request, error: Exception) -> Response:
    log.error("store", extra={"fields": {"error": str(error)}})
    return _answer(request, Problem(503, "The store is not available", "The log of the server has more.", 10))


async def _on_system(request: Request, error: Exception) -> Response:
    problem = full_disk(error)
    if problem is None:
        raise error
    log.error("disk", extra={"fields": {"error": type(error).__name__}})
    return _answer(request, problem)


async def _on_mistake(request: Request, error: Exception) -> Response:
    """What the translator refuses, such as terms that contradict each other."""
    return _answer(request, Problem(400, "The request cannot be fulfilled", str(error)))


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    return _answer(request, Problem(400, "The request is not valid", f"{place}: {first['msg']}"))


async def _on_http(request: Request, error: Exception) -> Response:
    """Routes and methods that do not exist."""
    assert isinstance(error, HTTPException)
    response = _answer(request, Problem(error.status_code, str(error.detail), "See /docs for what there is."))
    if error.status_code == 405:
        response.headers["Allow"] = ", ".join(_methods(request))
    return response


def _methods(request: Request) -> list[str]:
    """What the path of a request takes; the router knows of the first route only."""
    return sorted({method for route in _routes(request.scope) for method in route.methods or ()})


def _routes(scope: Scope) -> Iterator[APIRoute]:
    """Those of the path of a request, whatever its method."""
    for module in _MODULES:
        for route in module.router.routes:
            if isinstance(route, APIRoute) and route.matches(scope)[0] is not Match.NONE:
                yield route


async def _on_leaving(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_LEFT)


_HANDLERS: dict[type[Exception], Any] = {
    Problem: _on_problem,
    StoreError: _on_store,
    OSError: _on_system,
    TermweaveError: _on_mistake,
    RequestValidationError: _on_invalid,
    HTTPException: _on_http,
    ClientDisconnect: _on_leaving,
}


def _openapi(app: FastAPI) -> dict[str, Any]:
    """As FastAPI makes it, but what it says about 422 is answered as 400 here, and successes are told in our words."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        for operations in document["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
                for status, response in operation["responses"].items():
                    response["description"] = SUCCESSES.get(status, response["description"])
        schemas = document["components"]["schemas"]
        schemas.update(SCHEMAS)
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        app.openapi_schema = document
    return app.openapi_schema
