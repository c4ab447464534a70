"""Conversion of a device's errors to gRPC statuses, and back.

The exact ErrorStatus travels in the status details. A status without it did not come from the device but from the
transport.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.types import ErrorStatus
from nnhal.v1 import types_pb2 as wire

_CODES = {
    ErrorStatus.DEVICE_UNAVAILABLE: code_pb2.UNAVAILABLE,
    ErrorStatus.GENERAL_FAILURE: code_pb2.INTERNAL,
    ErrorStatus.OUTPUT_INSUFFICIENT_SIZE: code_pb2.OUT_OF_RANGE,
    ErrorStatus.INVALID_ARGUMENT: code_pb2.INVALID_ARGUMENT,
    ErrorStatus.MISSED_DEADLINE_TRANSIENT: code_pb2.DEADLINE_EXCEEDED,
    ErrorStatus.MISSED_DEADLINE_PERSISTENT: code_pb2.DEADLINE_EXCEEDED,
    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT: code_pb2.RESOURCE_EXHAUSTED,
    ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT: code_pb2.RESOURCE_EXHAUSTED,
}
_MAX_MESSAGE = 2000
"""The maximum length of a message in characters."""
_MAX_HEADER_BYTES = 7500
"""A status travels in HTTP headers; gRPC may refuse a call whose headers have more than 8 KiB in total."""
_AS_IS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""The characters that a header holds unchanged; all others are percent-encoded."""


def abort_status(error: HalError) -> grpc.Status:
    """Make the gRPC status that carries an error, for ``context.abort_with_status``. Cut a message that is too long."""
    message = _shortened(error.message)
    detail = any_pb2.Any()
    detail.Pack(wire.ErrorDetail(status=wire.ErrorStatus.ValueType(error.status), message=message))
    status: grpc.Status = rpc_status.to_status(
        status_pb2.Status(code=_CODES[error.status], message=message, details=[detail])
    )
    return status


def error_from_rpc(error: grpc.RpcError, peer: str) -> NnhalError:
    """Return the error behind a failed call: HalError if the device answered, else the transport's failure."""
    call: Any = error  # grpc's stubs raise errors that are also calls, which grpc's types do not say
    if not isinstance(call, grpc.Call):
        return TransportError(f"{peer}: {error}")
    answer = _answer(call)
    if answer is not None:
        return answer
    if call.code() == grpc.StatusCode.UNAVAILABLE:
        return DeadObjectError(f"{peer} is gone: {call.details()}")
    return TransportError(f"{peer}: {call.code().name}: {call.details()}")


def _answer(call: Any) -> HalError | None:
    """Return the device's own error; None if the details of the status are missing or malformed."""
    answer = wire.ErrorDetail()
    try:
        status = rpc_status.from_call(call)
        found = status is not None and any(detail.Unpack(answer) for detail in status.details)
    except (DecodeError, ValueError):
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
