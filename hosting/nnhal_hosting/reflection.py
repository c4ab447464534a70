"""gRPC's server reflection, of which nothing is imported until a client asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import grpc

SERVICE_NAME = "grpc.reflection.v1alpha.ServerReflection"
_METHOD = "ServerReflectionInfo"
REFLECT = f"/{SERVICE_NAME}/{_METHOD}"


def reflection_handler(services: Sequence[str]) -> grpc.GenericRpcHandler[Any, Any]:
    """What answers for the named services, whose descriptors are in protobuf's default pool."""

    @cache
    def servicer() -> Any:
        from grpc_reflection.v1alpha import reflection

        return reflection.ReflectionServicer(services)

    def answer(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        answers: Iterator[Any] = servicer().ServerReflectionInfo(requests, context)
        return answers

    handler = grpc.stream_stream_rpc_method_handler(answer, _decoded, lambda response: response.SerializeToString())
    return grpc.method_handlers_generic_handler(SERVICE_NAME, {_METHOD: handler})


def _decoded(raw: bytes) -> Any:
    from grpc_reflection.v1alpha import reflection_pb2

    return reflection_pb2.ServerReflectionRequest.FromString(raw)
