"""What goes wrong with a request, in words that every protocol can say in its own."""

from __future__ import annotations

from enum import Enum

from nnhal.errors import NnhalError


class ErrorKind(Enum):
    """The kinds of the Open Inference Protocol as Triton has them; each front has a status for each."""

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
    """A request that failed. The message goes to the client: it names nothing that is internal."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
