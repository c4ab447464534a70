"""Running models."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from fastapi import APIRouter, Request, Response

from nnhal_service.observability import TRACEPARENT, RequestScope
from nnhal_service.runtime.cancellation import Cancellation
from nnhal_service.v2.http.access import peer_of
from nnhal_service.v2.http.body import compressed, read_body
from nnhal_service.v2.http.inference_request import Origin, call_from_body, call_from_raw
from nnhal_service.v2.http.inference_response import answer_to
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.http.statuses import response_for
from nnhal_service.v2.tensors import refuse

_JSON_SIZE = "Inference-Header-Content-Length"
_LEAST_COMPRESSED = 1024
"""Bytes."""
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
            "name": _JSON_SIZE,
            "in": "header",
            "required": False,
            "description": "How many bytes of the body are JSON; the rest are binary tensors. 0 for one raw tensor.",
            "schema": {"type": "integer", "minimum": 0},
        }
    ],
}


def router_for(services: Services) -> APIRouter:
    """``/v2/models/…/infer``."""
    router = APIRouter(tags=["inference"])

    @router.post("/v2/models/{model}/infer", openapi_extra=_DESCRIPTION)
    @router.post("/v2/models/{model}/versions/{version}/infer", openapi_extra=_DESCRIPTION)
    async def infer(request: Request, model: str, version: str = "") -> Response:
        """Run a model once."""
        cancellation = Cancellation()
        origin = Origin(peer_of(request.scope), services.memory, cancellation, time.monotonic_ns())
        with services.budget.charge() as charge:
            body = await read_body(request, services.max_bytes, charge)
            watch = asyncio.create_task(_cancel_when_gone(request, cancellation))
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(
                    services.workers, _answer, services, request, model, version, body, origin
                )
            except asyncio.CancelledError:
                cancellation.cancel()
                raise
            finally:
                watch.cancel()

    return router


async def _cancel_when_gone(request: Request, cancellation: Cancellation) -> None:
    """The body has been read: what comes next is the end of the connection."""
    with contextlib.suppress(asyncio.CancelledError):
        while (await request.receive())["type"] != "http.disconnect":
            pass
        cancellation.cancel()


def _answer(
    services: Services, request: Request, name: str, version: str, body: bytes | bytearray, origin: Origin
) -> Response:
    with RequestScope(request.headers.get(TRACEPARENT, "")) as scope:
        scope.name(name, "")
        try:
            return _run(services, request, name, version, body, origin, scope)
        except Exception as error:  # here, where the log knows which request it is
            return response_for(error, request.url.path)


def _run(
    services: Services,
    request: Request,
    name: str,
    version: str,
    body: bytes | bytearray,
    origin: Origin,
    scope: RequestScope,
) -> Response:
    json_size = _json_size(request)
    with services.repository.model(name, version) as model:
        if json_size == 0:
            call = call_from_raw(body, model, name, origin)
        else:
            call = call_from_body(body, json_size, name, origin)
        scope.name(name, call.request.id)
        with model.infer(call.request) as response:
            content, header_size = answer_to(call, response, model, origin)
    headers = {}
    if header_size is not None:
        headers[_JSON_SIZE] = str(header_size)
    accepted = request.headers.get("accept-encoding", "")
    if _is_worth_it(accepted, content, header_size is not None):
        content, encoding = compressed(content, accepted)
        if encoding:
            headers["Content-Encoding"] = encoding
    media_type = "application/json" if header_size is None else "application/octet-stream"
    return Response(content, 200, headers, media_type)


def _is_worth_it(accepted: str, content: bytes, binary: bool) -> bool:
    """Libraries accept several encodings whatever they ask for; a client that names one means it, for tensors too."""
    return len(content) >= _LEAST_COMPRESSED and (not binary or "," not in accepted)


def _json_size(request: Request) -> int | None:
    text = request.headers.get(_JSON_SIZE)
    if text is None:
        return None
    if not text.isdecimal():
        raise refuse(f"{_JSON_SIZE} is {text[:40]!r}, expected a number of bytes")
    return int(text)
