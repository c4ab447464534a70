"""The calls of the protocol over gRPC, and their errors as the errors of nnhal."""

from __future__ import annotations

from typing import Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from nnhal.errors import HalError, NnhalError, TransportError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.types import ErrorStatus

R = TypeVar("R", bound=Message)
SERVICE = "/inference.GRPCInferenceService/"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
METADATA = "ServerMetadata"
CONNECT_SECONDS = 10.0
_STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT: ErrorStatus.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND: ErrorStatus.INVALID_ARGUMENT,
    grpc.StatusCode.UNAVAILABLE: ErrorStatus.DEVICE_UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
    grpc.StatusCode.DEADLINE_EXCEEDED: ErrorStatus.MISSED_DEADLINE_TRANSIENT,
}
_TRANSPORT = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
}


class _Failure(Protocol):
    """gRPC's error of a call."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str | None: ...


def failure_of(error: _Failure, address: str) -> NnhalError:
    code, details = error.code(), error.details() or "no details"
    if code in _TRANSPORT:
        return TransportError(f"{address}: {code.name}: {details}")
    return HalError(_STATUSES.get(code, ErrorStatus.GENERAL_FAILURE), f"{address}: {details}")


def authorization(token: str) -> tuple[tuple[str, str], ...]:
    """The metadata that calls carry; empty without a token."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def serialized(message: Message) -> bytes:
    return message.SerializeToString()


INFER = "ModelInfer", wire.ModelInferResponse
MODEL_METADATA = "ModelMetadata", wire.ModelMetadataResponse
MODEL_CONFIG = "ModelConfig", wire.ModelConfigResponse
SERVER_METADATA = METADATA, wire.ServerMetadataResponse
