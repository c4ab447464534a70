"""Files that browsers upload, up to a limit."""

from __future__ import annotations

from fastapi import HTTPException, Request
from starlette.types import Message

from nnhal_pages.units import size

_FORM_BYTES = 64 * 1024
"""What a form has besides its files, at most."""


def limited(request: Request, limit: int) -> Request:
    """Return the request, which raises HTTPException (413) once more than ``limit`` bytes of files have come."""
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        message = await request.receive()
        taken += len(message.get("body", b""))
        if taken > limit + _FORM_BYTES:
            raise HTTPException(413, f"the files have more than {size(limit)}, the most that may be uploaded")
        return message

    return Request(request.scope, receive)
