"""The application of the HTTP server: the protocol's routes behind their middleware."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from nnhal_hosting.whole_requests import WholeRequests
from nnhal_service.v2.http.infer import Inferences, inference_target
from nnhal_service.v2.http.middleware import GuardMiddleware, LastResort, note_refused
from nnhal_service.v2.http.routes import infer, metadata, repository, settings, shared_memory
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.http.statuses import STATUS, handle_errors

_ERROR = {
    "description": "What is wrong.",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
        }
    },
}
_ERRORS: dict[int | str, dict[str, Any]] = dict.fromkeys(sorted({400, 405, 408, *STATUS.values()}), _ERROR)
"""Each status that a route, the router or the connection answers an error with."""


class ProtocolApp:
    """The ASGI application, with what serves inferences that come whole without it."""

    def __init__(self, app: ASGIApp, whole_requests: WholeRequests) -> None:
        self._app = app
        self.whole_requests = whole_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class InferencesFirst:
    """Serves inferences at once, and leaves all else to the application: of a small inference, to find its route there
    would take longer than all the rest.
    """

    def __init__(self, app: ASGIApp, inferences: ASGIApp) -> None:
        self._app = app
        self._inferences = inferences

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_inference = scope["type"] == "http" and scope["method"] == "POST" and inference_target(scope["path"])
        await (self._inferences if is_inference else self._app)(scope, receive, send)


def create_app(services: Services) -> ProtocolApp:
    """The ASGI application. It has no pages of documentation but ``/openapi.json``: those would need the internet."""
    app = FastAPI(
        title="nnhal",
        description="The Open Inference Protocol V2 with Triton's extensions.",
        version=services.server.version,
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
    )
    handle_errors(app, partial(note_refused, services.guard))
    for part in (metadata, infer, repository, shared_memory, settings):
        app.include_router(part.router_for(services))
    inferences = Inferences(services)
    guarded = GuardMiddleware(LastResort(InferencesFirst(app, inferences)), services.guard, services.hosts)
    return ProtocolApp(guarded, inferences)
