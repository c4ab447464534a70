"""The errors of requests, whatever the protocol, and what a client gets for a device's failure."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from nnhal.errors import HalError, NnhalError
from nnhal.types import ErrorStatus
from nnhal_service.runtime.run.cancellation import CancelledRunError


class ErrorKind(Enum):
    """The kinds of errors that the Open Inference Protocol has in Triton; each V2 server has a status for each kind."""

    UNKNOWN = "unknown"
    INTERNAL = "internal"
    NOT_FOUND = "not found"
    INVALID_ARGUMENT = "invalid argument"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    ALREADY_EXISTS = "already exists"
    CANCELLED = "cancelled"
    DEADLINE_EXCEEDED = "deadline exceeded"
    RESOURCE_EXHAUSTED = "resource exhausted"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission denied"


class ServingError(NnhalError):
    """A request that failed. The message goes to the client, so it names nothing internal."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class TooLargeError(ServingError):
    """A request that is longer than one may be."""


_KINDS = {
    ErrorStatus.DEVICE_UNAVAILABLE: ErrorKind.UNAVAILABLE,
    ErrorStatus.INVALID_ARGUMENT: ErrorKind.INVALID_ARGUMENT,
    ErrorStatus.MISSED_DEADLINE_TRANSIENT: ErrorKind.DEADLINE_EXCEEDED,
    ErrorStatus.MISSED_DEADLINE_PERSISTENT: ErrorKind.DEADLINE_EXCEEDED,
    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT: ErrorKind.RESOURCE_EXHAUSTED,
    ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT: ErrorKind.RESOURCE_EXHAUSTED,
}
_PATH = re.compile(r"(?<![\w.])(?:/[\w.@+-]+)+/?")


def serving_error(name: str, error: Exception) -> ServingError:
    """A new error for the client of model ``name``, without paths of this host. Raise it from ``error``."""
    if isinstance(error, ServingError):
        return ServingError(error.kind, error.message)
    if isinstance(error, CancelledRunError):
        return ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
    if isinstance(error, HalError):
        kind = _KINDS.get(error.status, ErrorKind.INTERNAL)
        return ServingError(kind, f"model '{name}': {_PATH.sub(_hidden, error.message)}")
    if isinstance(error, OSError | MemoryError):
        return ServingError(ErrorKind.RESOURCE_EXHAUSTED, f"model '{name}': no memory for the request")
    if isinstance(error, NnhalError):
        return ServingError(ErrorKind.UNAVAILABLE, f"model '{name}': a device that it needs does not answer")
    return ServingError(ErrorKind.INTERNAL, f"model '{name}': the request failed; the log of the server says why")


def draining() -> ServingError:
    """A new error for a request that comes while the server drains."""
    return ServingError(ErrorKind.UNAVAILABLE, "the server drains: it takes no new requests")


def _hidden(found: re.Match[str]) -> str:
    """Hide a path of this host; a name of a model's node that looks like a path stays."""
    text = found.group()
    return "(a path)" if Path("/", text.split("/")[1]).exists() else text
