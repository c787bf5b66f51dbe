"""The pages at `/` and `/docs`: a few static files inside the package. They hold no secrets, so they need no key."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response

from termweave.server.problems import not_found

router = APIRouter(include_in_schema=False)

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Nothing from elsewhere, nothing written into the page, no page around it.
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # an update of the server is an update of the page
}
_FILES = {
    entry.name: entry.read_bytes()
    for entry in files("termweave.server").joinpath("page").iterdir()
    if entry.name.rpartition(".")[2] in TYPES
}


@router.get("/")
async def index() -> Response:
    return _file("index.html")


@router.get("/docs")
async def reference() -> Response:
    return _file("reference.html")


@router.get("/page/{name}")
async def file(name: str) -> Response:
    return _file(name)


def _file(name: str) -> Response:
    if name not in _FILES:
        raise not_found("File")
    return Response(_FILES[name], media_type=TYPES[name.rpartition(".")[2]], headers=HEADERS)
