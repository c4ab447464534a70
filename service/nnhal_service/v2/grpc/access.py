"""Asks the guard before each gRPC call."""

from __future__ import annotations

from nnhal_service.access import AccessRole, Guard
from nnhal_service.access.roles import role_for_call
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.grpc.calls import Call, Context, I, O
from nnhal_service.v2.grpc.statuses import abort

_AUTHORIZATION = "authorization"


def guarded(call: Call[I, O], method: str, guard: Guard) -> Call[I, O]:
    """The same call, which ends if the guard refuses it; a stream is checked once, when it is opened.

    ``method`` is its full name, such as ``/inference.GRPCInferenceService/ModelInfer``.
    """
    needed = role_for_call(method)
    if needed == AccessRole.NOBODY or not guard.has_rules:
        return call

    async def admitted(request: I, context: Context) -> O:
        authorization = metadata_value(context, _AUTHORIZATION)
        try:
            guard.admit(needed, authorization, context.peer())
        except ServingError as error:
            refusal = error
        else:
            return await call(request, context)
        await abort(context, refusal)

    return admitted


def metadata_value(context: Context, key: str) -> str:
    """What the client sent under a key; empty if it sent nothing."""
    return next((str(value) for name, value in context.invocation_metadata() or () if name == key), "")
