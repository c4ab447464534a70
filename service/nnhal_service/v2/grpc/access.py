"""Asks the guard before each gRPC call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc

from nnhal_service.access import AccessRole, Guard
from nnhal_service.access.roles import role_for_call
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.grpc.statuses import abort

_AUTHORIZATION = "authorization"
I = TypeVar("I")  # noqa: E741 - input
O = TypeVar("O")  # noqa: E741 - output


class GuardInterceptor(grpc.ServerInterceptor):  # type: ignore[type-arg] # it takes no arguments at run time
    """Refuses the calls that the guard refuses. A stream is checked once, when it is opened."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler of a call, behind the guard. Returns None if the call is unknown."""
        handler = continuation(handler_call_details)
        needed = role_for_call(handler_call_details.method)
        if handler is None or needed == AccessRole.NOBODY:
            return handler
        metadata = handler_call_details.invocation_metadata
        authorization = next((str(value) for key, value in metadata if key == _AUTHORIZATION), "")

        def admit(context: grpc.ServicerContext) -> None:
            try:
                self._guard.admit(needed, authorization, context.peer())
            except ServingError as error:
                refusal = error
            else:
                return
            abort(context, refusal)

        return _guarded(handler, admit)


def _guarded(
    handler: grpc.RpcMethodHandler[I, O], admit: Callable[[grpc.ServicerContext], None]
) -> grpc.RpcMethodHandler[I, O]:
    """The same handler, which calls ``admit`` first. Calls that need a role are unary, or stream both ways."""
    unary, stream = handler.unary_unary, handler.stream_stream
    if unary is not None:

        def call(request: I, context: grpc.ServicerContext) -> O:
            admit(context)
            return unary(request, context)

        return grpc.unary_unary_rpc_method_handler(call, handler.request_deserializer, handler.response_serializer)
    if stream is None:
        raise TypeError("a handler that is neither unary nor a stream both ways")

    def answer(requests: Iterator[I], context: grpc.ServicerContext) -> Iterator[O]:
        admit(context)
        yield from stream(requests, context)

    return grpc.stream_stream_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)
