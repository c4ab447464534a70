"""Middleware that every HTTP request passes before its route: the last resort for errors, and the guard."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nnhal_hosting.access import AllowedHosts, objection_to_page, peer_name
from nnhal_service.access import Guard
from nnhal_service.access.roles import role_for_request
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.http.body import headers_of
from nnhal_service.v2.http.statuses import response_for


class GuardMiddleware:
    """Refuses the requests that the guard refuses, before a byte of the body is read."""

    def __init__(self, app: ASGIApp, guard: Guard, hosts: AllowedHosts) -> None:
        """``hosts`` are the names under which the server may be addressed."""
        self._app = app
        self._guard = guard
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            method, path, headers = scope["method"], scope["path"], headers_of(scope)
            try:
                objection = objection_to_page(method, headers, self._hosts)
                if objection:
                    raise ServingError(ErrorKind.PERMISSION_DENIED, objection)
                authorization = headers.get(b"authorization", b"").decode("latin-1")
                self._guard.admit(role_for_request(method, path), authorization, peer_of(scope))
            except ServingError as error:
                note_refused(self._guard, error, scope)
                await response_for(error, path)(scope, receive, send)
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


def note_refused(guard: Guard, error: Exception, scope: Scope) -> None:
    """Count a request that is refused."""
    guard.note_refused(error, headers_of(scope).get(b"authorization", b"").decode("latin-1"), peer_of(scope))


def peer_of(scope: Scope) -> str:
    """The client's address, written as gRPC writes it."""
    return peer_name(scope.get("client"))
