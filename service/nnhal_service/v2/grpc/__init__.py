"""The protocol over gRPC."""

from nnhal_service.v2.grpc.server import GrpcFront, GrpcLimits
from nnhal_service.v2.grpc.servicer import InferenceServicer

__all__ = ["GrpcFront", "GrpcLimits", "InferenceServicer"]
