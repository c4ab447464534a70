"""Load on a server from several processes, each with one request under way."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.generators import Generator
from benchmarks.serve.target import Target
from nnhal.contexts import Closing

_HEAD_START_NS = 20_000_000
"""Time that all processes have to read a window before it begins."""


@dataclass(frozen=True, slots=True)
class MeasurementWindow:
    """Measurements of one window over all processes."""

    latencies: NDArray[np.int64]
    """Nanoseconds of each request."""
    starts: NDArray[np.int64]
    """The instant of CLOCK_MONOTONIC at which each request began, or was due."""
    rate: float
    """Requests per second."""
    send_ns: float
    """The clients' own work of sending the requests, in all."""
    receive_ns: float
    """The clients' own work of receiving the answers, in all."""


def joined(windows: list[MeasurementWindow]) -> MeasurementWindow:
    """Join windows into one; its rate is their mean."""
    return MeasurementWindow(
        np.concatenate([window.latencies for window in windows]),
        np.concatenate([window.starts for window in windows]),
        float(np.mean([window.rate for window in windows])),
        sum(window.send_ns for window in windows),
        sum(window.receive_ns for window in windows),
    )


class Load(Closing):
    """Load generators, one for each target, which stay connected between windows. Use as a context."""

    def __init__(self, targets: Sequence[Target]) -> None:
        """Start them, each with a warm connection. Raises BenchError if one cannot connect."""
        self.generators = [Generator("benchmarks.serve.worker", target.title, asdict(target)) for target in targets]
        try:
            for generator in self.generators:
                generator.answer()
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [generator.process.pid for generator in self.generators]

    def measure(self, seconds: float, rate: float | None = None) -> MeasurementWindow:
        """Send requests for a time, each when the one before it is answered. Raises BenchError if one fails.

        With a ``rate`` a second in all, they are sent at that rate whether the server keeps up or not. A latency counts
        from the instant at which its request was due, so that a slow answer shows in those that wait behind it.
        """
        start = time.monotonic_ns() + _HEAD_START_NS
        period = round(len(self.generators) / rate * 1e9) if rate else 0
        for number, generator in enumerate(self.generators):
            begin = start + number * period // len(self.generators)
            generator.tell({"start_ns": begin, "end_ns": begin + round(seconds * 1e9), "period_ns": period})
        answers = [generator.answer() for generator in self.generators]
        latencies = [np.frombuffer(base64.b64decode(answer["latencies"]), np.int64) for answer in answers]
        pairs = list(zip(latencies, answers, strict=True))
        rates = (len(own) / (answer["elapsed_ns"] / 1e9) for own, answer in pairs if answer["elapsed_ns"])
        starts = [
            answer["begun_ns"] + (np.arange(len(own)) * period if period else np.cumsum(own) - own)
            for own, answer in pairs
        ]
        return MeasurementWindow(
            np.concatenate(latencies),
            np.concatenate(starts),
            sum(rates),
            sum(answer["send_ns"] for answer in answers),
            sum(answer["receive_ns"] for answer in answers),
        )

    @contextmanager
    def flowing(self, rate: float) -> Iterator[None]:
        """Send requests, ``rate`` a second in all, until the context ends."""
        ended = threading.Event()

        def flow() -> None:
            while not ended.is_set():
                self.measure(1.0, rate)

        thread = threading.Thread(target=flow)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def close(self) -> None:
        """End the processes."""
        for generator in self.generators:
            generator.end()
        for generator in self.generators:
            generator.close()
