"""The protocol over gRPC."""

from nnhal_service.v2.grpc.limits import GrpcLimits
from nnhal_service.v2.grpc.server import SERVES_INHERITED, GrpcServer
from nnhal_service.v2.grpc.servicer import InferenceServicer

__all__ = ["SERVES_INHERITED", "GrpcLimits", "GrpcServer", "InferenceServicer"]
