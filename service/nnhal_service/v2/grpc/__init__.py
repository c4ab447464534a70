"""The protocol over gRPC."""

from nnhal_service.v2.grpc.limits import GrpcLimits
from nnhal_service.v2.grpc.server import GrpcServer
from nnhal_service.v2.grpc.servicer import InferenceServicer

__all__ = ["GrpcLimits", "GrpcServer", "InferenceServicer"]
