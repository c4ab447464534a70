"""What every HTTP request passes before its route: the last resort for errors, and the guard."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nnhal_service.access import Guard
from nnhal_service.access.roles import role_for_path
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.http.statuses import response_for
from nnhal_service.v2.shared_memory.peers import peer_name


class GuardMiddleware:
    """Refuses the requests that the guard refuses, before a byte of the body is read."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                _require_own_page(scope)
                self._guard.admit(role_for_path(scope["path"]), _header(scope, b"authorization"), peer_of(scope))
            except ServingError as error:
                await response_for(error, scope["path"])(scope, receive, send)
                return
        await self._app(scope, receive, send)


class LastResort:
    """Answers for an application that has failed before it began its own answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            await response_for(error, scope["path"])(scope, receive, send)


def peer_of(scope: Scope) -> str:
    """The client's address, written as gRPC writes it."""
    client = scope.get("client")
    return peer_name(client[0], client[1]) if client else "unix:"


def _require_own_page(scope: Scope) -> None:
    """Raise PERMISSION_DENIED if a browser sends the request for a page of another server.

    A browser on this host sends what any web page makes it send, and names the page's server as the origin.
    """
    origin, host = _header(scope, b"origin"), _header(scope, b"host")
    if origin and origin.partition("://")[2] != host:
        message = f"a page of {origin[:80]} sent this request, expected a page of this server"
        raise ServingError(ErrorKind.PERMISSION_DENIED, message)


def _header(scope: Scope, name: bytes) -> str:
    found: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return found.decode("latin-1")
