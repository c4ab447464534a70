"""Processes that send requests to one way to serve."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnhal.contexts import Closing

_STOP_SECONDS = 20.0
_SHOWN_CHARACTERS = 200


class SenderError(Exception):
    """Requests that cannot be sent, or that fail when none should. The message has the first error."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where requests go. The fields are what the process reads."""

    protocol: str
    """``http`` or ``grpc``."""
    url: str
    """HOST:PORT, or several addresses as gRPC writes them."""
    models: Mapping[str, tuple[int, ...]]
    """The shape of the input of each model, which is called x and has float32."""
    round_robin: bool = False
    """Take the addresses in turn; gRPC only."""


@dataclass(frozen=True, slots=True)
class SentRequests:
    """What became of the requests of a window, in the order in which they ended."""

    due: NDArray[np.float64]
    """Seconds since the window began at which each was due: it was sent then, or when the sender could."""
    ended: NDArray[np.float64]
    """When each was answered, or had failed."""
    errors: Sequence[str]
    """What each failed with; empty for one that was answered."""

    @property
    def latencies(self) -> NDArray[np.float64]:
        """Seconds of each request that was answered."""
        answered = np.array([not words for words in self.errors], bool)
        latencies: NDArray[np.float64] = (self.ended - self.due)[answered]
        return latencies

    @property
    def failed(self) -> int:
        """How many failed."""
        return sum(map(bool, self.errors))

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / float(self.ended.max())

    def require_none_failed(self, what: str) -> SentRequests:
        """Return the same. Raises SenderError if a request failed."""
        words = next(filter(None, self.errors), None)
        if words is not None:
            raise SenderError(f"{what}: {self.failed} of {len(self.errors)} failed: {words[:_SHOWN_CHARACTERS]}")
        return self


class Sender(Closing):
    """A process that sends requests to a destination. Use it as a context."""

    def __init__(self, destination: Destination) -> None:
        """Raises SenderError if the process does not start."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scaling.sender"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        words = {name: getattr(destination, name) for name in Destination.__slots__}
        try:
            self._tell(words)
            self._answer()
        except BaseException:
            self.close()
            raise

    def keep_busy(self, model: str, concurrency: int, seconds: float) -> SentRequests:
        """Send requests for a time, each as soon as one before is answered. Raises SenderError."""
        return self._window({"model": model, "concurrency": concurrency, "seconds": seconds})

    def replay(self, instants: Sequence[float], models: Sequence[str]) -> SentRequests:
        """Send requests at instants, each for its model. Raises SenderError."""
        return self._window({"instants": instants, "models": models})

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _window(self, words: Mapping[str, object]) -> SentRequests:
        self._tell(words)
        answer = self._answer()
        return SentRequests(np.array(answer["due"]), np.array(answer["ended"]), answer["errors"])

    def _tell(self, words: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise SenderError(f"the sender ended with status {self._process.wait()}") from error

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SenderError(f"the sender ended with status {self._process.wait()}")
        return json.loads(line)
