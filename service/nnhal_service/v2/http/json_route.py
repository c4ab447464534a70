"""Routes whose body is JSON. It is read, limited and charged like those of inferences, and parsed beside the loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Scope

from nnhal_service.v2.http.body import headers_of, read_body
from nnhal_service.v2.http.json_cut import parsed_json, require_simple
from nnhal_service.v2.http.services import Services

_CONTENT_TYPE = b"content-type"
_MOST_MEMBERS = 1 << 12
"""The lists, objects and members of a body: as many as the parameters of loading, or settings, may be."""
_MOST_IN_LOOP = 1 << 12
_MEMORY_OF_STRINGS = 7, 4
"""The memory for so many bytes of a body: its strings, and the files in base64 that they are."""


class _ParsedRequest(Request):
    """A request whose body has been parsed."""

    def __init__(self, scope: Scope, body: bytes | bytearray, parsed: object) -> None:
        super().__init__(scope)
        self._given = body
        self._parsed = parsed

    async def body(self) -> bytes:
        return b" " if self._given else b""  # FastAPI asks only whether there is one

    async def json(self) -> Any:
        return self._parsed


def json_route(services: Services) -> type[APIRoute]:
    class JsonRoute(APIRoute):
        """Takes any body for JSON: tritonclient sends no content type, and ``curl -d`` sends that of a form."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def as_json(request: Request) -> Response:
                headers = [entry for entry in request.scope["headers"] if entry[0] != _CONTENT_TYPE]
                scope = {**request.scope, "headers": [*headers, (_CONTENT_TYPE, b"application/json")]}
                with services.budget.charge() as charge:
                    own = headers_of(request.scope)
                    body = await read_body(request.receive, own, services.max_bytes, charge, services.loop)
                    memory, of_bytes = _MEMORY_OF_STRINGS
                    charge.copy(len(body) * memory // of_bytes)
                    slowly = len(body) > _MOST_IN_LOOP
                    parsed = await services.loop.compute(_parsed, body) if slowly else _parsed(body)
                    return await handle(_ParsedRequest(scope, body, parsed))

            return as_json

    return JsonRoute


def _parsed(body: bytes | bytearray) -> object:
    """Raises TensorError or ServingError."""
    if not body:
        return None
    require_simple(memoryview(body), _MOST_MEMBERS)
    return parsed_json(body, "the body is not JSON")
