"""Errors as gRPC statuses."""

from __future__ import annotations

import grpc
from google.protobuf.message import DecodeError

from nnhal.exhaustion import lack_of
from nnhal.inference.datatypes import TensorError
from nnhal_hosting.logs import get_logger
from nnhal_service.serving.errors import ErrorKind, ServingError

_log = get_logger(__name__)
_MAX_BYTES = 2000
"""The longest message: gRPC escapes it to up to three times its length, and all headers share 8 KiB."""

STATUS: dict[ErrorKind, grpc.StatusCode] = {
    ErrorKind.UNKNOWN: grpc.StatusCode.UNKNOWN,
    ErrorKind.INTERNAL: grpc.StatusCode.INTERNAL,
    ErrorKind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorKind.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorKind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    ErrorKind.UNSUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
    ErrorKind.ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    ErrorKind.CANCELLED: grpc.StatusCode.CANCELLED,
    ErrorKind.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    ErrorKind.RESOURCE_EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorKind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    ErrorKind.PERMISSION_DENIED: grpc.StatusCode.PERMISSION_DENIED,
}


def answer_for(error: Exception, method: str) -> ServingError:
    """The error that the client gets. An unexpected one is logged, and is INTERNAL without its text."""
    if isinstance(error, ServingError):
        return ServingError(error.kind, shortened(error.message))
    if isinstance(error, TensorError):
        return ServingError(ErrorKind.INVALID_ARGUMENT, shortened(str(error)))
    if isinstance(error, DecodeError):
        return ServingError(ErrorKind.INVALID_ARGUMENT, f"the request is not a valid message of {method}")
    lack = lack_of(error)
    if lack:
        _log.warning("a call failed", method=method, reason=lack)
        return ServingError(ErrorKind.RESOURCE_EXHAUSTED, f"the call failed: {lack}")
    _log.error("a call failed", method=method, exc_info=error)
    return ServingError(ErrorKind.INTERNAL, "the call failed; the log of the server says why")


def shortened(message: str) -> str:
    """A message cut to the length that a status may have: it may quote long names of the client."""
    written = message.encode(errors="replace")
    return message if len(written) <= _MAX_BYTES else written[:_MAX_BYTES].decode(errors="ignore") + " …"
