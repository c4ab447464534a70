"""The page of an error: what was got, what was expected, and where to go on."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from nnhal_dashboard.web.request_state import show_page


def error_page(request: Request, status: int, message: str) -> Response:
    """Answer with an error as a page; as plain text if the request was not for a page."""
    if not hasattr(request.state, "visitor") or "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(message + "\n", status)
    return show_page(request, "error.html", {"message": message}, HTTPStatus(status).phrase, status)
