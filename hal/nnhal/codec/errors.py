"""Conversion of a device's errors to gRPC statuses, and back.

The exact ErrorStatus travels in the status details. A status without it did not come from the device but from the
transport.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError

from nnhal.errors import DeadObjectError, HalError, MissingMethodError, NnhalError, TransportError
from nnhal.types import ErrorStatus
from nnhal.v1 import status_pb2
from nnhal.v1 import types_pb2 as wire

_CODES = {
    ErrorStatus.DEVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    ErrorStatus.GENERAL_FAILURE: grpc.StatusCode.INTERNAL,
    ErrorStatus.OUTPUT_INSUFFICIENT_SIZE: grpc.StatusCode.OUT_OF_RANGE,
    ErrorStatus.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorStatus.MISSED_DEADLINE_TRANSIENT: grpc.StatusCode.DEADLINE_EXCEEDED,
    ErrorStatus.MISSED_DEADLINE_PERSISTENT: grpc.StatusCode.DEADLINE_EXCEEDED,
    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
_DETAILS = "grpc-status-details-bin"
"""The trailing metadata in which gRPC's libraries look for a google.rpc.Status."""
_MAX_MESSAGE = 2000
"""The maximum length of a message in characters."""
_MAX_HEADER_BYTES = 7500
"""A status travels in HTTP headers; gRPC may refuse a call whose headers have more than 8 KiB in total."""
_AS_IS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""The characters that a header holds unchanged; all others are percent-encoded."""


@dataclass(frozen=True)
class _Status(grpc.Status):
    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, bytes], ...]
    error: HalError
    """What it carries."""


def abort_status(error: HalError) -> grpc.Status:
    """Make the gRPC status that carries an error, for ``context.abort_with_status``. Cut a message that is too long."""
    message = _shortened(error.message)
    detail = any_pb2.Any()
    detail.Pack(wire.ErrorDetail(status=wire.ErrorStatus.ValueType(error.status), message=message))
    code = _CODES[error.status]
    status = status_pb2.Status(code=code.value[0], message=message, details=[detail])
    return _Status(code, message, ((_DETAILS, status.SerializeToString()),), error)


def error_from_rpc(error: grpc.RpcError, peer: str, method: str = "") -> NnhalError:
    """Return the error behind a failed call: HalError if the device answered, else the transport's failure.

    The transport's failure names the ``method``, which is its service and its name.
    """
    place = f"{peer}: {method}" if method else peer
    call: Any = error  # grpc's stubs raise errors that are also calls, which grpc's types do not say
    if not isinstance(call, grpc.Call):
        return TransportError(f"{place}: {error}")
    answer = _answer(call)
    if answer is not None:
        return answer
    if call.code() == grpc.StatusCode.UNAVAILABLE:
        return DeadObjectError(f"{peer} is gone: {call.details()}")
    if call.code() == grpc.StatusCode.UNIMPLEMENTED:
        said = call.details() or "it does not serve this method"
        return MissingMethodError(f"{place}: UNIMPLEMENTED: {said}")
    return TransportError(f"{place}: {call.code().name}: {call.details()}")


def _answer(call: Any) -> HalError | None:
    """Return the answer of the device itself; None if the details are missing, malformed, or of another status than the
    call's.
    """
    raw = next((value for key, value in call.trailing_metadata() or () if key == _DETAILS), b"")
    answer = wire.ErrorDetail()
    try:
        status = status_pb2.Status.FromString(raw)
        if (status.code, status.message) != (call.code().value[0], call.details()):
            return None
        found = any(detail.Unpack(answer) for detail in status.details)
    except DecodeError:
        return None
    return HalError(ErrorStatus(answer.status) or ErrorStatus.GENERAL_FAILURE, answer.message) if found else None


def _shortened(message: str) -> str:
    if len(message) <= _MAX_MESSAGE and _header_bytes(message) <= _MAX_HEADER_BYTES:
        return message
    kept = message[: _MAX_MESSAGE - 1]
    while _header_bytes(kept) > _MAX_HEADER_BYTES:
        kept = kept[: len(kept) * 7 // 8]
    return kept + "…"


def _header_bytes(message: str) -> int:
    """Return a message's size in headers: once percent-encoded, and twice in base64 (in the status and its details)."""
    return len(quote(message, safe=_AS_IS)) + 8 * len(message.encode()) // 3
