"""Routes whose body is JSON, whatever the client calls it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message

from nnhal_service.v2.http.body import read_body
from nnhal_service.v2.http.services import Services

_TYPE = b"content-type"


def json_route(services: Services) -> type[APIRoute]:
    """The kind of route. Bodies are read, limited and charged as those of inferences are."""

    class JsonRoute(APIRoute):
        """Takes a body for JSON: tritonclient does not say what it sends, and ``curl -d`` says that it is a form."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """See APIRoute."""
            handle = super().get_route_handler()

            async def as_json(request: Request) -> Response:
                headers = [entry for entry in request.scope["headers"] if entry[0] != _TYPE]
                scope = {**request.scope, "headers": [*headers, (_TYPE, b"application/json")]}
                with services.budget.charge() as charge:
                    body = await read_body(request, services.max_bytes, charge)
                    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

                    async def receive() -> Message:
                        return messages.pop() if messages else await request.receive()

                    return await handle(Request(scope, receive))

            return as_json

    return JsonRoute
