"""How long what a browser sends may be. Forms are read before it is known whether who sends them may."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_FORM = 1 << 20
"""Bytes of a form without files."""


class BoundedBodies:
    """Reads of a body no more than a form may have, except at paths that ``takes_files``: they see to it themselves."""

    def __init__(self, app: ASGIApp, takes_files: Callable[[str], bool]) -> None:
        self._app = app
        self._takes_files = takes_files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_bounded = scope["type"] == "http" and not self._takes_files(scope["path"])
        await self._app(scope, _bounded(receive) if is_bounded else receive, send)


def _bounded(receive: Receive) -> Receive:
    """Return what receives the same, and raises HTTPException (413) once more has come than a form may have."""
    taken = 0

    async def receive_some() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LONGEST_FORM:
            raise HTTPException(413, f"the form has more than {LONGEST_FORM} bytes, the most that are read of one")
        return message

    return receive_some
