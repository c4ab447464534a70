"""A device's errors as gRPC statuses, and back.

The exact ErrorStatus travels in the status details. A status without it did not come from a device's code: it is the
transport's.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf import any_pb2
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
"""Characters; a status travels in HTTP headers, which have a limit."""


def abort_status(error: HalError) -> grpc.Status:
    """The gRPC status that carries an error, for ``context.abort_with_status``."""
    message = error.message if len(error.message) <= _MAX_MESSAGE else error.message[: _MAX_MESSAGE - 1] + "…"
    detail = any_pb2.Any()
    detail.Pack(wire.ErrorDetail(status=wire.ErrorStatus.ValueType(error.status), message=message))
    status: grpc.Status = rpc_status.to_status(
        status_pb2.Status(code=_CODES[error.status], message=message, details=[detail])
    )
    return status


def error_from_rpc(error: grpc.RpcError, peer: str) -> NnhalError:
    """What a failed call means: HalError where the device answered, else what happened to the transport."""
    call: Any = error  # grpc's stubs raise errors that are calls too, which its types do not say
    if not isinstance(call, grpc.Call):
        return TransportError(f"{peer}: {error}")
    status = rpc_status.from_call(call)
    for detail in status.details if status is not None else ():
        answer = wire.ErrorDetail()
        if detail.Unpack(answer):
            return HalError(ErrorStatus(answer.status), answer.message)
    if call.code() == grpc.StatusCode.UNAVAILABLE:
        return DeadObjectError(f"{peer} is gone: {call.details()}")
    return TransportError(f"{peer}: {call.code().name}: {call.details()}")
