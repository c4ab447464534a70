"""The route that runs models: the body is read in the loop, and the model runs in a worker's thread."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from fastapi import APIRouter, Request, Response

from nnhal_service.observability import TRACEPARENT, RequestScope
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.v2.http.body import compressed, read_body
from nnhal_service.v2.http.decode import decode_body, decode_raw
from nnhal_service.v2.http.encode import encode
from nnhal_service.v2.http.middleware import peer_of
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.http.statuses import response_for
from nnhal_service.v2.requested import Caller, refuse

_JSON_SIZE = "Inference-Header-Content-Length"
_LEAST_COMPRESSED = 1024
"""The bytes from which on a response is compressed."""
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
        arrived_ns = time.monotonic_ns()
        cancellation = Cancellation()
        with services.budget.charge() as charge:
            body = await read_body(request, services.max_bytes, charge)
            watch = asyncio.create_task(_cancel_when_gone(request, cancellation))
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(
                    services.workers, _answer, services, request, model, version, body, cancellation, arrived_ns
                )
            except asyncio.CancelledError:
                cancellation.cancel()
                raise
            finally:
                watch.cancel()

    return router


async def _cancel_when_gone(request: Request, cancellation: Cancellation) -> None:
    """Cancel when the connection ends, which is the next message after the whole body."""
    with contextlib.suppress(asyncio.CancelledError):
        while (await request.receive())["type"] != "http.disconnect":
            pass
        cancellation.cancel()


def _answer(
    services: Services,
    request: Request,
    name: str,
    version: str,
    body: bytes | bytearray,
    cancellation: Cancellation,
    arrived_ns: int,
) -> Response:
    with RequestScope(request.headers.get(TRACEPARENT, "")) as scope:
        scope.name(name, "")
        try:
            return _run(services, request, name, version, body, cancellation, arrived_ns, scope)
        except Exception as error:  # caught within the scope, so that the log names the request
            return response_for(error, request.url.path)


def _run(
    services: Services,
    request: Request,
    name: str,
    version: str,
    body: bytes | bytearray,
    cancellation: Cancellation,
    arrived_ns: int,
    scope: RequestScope,
) -> Response:
    json_size, caller = _json_size(request), Caller(peer_of(request.scope), services.memory)
    with services.repository.model(name, version) as lease:
        model = lease.model
        if json_size == 0:
            decoded = decode_raw(body, model, name, cancellation, arrived_ns)
        else:
            decoded = decode_body(body, json_size, name, caller, cancellation, arrived_ns)
        scope.name(name, decoded.request.id)
        with model.infer(decoded.request) as response:
            content, header_size = encode(decoded, response, model, caller)
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
    """Whether to compress a response.

    Libraries accept several encodings by default; a client that names a single one wants it, for binary tensors too.
    """
    return len(content) >= _LEAST_COMPRESSED and (not binary or "," not in accepted)


def _json_size(request: Request) -> int | None:
    text = request.headers.get(_JSON_SIZE)
    if text is None:
        return None
    if not text.isdecimal():
        raise refuse(f"{_JSON_SIZE} is {text[:40]!r}, expected a number of bytes")
    return int(text)
