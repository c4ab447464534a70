"""Load on a server from several processes, each with one request under way."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnhal.contexts import Closing
from nnhal_tools.bench.serve.target import BenchError, Target

_HEAD_START_NS = 20_000_000
"""Time that all processes have to read a window before it begins."""
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class MeasurementWindow:
    """Measurements of one window over all processes."""

    latencies: NDArray[np.int64]
    """Nanoseconds of each request."""
    starts: NDArray[np.int64]
    """The instant of CLOCK_MONOTONIC at which each request began."""
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
    """Several load generators for one target, which stay connected between windows. Use as a context."""

    def __init__(self, target: Target, concurrency: int) -> None:
        """Start them, each with a warm connection. Raises BenchError if one cannot connect."""
        self.target = target
        self._workers = [_Worker(target) for _ in range(concurrency)]
        try:
            for worker in self._workers:
                worker.answer()
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [worker.pid for worker in self._workers]

    def measure(self, seconds: float) -> MeasurementWindow:
        """Send requests for a time. Raises BenchError if one fails."""
        start = time.monotonic_ns() + _HEAD_START_NS
        end = start + round(seconds * 1e9)
        for worker in self._workers:
            worker.tell({"start_ns": start, "end_ns": end})
        answers = [worker.answer() for worker in self._workers]
        latencies = [np.frombuffer(base64.b64decode(answer["latencies"]), np.int64) for answer in answers]
        rates = (
            len(own) / (answer["elapsed_ns"] / 1e9)
            for own, answer in zip(latencies, answers, strict=True)
            if answer["elapsed_ns"]
        )
        starts = [
            answer["begun_ns"] + np.cumsum(own) - own for own, answer in zip(latencies, answers, strict=True)
        ]  # each request begins when the one before it is answered
        return MeasurementWindow(
            np.concatenate(latencies),
            np.concatenate(starts),
            sum(rates),
            sum(answer["send_ns"] for answer in answers),
            sum(answer["receive_ns"] for answer in answers),
        )

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.wait()


class _Worker:
    """A load generator's process, which is spawned: gRPC does not survive a fork."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nnhal_tools.bench.serve.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with suppress(BrokenPipeError):  # the missing answer, or its error, is reported when it is read
            self._write(target.to_json())

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def tell(self, window: dict[str, int]) -> None:
        """Request a window."""
        with suppress(BrokenPipeError):
            self._write(json.dumps(window))

    def answer(self) -> dict[str, Any]:
        """Read its next answer. Raises BenchError."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"{self._target.title}: a load generator ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self._target.title}: {answer['error']}")
        return answer

    def end(self) -> None:
        """Close its input, which ends it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait(self) -> None:
        """Wait until it has ended; kill it if that takes too long."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
