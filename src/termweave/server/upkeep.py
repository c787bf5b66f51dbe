"""What keeps a server running well: figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from termweave.server.documentation import problems
from termweave.server.service import service_of

router = APIRouter(tags=["Upkeep"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def metrics(request: Request) -> Response:
    """Figures for Prometheus. A server with keys wants one here too: `Authorization: Bearer …`."""
    service = service_of(request)
    await service.identify(request)
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)
