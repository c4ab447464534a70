"""Routes whose body is JSON, whatever the client calls it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

_TYPE = b"content-type"


class JsonRoute(APIRoute):
    """Takes a body for JSON: tritonclient does not say what it sends, and ``curl -d`` says that it is a form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See APIRoute."""
        handle = super().get_route_handler()

        async def as_json(request: Request) -> Response:
            headers = [entry for entry in request.scope["headers"] if entry[0] != _TYPE]
            scope = {**request.scope, "headers": [*headers, (_TYPE, b"application/json")]}
            return await handle(Request(scope, request.receive))

        return as_json
