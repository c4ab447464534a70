"""Asks the guard before each gRPC call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_hosting.access import AccessRole
from nnhal_service.access import Guard
from nnhal_service.access.roles import role_for_call
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.grpc.calls import Call, GrpcContext
from nnhal_service.v2.grpc.compression import plain

_SETTINGS: Mapping[str, type[wire.TraceSettingRequest | wire.LogSettingsRequest]] = {
    "/inference.GRPCInferenceService/TraceSetting": wire.TraceSettingRequest,
    "/inference.GRPCInferenceService/LogSettings": wire.LogSettingsRequest,
}
"""Calls that change settings, or only read them if the request has none."""


def admission(method: str, guard: Guard) -> Callable[[GrpcContext], None] | None:
    """Return what admits a call by its head; None if that admits every call. It raises ServingError if the guard
    refuses the call.

    ``method`` is its full name, such as ``/inference.GRPCInferenceService/ModelInfer``.
    """
    needed = role_for_call(method)
    if method in _SETTINGS or needed == AccessRole.NOBODY or not guard.has_rules:
        return None
    return partial(admit_call, guard, needed)


def admitted_by_message(method: str, guard: Guard, call: Call) -> Call:
    """Return a call that is admitted by its message too, if that says whether it changes settings."""
    if method not in _SETTINGS or not guard.has_rules:
        return call
    needed = role_for_call(method)

    def admitted(message: bytes, context: GrpcContext) -> Coroutine[Any, Any, bytes]:
        admit_call(guard, AccessRole.VIEW if _only_reads(method, message) else needed, context)
        return call(message, context)

    return admitted


def admit_call(guard: Guard, role: AccessRole, context: GrpcContext) -> None:
    """Raise ServingError if the guard refuses a call. The client's user is asked for once a connection."""
    peer = context.peer
    guard.admit(role, context.head.authorization, peer.name, peer.user_is_admitted)
    peer.user_is_admitted = True


def note_refused(guard: Guard, error: Exception, context: GrpcContext) -> None:
    """Count a call that is refused."""
    guard.note_refused(error, context.head.authorization, context.peer.name)


def metadata_value(context: GrpcContext, key: str) -> str:
    """Return what the client sent under a key; empty if it sent nothing."""
    for name, value in context.head.metadata:
        if name == key:
            return str(value)
    return ""


def _only_reads(method: str, request: bytes) -> bool:
    kind = _SETTINGS.get(method)
    if kind is None:
        return False
    try:
        return not kind.FromString(plain(request)).settings
    except (DecodeError, ServingError):
        return False
