"""The routes of the model repository: its index, loading and unloading."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import BaseModel

from nnhal_service.v2.backend import RepositoryParameter
from nnhal_service.v2.http.json_route import json_route
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.requested import refuse

_FILE = "file:"
_PIECE = 1 << 16
"""The characters of base64 that are decoded at a time, a multiple of four: other threads run between two pieces."""


class IndexRequest(BaseModel):
    """If ``ready``, only the models that are ready."""

    ready: bool = False


class ParametersRequest(BaseModel):
    """``config`` is a configuration as JSON text, ``file:VERSION/NAME`` a file's content in base64;
    ``unload_dependents`` is for unloading.
    """

    parameters: dict[str, Any] = {}


def router_for(services: Services) -> APIRouter:
    """``/v2/repository``."""
    router = APIRouter(tags=["repository"], route_class=json_route(services))

    @router.post("/v2/repository/index")
    def index(request: Annotated[IndexRequest | None, Body()] = None) -> list[dict[str, str]]:
        """All models of the repository, or those that are ready."""
        entries = services.repository.index(bool(request and request.ready))
        return [
            {"name": e.name, **({"version": e.version} if e.version else {}), "state": e.state, "reason": e.reason}
            for e in entries
        ]

    @router.post("/v2/repository/models/{model}/load")
    def load(model: str, request: Annotated[ParametersRequest | None, Body()] = None) -> dict[str, str]:
        """Load a model, or load it again; answers when it is ready."""
        services.repository.load(model, _load_parameters(request.parameters if request else {}))
        return {}

    @router.post("/v2/repository/models/{model}/unload")
    def unload(model: str, request: Annotated[ParametersRequest | None, Body()] = None) -> dict[str, str]:
        """Unload a model; the inferences that run end first."""
        dependents = False
        for key, value in (request.parameters if request else {}).items():
            if key != "unload_dependents" or not isinstance(value, bool):
                raise refuse(
                    f"parameter '{key}' of unloading is {str(value)[:40]!r}, expected unload_dependents: a boolean"
                )
            dependents = value
        services.repository.unload(model, dependents)
        return {}

    return router


def _load_parameters(given: Mapping[str, Any]) -> dict[str, RepositoryParameter]:
    parameters: dict[str, RepositoryParameter] = {}
    for key, value in given.items():
        if key != "config" and not key.startswith(_FILE):
            raise refuse(f"parameter '{key}' of loading is unknown, expected config or file:<path>")
        if not isinstance(value, str):
            raise refuse(f"parameter '{key}' of loading is {str(value)[:40]!r}, expected a string")
        parameters[key] = value if key == "config" else _decoded(key, value)
    return parameters


def _decoded(key: str, value: str) -> bytes:
    try:
        pieces = [value[start : start + _PIECE] for start in range(0, len(value), _PIECE)]
        return b"".join([base64.b64decode(piece, validate=True) for piece in pieces])
    except (binascii.Error, ValueError) as error:
        raise refuse(f"parameter '{key}' of loading is not base64: {error}") from error
