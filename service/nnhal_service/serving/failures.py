"""What a device's failure is to a client."""

from __future__ import annotations

import re
from pathlib import Path

from nnhal.errors import HalError, NnhalError
from nnhal.types import ErrorStatus
from nnhal_service.runtime.run.cancellation import CancelledRunError
from nnhal_service.serving.errors import ErrorKind, ServingError

_KINDS = {
    ErrorStatus.DEVICE_UNAVAILABLE: ErrorKind.UNAVAILABLE,
    ErrorStatus.INVALID_ARGUMENT: ErrorKind.INVALID_ARGUMENT,
    ErrorStatus.MISSED_DEADLINE_TRANSIENT: ErrorKind.DEADLINE_EXCEEDED,
    ErrorStatus.MISSED_DEADLINE_PERSISTENT: ErrorKind.DEADLINE_EXCEEDED,
    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT: ErrorKind.RESOURCE_EXHAUSTED,
    ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT: ErrorKind.RESOURCE_EXHAUSTED,
}
_PATH = re.compile(r"(?<![\w.])(?:/[\w.@+-]+)+/?")


def serving_error(name: str, error: NnhalError | OSError | MemoryError) -> ServingError:
    """What goes to the client, without paths. Raise it from the error, which has everything."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, CancelledRunError):
        return ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
    if isinstance(error, HalError):
        kind = _KINDS.get(error.status, ErrorKind.INTERNAL)
        return ServingError(kind, f"model '{name}': {_PATH.sub(_hidden, error.message)}")
    if isinstance(error, OSError | MemoryError):
        return ServingError(ErrorKind.RESOURCE_EXHAUSTED, f"model '{name}': no memory for the request")
    return ServingError(ErrorKind.UNAVAILABLE, f"model '{name}': a device that it needs does not answer")


def _hidden(found: re.Match[str]) -> str:
    """A path of this host; names of a model's nodes may look like one."""
    text = found.group()
    return "(a path)" if Path("/", text.split("/")[1]).exists() else text
