"""The metadata, readiness, configuration and statistics of the server and its models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from google.protobuf.message import Message

from nnhal_service.serving.signature import TensorDescription
from nnhal_service.v2.http.services import Services

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
        """Whether the server is alive: it has answered."""
        return {"live": True}

    @router.get("/v2/health/ready", responses=_NOT_READY)
    def ready() -> JSONResponse:
        """Whether all models that were to be loaded are ready: 200, else 400."""
        is_ready = services.repository.ready()
        return JSONResponse({"ready": is_ready}, _readiness_status(is_ready))

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

    @router.get("/v2/models/{model}/ready", responses=_NOT_READY)
    @router.get("/v2/models/{model}/versions/{version}/ready", responses=_NOT_READY)
    def ready(model: str, version: str = "") -> JSONResponse:
        """Whether a model is ready: 200, else 400."""
        is_ready = repository.is_ready(model, version)
        return JSONResponse({"name": model, "ready": is_ready}, _readiness_status(is_ready))

    @router.get("/v2/models/{model}/config")
    @router.get("/v2/models/{model}/versions/{version}/config")
    def config(model: str, version: str = "") -> dict[str, Any]:
        """The whole configuration of a model, with the values that the server filled in."""
        return message_to_json(repository.config(model, version))

    @router.get("/v2/models/{model}/stats")
    @router.get("/v2/models/{model}/versions/{version}/stats")
    def statistics(model: str, version: str = "") -> dict[str, Any]:
        """The statistics of a model."""
        return {"model_stats": [message_to_json(entry) for entry in repository.statistics(model, version)]}

    return router


def _readiness_status(is_ready: bool) -> int:
    return 200 if is_ready else _NOT_READY_STATUS


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


def message_to_json(message: Message) -> dict[str, Any]:
    """A message as a JSON object in Triton's form: proto field names, all fields, and integers as numbers.

    Messages within it that are not set are left out.
    """
    return {
        field.name: _field(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


# A field is a descriptor, which is of one of two classes.
def _field(field: Any, value: Any) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        of = entry.fields_by_name["value"]
        return {str(key): _value(of, value[key]) for key in value}
    if field.is_repeated:
        return [_value(field, item) for item in value]
    return _value(field, value)


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return message_to_json(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return value.decode("latin-1") if isinstance(value, bytes) else value
