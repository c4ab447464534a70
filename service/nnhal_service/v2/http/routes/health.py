"""Whether the server lives and is ready, and what it is."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from nnhal_service.v2.http.readiness import NOT_READY, readiness_status
from nnhal_service.v2.http.services import Services


def router_for(services: Services) -> APIRouter:
    """``/v2`` and ``/v2/health``."""
    router = APIRouter(tags=["server"])

    @router.get("/v2/health/live")
    def live() -> dict[str, bool]:
        """Whether the server lives: it has answered."""
        return {"live": True}

    @router.get("/v2/health/ready", responses=NOT_READY)
    def ready() -> JSONResponse:
        """Whether what was to be served is ready: 200, else 400."""
        is_ready = services.repository.ready()
        return JSONResponse({"ready": is_ready}, readiness_status(is_ready))

    @router.get("/v2")
    def metadata() -> dict[str, Any]:
        """What the server is, and the extensions that it honours."""
        server = services.server
        return {"name": server.name, "version": server.version, "extensions": list(server.extensions)}

    return router
