"""The methods for operators, which are answered in threads of their own, whatever clients do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from nnhal.admin import ADMIN_KEY_METADATA
from nnhal_hosting.admin_keys import is_admin_key

_OPERATOR_THREADS = 8
S = TypeVar("S")
if TYPE_CHECKING:
    _GenericHandler = grpc.GenericRpcHandler[Any, Any]
else:  # generic in its stubs only
    _GenericHandler = grpc.GenericRpcHandler


class OperatorMethods(_GenericHandler):
    """Serves unary methods: callers with an admin key in threads of their own, all others as any call.

    Other callers see their own session only, and may call as often as they like.
    """

    def __init__(self, keys: Collection[str]) -> None:
        """``keys`` are the admin keys of the process."""
        self._keys = tuple(keys)
        self._operators = ThreadPoolExecutor(_OPERATOR_THREADS, thread_name_prefix="operator")
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def add(self, add: Callable[[S, grpc.Server], None], servicer: S) -> None:
        """Serve a servicer's methods; ``add`` is the generated function that adds such a servicer to a server."""
        collector: Any = HandlerCollector(self._keep)
        add(servicer, collector)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = self._handlers.get(handler_call_details.method)
        if handler is None:
            return None
        metadata: dict[str, Any] = dict(handler_call_details.invocation_metadata)
        given = metadata.get(ADMIN_KEY_METADATA)
        is_operator = given is not None and is_admin_key(str(given), self._keys)
        return _in_pool(handler, self._operators) if is_operator else handler

    def has(self, method: str) -> bool:
        return method in self._handlers

    def close(self) -> None:
        """Wait for the calls that are being answered."""
        self._operators.shutdown()

    def _keep(self, service: str, handlers: Mapping[str, Any]) -> None:
        for name, handler in handlers.items():
            self._handlers[f"/{service}/{name}"] = handler


class HandlerCollector:
    """Takes from a generated function what it would have a server serve."""

    def __init__(self, keep: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._keep = keep

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._keep(service, handlers)

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Do nothing: these handlers are the same ones, and do not say their names."""


def _in_pool(handler: Any, pool: ThreadPoolExecutor) -> grpc.RpcMethodHandler[Any, Any]:
    """A unary method that gRPC runs in the threads of a pool."""

    def call(request: Any, context: grpc.ServicerContext) -> Any:
        return handler.unary_unary(request, context)

    # gRPC looks for this attribute. A version that does not would run the method in the threads of all others.
    call.experimental_thread_pool = pool  # type: ignore[attr-defined]
    made: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
        call, handler.request_deserializer, handler.response_serializer
    )
    return made
