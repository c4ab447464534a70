"""How it is said that something is not ready: by the status, with the same body as otherwise."""

from __future__ import annotations

from typing import Any

_STATUS = 400
NOT_READY: dict[int | str, dict[str, Any]] = {
    _STATUS: {"description": "It is not ready.", "content": {"application/json": {"schema": {"type": "object"}}}}
}
"""For the description of a route."""


def readiness_status(is_ready: bool) -> int:
    """Of an answer."""
    return 200 if is_ready else _STATUS
