"""The transports of the load generator: each sends one request at a time and waits for its answer."""

from __future__ import annotations

from importlib import import_module

from nnhal_tools.bench.serve.target import Target, Transport
from nnhal_tools.bench.serve.transports.base import Requests

_CLASSES = {
    Transport.NATIVE: ("native", "NativeRequests"),
    Transport.GRPC: ("grpc_v2", "GrpcRequests"),
    Transport.HTTP: ("http_v2", "HttpRequests"),
    Transport.IN_PROCESS: ("in_process", "InProcessRequests"),
    Transport.PING_PONG: ("ping_pong", "PingPongRequests"),
}
"""Imported on use: each of many load generators needs only one of them."""


def open_requests(target: Target) -> Requests:
    """Connect, and prepare the request that is sent again and again. Raises BenchError, NnhalError or OSError."""
    module, name = _CLASSES[target.transport]
    kind: type[Requests] = getattr(import_module(f"{__name__}.{module}"), name)
    return kind(target)


__all__ = ["Requests", "open_requests"]
