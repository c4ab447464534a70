"""The transports of the load generator: each sends one request at a time and waits for its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module

from benchmarks.serve.target import Target, Transport

_CLASSES = {
    Transport.NATIVE: ("native", "NativeRequests"),
    Transport.GRPC: ("grpc_v2", "GrpcRequests"),
    Transport.HTTP: ("http_v2", "HttpRequests"),
    Transport.IN_PROCESS: ("in_process", "InProcessRequests"),
    Transport.PING_PONG: ("in_process", "PingPongRequests"),
}
"""Imported on use: each of many load generators needs only one of them."""


class Requests(ABC):
    """A connection and a request. ``send_ns`` and ``receive_ns`` sum the process's own work: writing requests and
    reading answers, without waiting."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.send_ns = 0
        self.receive_ns = 0

    @abstractmethod
    def infer(self) -> None:
        """Send a request and wait for its answer. Raises BenchError, NnhalError or OSError."""

    @abstractmethod
    def close(self) -> None:
        """Undo registrations and close the connection."""


def open_requests(target: Target) -> Requests:
    """Connect, and prepare the request that is sent again and again. Raises BenchError, NnhalError or OSError."""
    module, name = _CLASSES[target.transport]
    kind: type[Requests] = getattr(import_module(f"{__name__}.{module}"), name)
    return kind(target)


__all__ = ["Requests", "open_requests"]
