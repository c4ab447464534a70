"""The services of the front as gRPC's handlers: inference and server reflection.

Requests of inference arrive as bytes and are parsed here, so that a malformed one is INVALID_ARGUMENT, and not an error
of gRPC's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from nnhal.inference import grpc_service_pb2, model_config_pb2
from nnhal_service.v2.grpc.servicer import SERVICE, InferenceServicer
from nnhal_service.v2.grpc.statuses import abort, answer_for

I = TypeVar("I")  # noqa: E741 - input
O = TypeVar("O")  # noqa: E741 - output
Stream = Callable[[Iterator[I], grpc.ServicerContext], Iterator[O]]
ReflectionRequest = reflection_pb2.ServerReflectionRequest
ReflectionResponse = reflection_pb2.ServerReflectionResponse
_IN_BYTES = {"ModelInfer", "ModelStreamInfer"}
_REFLECTED = (model_config_pb2, grpc_service_pb2, health_pb2, reflection_pb2)


class StreamLimit:
    """Limits the open streams of all services: each holds a thread of the server while it is open."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = threading.BoundedSemaphore(limit)

    def limited(self, behaviour: Stream[I, O]) -> Stream[I, O]:
        """The same call, which ends with RESOURCE_EXHAUSTED if too many streams are open."""

        def call(requests: Iterator[I], context: grpc.ServicerContext) -> Iterator[O]:
            if not self._free.acquire(blocking=False):
                message = f"{self._limit} streams are open, which is as many as may be at a time"
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
            try:
                yield from behaviour(requests, context)
            finally:
                self._free.release()

        return call


def inference_handler(servicer: InferenceServicer, streams: StreamLimit) -> grpc.GenericRpcHandler[bytes, bytes]:
    """All calls of inference.GRPCInferenceService, made from its descriptor. Streams count against the limit."""
    calls = servicer.infer_calls
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "ModelInfer": grpc.unary_unary_rpc_method_handler(calls.infer),
        "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(streams.limited(calls.stream_infer)),
    }
    for method in SERVICE.methods:
        if method.name not in _IN_BYTES:
            behaviour = getattr(servicer, method.name)
            call = _unary(method.name, GetMessageClass(method.input_type), behaviour)
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(call)
    return grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)


def reflection_handler(streams: StreamLimit) -> grpc.GenericRpcHandler[ReflectionRequest, ReflectionResponse]:
    """Server reflection of all services of the front.

    It reads a descriptor pool of its own, since package 'inference' is not in protobuf's default pool.
    """
    pool = DescriptorPool()
    for module in _REFLECTED:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    health = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    servicer = reflection.ReflectionServicer((SERVICE.full_name, health, reflection.SERVICE_NAME), pool)
    answer = cast("Stream[ReflectionRequest, ReflectionResponse]", servicer.ServerReflectionInfo)
    handler = grpc.stream_stream_rpc_method_handler(
        streams.limited(answer),
        request_deserializer=ReflectionRequest.FromString,
        response_serializer=ReflectionResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, {"ServerReflectionInfo": handler})


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
