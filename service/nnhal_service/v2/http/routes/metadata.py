"""The metadata, readiness, configuration and statistics of the server and its models."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from nnhal_service.v2.http.services import Services
from nnhal_service.v2.json_form import config_to_json, metadata_to_json, statistics_to_json

_NOT_READY_STATUS = 400
_NOT_READY: dict[int | str, dict[str, Any]] = {
    _NOT_READY_STATUS: {
        "description": "It is not ready.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}
"""For the description of a route whose body is the same whether something is ready or not."""


def router_for(services: Services) -> APIRouter:
    """``/v2``, ``/v2/health`` and ``/v2/models``."""
    router = APIRouter()
    router.include_router(_server_routes(services))
    router.include_router(_model_routes(services))
    return router


def _server_routes(services: Services) -> APIRouter:
    """``/v2`` and ``/v2/health``."""
    router = APIRouter(tags=["server"])

    @router.get("/v2/health/live")
    def live() -> dict[str, bool]:
        """Return whether the server is alive: it has answered."""
        return {"live": True}

    @router.get("/v2/health/ready", responses=_NOT_READY)
    def ready() -> JSONResponse:
        """Return whether all models that were to be loaded are ready: 200, else 400."""
        is_ready = services.repository.ready()
        return JSONResponse({"ready": is_ready}, _readiness_status(is_ready))

    @router.get("/")
    def welcome() -> dict[str, Any]:
        """Return what answers here, for somebody who has only the address."""
        return {
            "name": services.server.name,
            "is": "a server of models: the Open Inference Protocol V2 (KServe, Triton) over HTTP",
            "paths": ["/v2", "/v2/health/ready", "/v2/models/stats", "/v2/models/MODEL", "/openapi.json"],
        }

    @router.get("/v2")
    def metadata() -> dict[str, Any]:
        """The name and version of the server, and the extensions that it supports."""
        server = services.server
        return {"name": server.name, "version": server.version, "extensions": list(server.extensions)}

    return router


def _model_routes(services: Services) -> APIRouter:
    """``/v2/models``: metadata, readiness, configuration and statistics of the named version, or of the newest."""
    router = APIRouter(tags=["models"])
    repository = services.repository

    @router.get("/v2/models/stats")
    def all_statistics() -> dict[str, Any]:
        """The statistics of all models."""
        return statistics_to_json(repository, "", "")

    @router.get("/v2/models/{model}")
    @router.get("/v2/models/{model}/versions/{version}")
    def metadata(model: str, version: str = "") -> dict[str, Any]:
        """The inputs and outputs of a model."""
        return metadata_to_json(repository.description(model, version))

    @router.get("/v2/models/{model}/ready", responses=_NOT_READY)
    @router.get("/v2/models/{model}/versions/{version}/ready", responses=_NOT_READY)
    def ready(model: str, version: str = "") -> JSONResponse:
        """Return whether a model is ready: 200, else 400."""
        is_ready = repository.is_ready(model, version)
        return JSONResponse({"name": model, "ready": is_ready}, _readiness_status(is_ready))

    @router.get("/v2/models/{model}/config")
    @router.get("/v2/models/{model}/versions/{version}/config")
    def config(model: str, version: str = "") -> dict[str, Any]:
        """The whole configuration of a model, with the values that the server filled in."""
        return config_to_json(repository, model, version)

    @router.get("/v2/models/{model}/stats")
    @router.get("/v2/models/{model}/versions/{version}/stats")
    def statistics(model: str, version: str = "") -> dict[str, Any]:
        """The statistics of a model."""
        return statistics_to_json(repository, model, version)

    return router


def _readiness_status(is_ready: bool) -> int:
    return 200 if is_ready else _NOT_READY_STATUS
