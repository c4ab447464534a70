"""The metrics over HTTP."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from nnhal_service.observability.metrics import CONTENT_TYPE, Metrics


def metrics_app(metrics: Metrics) -> ASGIApp:
    """An application with ``GET /metrics`` and nothing else. A scrape is made in a thread of its own."""

    def scrape(_: Request) -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    return Starlette(routes=[Route("/metrics", scrape)])
