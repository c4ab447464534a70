"""Server reflection of the services that the front has."""

from __future__ import annotations

from typing import cast

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from nnhal.inference import grpc_service_pb2, model_config_pb2
from nnhal_service.v2.grpc.handlers import SERVICE
from nnhal_service.v2.grpc.streams import Stream, StreamLimit

Request = reflection_pb2.ServerReflectionRequest
Response = reflection_pb2.ServerReflectionResponse
_FILES = (model_config_pb2, grpc_service_pb2, health_pb2, reflection_pb2)


def reflection_handler(streams: StreamLimit) -> grpc.GenericRpcHandler[Request, Response]:
    """Reads a pool of its own: package 'inference' is not in protobuf's default pool, the other services are."""
    pool = DescriptorPool()
    for module in _FILES:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    health = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    servicer = reflection.ReflectionServicer((SERVICE.full_name, health, reflection.SERVICE_NAME), pool)
    answer = cast("Stream[Request, Response]", servicer.ServerReflectionInfo)
    handler = grpc.stream_stream_rpc_method_handler(
        streams.limited(answer),
        request_deserializer=Request.FromString,
        response_serializer=Response.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, {"ServerReflectionInfo": handler})
