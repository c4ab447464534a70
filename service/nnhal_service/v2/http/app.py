"""The application: the routes of the protocol, and what is in front of them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from nnhal_service.v2.http.access import GuardMiddleware
from nnhal_service.v2.http.routes import health, inference, models, repository, settings, shared_memory
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.http.statuses import say_errors

_ERROR = {
    "description": "What is wrong.",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
        }
    },
}
_ERRORS: dict[int | str, dict[str, Any]] = dict.fromkeys((400, 401, 403, 404, 405, 429, 500, 501, 503), _ERROR)


def create_app(services: Services) -> FastAPI:
    """The front over HTTP. The pages about it need no network: they are the description itself."""
    app = FastAPI(
        title="nnhal",
        description="The Open Inference Protocol V2 with Triton's extensions.",
        version=services.server.version,
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
    )
    say_errors(app)
    for router in (
        health.router_for(services),
        models.router_for(services),
        inference.router_for(services),
        repository.router_for(services),
        shared_memory.router_for(services),
        settings.router_for(services),
    ):
        app.include_router(router)
    app.add_middleware(GuardMiddleware, guard=services.guard)
    return app
