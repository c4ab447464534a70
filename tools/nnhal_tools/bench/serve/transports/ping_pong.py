"""A datagram to another process and back, then ONNX Runtime in the load generator: the floor of a run elsewhere."""

from __future__ import annotations

from contextlib import ExitStack

from nnhal_tools.bench.ping_pong import ping_pong
from nnhal_tools.bench.serve.target import Target
from nnhal_tools.bench.serve.transports.base import Requests
from nnhal_tools.bench.serve.transports.in_process import InProcessRequests


class PingPongRequests(Requests):
    """Wakes a process that answers at once, and then runs the model in this one."""

    def __init__(self, target: Target) -> None:
        """Raises BenchError if the model is no file, or has tensors that are not numeric or of unknown shape."""
        super().__init__(target)
        self._run = InProcessRequests(target)
        self._echo = ExitStack()
        self._ping = self._echo.enter_context(ping_pong())

    def infer(self) -> None:
        self._ping()
        self._run.infer()

    def close(self) -> None:
        self._echo.close()
        self._run.close()
