"""The calls of a servicer as gRPC's handlers, made from the descriptor of the service.

Requests reach them as bytes and are parsed here, so that a malformed one is INVALID_ARGUMENT and no failure of gRPC.
"""

from __future__ import annotations

from collections.abc import Callable

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nnhal.inference.grpc_service_pb2 import DESCRIPTOR
from nnhal_service.v2.grpc.servicer import InferenceServicer
from nnhal_service.v2.grpc.statuses import abort, answer_for
from nnhal_service.v2.grpc.streams import StreamLimit

SERVICE = DESCRIPTOR.services_by_name["GRPCInferenceService"]
_IN_BYTES = {"ModelInfer", "ModelStreamInfer"}


def generic_handler(servicer: InferenceServicer, streams: StreamLimit) -> grpc.GenericRpcHandler[bytes, bytes]:
    """All calls of the service; streams count against the limit."""
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "ModelInfer": grpc.unary_unary_rpc_method_handler(servicer.ModelInfer),
        "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(streams.limited(servicer.ModelStreamInfer)),
    }
    for method in SERVICE.methods:
        if method.name not in _IN_BYTES:
            behaviour = getattr(servicer, method.name)
            call = _unary(method.name, GetMessageClass(method.input_type), behaviour)
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(call)
    return grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)


def _unary(
    name: str, kind: type[Message], behaviour: Callable[[Message, grpc.ServicerContext], Message]
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def call(data: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return behaviour(kind.FromString(data), context).SerializeToString()
        except Exception as error:
            answer = answer_for(error, name)
        abort(context, answer)

    return call
