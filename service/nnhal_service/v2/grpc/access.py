"""Asks the guard before each gRPC call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.message import DecodeError

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_hosting.access import AccessRole
from nnhal_service.access import Guard
from nnhal_service.access.roles import role_for_call
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.grpc.calls import GrpcContext
from nnhal_service.v2.grpc.compression import plain

AUTHORIZATION = "authorization"
_SETTINGS: Mapping[str, type[wire.TraceSettingRequest | wire.LogSettingsRequest]] = {
    "/inference.GRPCInferenceService/TraceSetting": wire.TraceSettingRequest,
    "/inference.GRPCInferenceService/LogSettings": wire.LogSettingsRequest,
}
"""Calls that change settings, or only read them if the request has none."""


def changes_settings(method: str) -> bool:
    """Return whether a call of this full name changes settings, or reads them, as its message says."""
    return method in _SETTINGS


def admission(method: str, guard: Guard) -> Callable[[bytes, GrpcContext], None] | None:
    """Return what admits a call by its request, None if nothing does; it raises ServingError if the guard refuses the
    call.

    ``method`` is its full name, such as ``/inference.GRPCInferenceService/ModelInfer``.
    """
    needed, changes = role_for_call(method), changes_settings(method)
    if needed == AccessRole.NOBODY or not guard.has_rules:
        return None

    def admit(request: bytes, context: GrpcContext) -> None:
        role = AccessRole.VIEW if changes and _only_reads(method, request) else needed
        admit_call(guard, role, context)

    return admit


def admit_call(guard: Guard, role: AccessRole, context: GrpcContext) -> None:
    """Raise ServingError if the guard refuses a call. The client's user is asked for once a connection."""
    authorization = metadata_value(context, AUTHORIZATION) if guard.asks_for_tokens else ""
    guard.admit(role, authorization, context.peer(), context.user_is_admitted)
    context.user_is_admitted = True


def metadata_value(context: GrpcContext, key: str) -> str:
    """Return what the client sent under a key; empty if it sent nothing."""
    for name, value in context.invocation_metadata():
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
