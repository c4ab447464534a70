"""Processes that send requests to one way to serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.generators import BenchError, Generator
from nnhal.contexts import Closing

_SHOWN_CHARACTERS = 200


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
        """Return the same. Raises BenchError if a request failed."""
        words = next(filter(None, self.errors), None)
        if words is not None:
            raise BenchError(f"{what}: {self.failed} of {len(self.errors)} failed: {words[:_SHOWN_CHARACTERS]}")
        return self


class Sender(Closing):
    """A process that sends requests to a destination. Use it as a context."""

    def __init__(self, destination: Destination) -> None:
        """Raises BenchError if the process does not start."""
        self._generator = Generator("benchmarks.scaling.sender", destination.url, asdict(destination))
        try:
            self._generator.answer()
        except BaseException:
            self.close()
            raise

    def keep_busy(self, model: str, concurrency: int, seconds: float) -> SentRequests:
        """Send requests for a time, each as soon as one before is answered. Raises BenchError."""
        return self._window({"model": model, "concurrency": concurrency, "seconds": seconds})

    def replay(self, instants: Sequence[float], models: Sequence[str]) -> SentRequests:
        """Send requests at instants, each for its model. Raises BenchError."""
        return self._window({"instants": instants, "models": models})

    def close(self) -> None:
        """End the process."""
        self._generator.close()

    def _window(self, words: Mapping[str, object]) -> SentRequests:
        self._generator.tell(words)
        answer = self._generator.answer()
        return SentRequests(np.array(answer["due"]), np.array(answer["ended"]), answer["errors"])
