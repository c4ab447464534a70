"""What models say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from nnhal_service.serving.signature import TensorDescription
from nnhal_service.v2.http.messages_json import message_to_json
from nnhal_service.v2.http.readiness import NOT_READY, readiness_status
from nnhal_service.v2.http.services import Services


def router_for(services: Services) -> APIRouter:
    """``/v2/models``: metadata, readiness, configuration and statistics, of a version or of the one that is served."""
    router = APIRouter(tags=["models"])
    repository = services.repository

    @router.get("/v2/models/stats")
    def all_statistics() -> dict[str, Any]:
        """The statistics of all models."""
        return {"model_stats": [message_to_json(entry) for entry in repository.statistics("", "")]}

    @router.get("/v2/models/{model}")
    @router.get("/v2/models/{model}/versions/{version}")
    def metadata(model: str, version: str = "") -> dict[str, Any]:
        """The inputs and outputs of a model."""
        found = repository.description(model, version)
        return {
            "name": found.name,
            "versions": list(found.versions),
            "platform": found.platform,
            "inputs": _tensors(found.inputs),
            "outputs": _tensors(found.outputs),
        }

    @router.get("/v2/models/{model}/ready", responses=NOT_READY)
    @router.get("/v2/models/{model}/versions/{version}/ready", responses=NOT_READY)
    def ready(model: str, version: str = "") -> JSONResponse:
        """Whether a model is ready: 200, else 400."""
        is_ready = repository.is_ready(model, version)
        return JSONResponse({"name": model, "ready": is_ready}, readiness_status(is_ready))

    @router.get("/v2/models/{model}/config")
    @router.get("/v2/models/{model}/versions/{version}/config")
    def config(model: str, version: str = "") -> dict[str, Any]:
        """The whole configuration of a model, with what was filled in."""
        return message_to_json(repository.config(model, version))

    @router.get("/v2/models/{model}/stats")
    @router.get("/v2/models/{model}/versions/{version}/stats")
    def statistics(model: str, version: str = "") -> dict[str, Any]:
        """The statistics of a model."""
        return {"model_stats": [message_to_json(entry) for entry in repository.statistics(model, version)]}

    return router


def _tensors(tensors: Iterable[TensorDescription]) -> list[dict[str, Any]]:
    return [
        {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
            **({"parameters": dict(tensor.parameters)} if tensor.parameters else {}),
        }
        for tensor in tensors
    ]
