"""Asks the guard before a request is served."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from nnhal_service.access import Guard
from nnhal_service.access.roles import role_for_path
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.http.statuses import response_for
from nnhal_service.v2.shared_memory.connections import peer_name


class GuardMiddleware:
    """Refuses what the guard refuses, before a byte of the body is read."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's request."""
        if scope["type"] == "http":
            try:
                _require_own_page(scope)
                self._guard.admit(role_for_path(scope["path"]), _header(scope, b"authorization"), peer_of(scope))
            except ServingError as error:
                await response_for(error, scope["path"])(scope, receive, send)
                return
        await self._app(scope, receive, send)


def peer_of(scope: Scope) -> str:
    """The peer by gRPC's name."""
    client = scope.get("client")
    return peer_name(client[0], client[1]) if client else "unix:"


def _require_own_page(scope: Scope) -> None:
    """A browser on this host sends what any web page has it send, and says where the page is from.

    Raises PERMISSION_DENIED where that is another server.
    """
    origin, host = _header(scope, b"origin"), _header(scope, b"host")
    if origin and origin.partition("://")[2] != host:
        message = (
            f"a page of {origin[:80]} sent this request, expected one of this server or a client that is no browser"
        )
        raise ServingError(ErrorKind.PERMISSION_DENIED, message)


def _header(scope: Scope, name: bytes) -> str:
    found: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return found.decode("latin-1")
