"""What every transport does."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nnhal_tools.bench.serve.target import Target


class Requests(ABC):
    """A connection and a request. ``send_ns`` and ``receive_ns`` add up what this process did itself: writing requests
    and reading answers, not waiting."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.send_ns = 0
        self.receive_ns = 0

    @abstractmethod
    def infer(self) -> None:
        """One request and its answer. Raises BenchError, NnhalError or OSError."""

    @abstractmethod
    def close(self) -> None:
        """End the connection, and what was registered over it."""
