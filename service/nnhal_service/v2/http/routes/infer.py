"""The description of the route that runs models, which ``infer`` serves."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

from nnhal_service.v2.http.infer import JSON_SIZE, Inferences
from nnhal_service.v2.http.services import Services

_TENSOR = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "datatype": {"type": "string"},
        "parameters": {"type": "object"},
        "data": {},
    },
    "required": ["name", "shape", "datatype"],
}
_REQUEST = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "parameters": {"type": "object"},
        "inputs": {"type": "array", "items": _TENSOR},
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}},
                "required": ["name"],
            },
        },
    },
    "required": ["inputs"],
}
_DESCRIPTION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _REQUEST},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    },
    "parameters": [
        {
            "name": JSON_SIZE,
            "in": "header",
            "required": False,
            "description": "How many bytes of the body are JSON; the rest are binary tensors. 0 for one raw tensor.",
            "schema": {"type": "integer", "minimum": 0},
        }
    ],
}


def router_for(services: Services) -> APIRouter:
    """``/v2/models/…/infer``."""
    inferences = Inferences(services)

    class InferRoute(APIRoute):
        """A route of FastAPI for its description only: the application is plain ASGI."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.app = inferences

    router = APIRouter(tags=["inference"], route_class=InferRoute)

    @router.post("/v2/models/{model}/infer", openapi_extra=_DESCRIPTION)
    @router.post("/v2/models/{model}/versions/{version}/infer", openapi_extra=_DESCRIPTION)
    def infer(model: str, version: str = "") -> None:
        """Run a model once."""

    return router
