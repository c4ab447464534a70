"""Errors as HTTP responses: a status, and a JSON object with the message."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from nnhal.exhaustion import lack_of
from nnhal.inference.datatypes import TensorError
from nnhal_hosting.logs import get_logger
from nnhal_service.serving.errors import ErrorKind, ServingError

_log = get_logger(__name__)
_BAD_REQUEST = 400
STATUS = {
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.UNAVAILABLE: 503,
    ErrorKind.UNSUPPORTED: 501,
    ErrorKind.INTERNAL: 500,
    ErrorKind.UNAUTHENTICATED: 401,
    ErrorKind.PERMISSION_DENIED: 403,
    ErrorKind.RESOURCE_EXHAUSTED: 429,
    ErrorKind.CANCELLED: 499,
    ErrorKind.DEADLINE_EXCEEDED: 504,
}
"""All other kinds are a bad request."""
_HEADERS = {
    STATUS[ErrorKind.UNAUTHENTICATED]: {"WWW-Authenticate": "Bearer"},
    STATUS[ErrorKind.UNAVAILABLE]: {"Retry-After": "1"},  # in seconds: models load, devices come back
}
_MAX_CHARACTERS = 2000


def error_response(status: int, message: str) -> Response:
    # JSON may write half of a surrogate pair, which is no character, and messages quote what clients write.
    written = message[:_MAX_CHARACTERS].encode(errors="replace").decode()
    content = orjson.dumps({"error": written})
    return Response(content, status, _HEADERS.get(status), "application/json")


def response_for(error: Exception, path: str) -> Response:
    """The response to an error. An unexpected error is logged, and is 500 without its text."""
    if isinstance(error, ServingError):
        return error_response(STATUS.get(error.kind, _BAD_REQUEST), error.message)
    if isinstance(error, TensorError):
        return error_response(_BAD_REQUEST, str(error))
    lack = lack_of(error)
    if lack:
        _log.warning("a request failed", path=path, reason=lack)
        return error_response(STATUS[ErrorKind.RESOURCE_EXHAUSTED], f"the request failed: {lack}")
    _log.error("a request failed", path=path, exc_info=error)
    return error_response(STATUS[ErrorKind.INTERNAL], "the request failed; the log of the server says why")


def handle_errors(app: FastAPI, note: Callable[[Exception, Scope], object]) -> None:
    """Make an application answer all its errors with such responses. ``note`` is called for each."""

    async def failed(request: Request, error: Exception) -> Response:
        note(error, request.scope)
        return response_for(error, request.url.path)

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            return error_response(_BAD_REQUEST, f"{where}: {first['msg']}")
        if isinstance(error, HTTPException):
            note(ServingError(ErrorKind.UNSUPPORTED, ""), request.scope)
            return error_response(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
        return response_for(error, request.url.path)

    app.add_exception_handler(RequestValidationError, refused)
    app.add_exception_handler(HTTPException, refused)
    for kind in (ServingError, TensorError):
        app.add_exception_handler(kind, failed)
