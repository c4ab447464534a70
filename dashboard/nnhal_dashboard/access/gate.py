"""Gate that every request passes first: who sent it, from which page, for which host, how long it is; headers of
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nnhal_hosting.access import AllowedHosts, LocalUsers, objection_to_page, peer_name

LONGEST_FORM = 1 << 20
"""Bytes of a form without files."""
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Gate:
    """Refuses what a page of another site, or another user of this host, has sent, and adds headers to each answer."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts, users: LocalUsers | None = None) -> None:
        """``users`` are those who need no token; None if that does not depend on the user."""
        self._app = app
        self._hosts = hosts
        self._users = users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _with_headers(message.get("headers", ()))
            await send(message)

        objection = objection_to_page(scope["method"], dict(scope["headers"]), self._hosts)
        if not objection and self._users is not None:
            objection = self._users.objection(peer_name(scope.get("client")))
        if objection:
            await PlainTextResponse(objection + "\n", 403)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)


def _with_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer; pages are not kept by caches, and files that may be say so themselves."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    stored = [] if b"cache-control" in names else [(b"cache-control", b"no-store")]
    return [*given, *_HEADERS, *stored]


class BoundedBodies:
    """Reads of a body no more than a form may have, except at paths that ``takes_files``: they see to it themselves."""

    def __init__(self, app: ASGIApp, takes_files: Callable[[str], bool]) -> None:
        self._app = app
        self._takes_files = takes_files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._takes_files(scope["path"]):
            words = f"the form has more than {LONGEST_FORM} bytes, the most that are read of one"
            receive = bounded(receive, LONGEST_FORM, words)
        await self._app(scope, receive, send)


def bounded(receive: Receive, most: int, words: str) -> Receive:
    """Return what receives the same, and raises HTTPException (413) with these words once more than ``most`` bytes
    have come.
    """
    taken = 0

    async def receive_some() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise HTTPException(413, words)
        return message

    return receive_some
