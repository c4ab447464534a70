"""The interface of transports."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nnhal_tools.bench.serve.target import Target


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
