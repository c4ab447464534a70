"""Clients that send one request after another while a test does something to the servers."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request: when it began, how long it took, in seconds, and the status of its failure, empty if it succeeded."""

    began: float
    seconds: float
    failure: str


@dataclass
class SteadyRequests:
    """Clients over gRPC, each with a connection of its own. Use it as a context."""

    address: str
    model: str
    clients: int = 4
    shape: tuple[int, ...] = (2, 4)
    """That of the model's input ``x``."""
    seconds: float = 10.0
    """The deadline of a request."""
    sent: list[SentRequest] = field(default_factory=list)

    def __enter__(self) -> SteadyRequests:
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(self.clients)]
        for thread in self._threads:
            thread.start()
        self.go_on(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def go_on(self, count: int) -> None:
        """Wait until so many more requests have succeeded."""
        before = self.succeeded
        wait_until(lambda: self.succeeded >= before + count, f"{count} more requests have succeeded", 60)

    @property
    def succeeded(self) -> int:
        return sum(not request.failure for request in list(self.sent))

    @property
    def failures(self) -> list[str]:
        return [request.failure for request in list(self.sent) if request.failure]

    def _send(self) -> None:
        with tritonclient.grpc.InferenceServerClient(self.address) as client:
            tensor = tritonclient.grpc.InferInput("x", list(self.shape), "FP32")
            tensor.set_data_from_numpy(np.ones(self.shape, np.float32))
            while not self._stopping.is_set():
                began = time.monotonic()
                try:
                    client.infer(self.model, [tensor], client_timeout=self.seconds)
                    failure = ""
                except InferenceServerException as error:
                    failure = str(error)
                self.sent.append(SentRequest(began, time.monotonic() - began, failure))
