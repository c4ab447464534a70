"""The Open Inference Protocol V2 as Ray Serve takes it: a function that registers its methods.

Serve looks methods up on the class of a deployment by their names, and knows no catch-all, so all are registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from nnhal.inference import grpc_service_pb2
from nnhal_ray.messages import WireMessage

SERVICE: ServiceDescriptor = grpc_service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
STREAM = "ModelStreamInfer"
INFER = "ModelInfer"
UNARY = tuple(method.name for method in SERVICE.methods if method.name != STREAM)
"""The names of all calls with one request and one answer."""


class _Registry(Protocol):
    def add_generic_rpc_handlers(self, handlers: tuple[grpc.GenericRpcHandler[Any, Any], ...]) -> None: ...


def add_to_server(servicer: object, server: _Registry) -> None:
    """Register all methods of the protocol. For ``grpc_servicer_functions`` of Serve's configuration.

    Messages stay bytes: protobuf copies a tensor twice on its way in, and twice on its way out.
    """
    handlers = {method.name: _handler(method, getattr(servicer, method.name)) for method in SERVICE.methods}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.full_name, handlers),))


def _handler(method: MethodDescriptor, behaviour: Callable[..., Any]) -> grpc.RpcMethodHandler[Any, Any]:
    make = grpc.stream_stream_rpc_method_handler if method.name == STREAM else grpc.unary_unary_rpc_method_handler
    return make(behaviour, request_deserializer=WireMessage, response_serializer=WireMessage.SerializeToString)
