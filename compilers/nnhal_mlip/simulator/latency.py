"""The figures that the driver reports of a model: how long its runs took in hardware, and in firmware beside it."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple


class LatencySpread(NamedTuple):
    """Modelled nanoseconds over all runs; 0 if there was none."""

    average: float
    minimum: float
    maximum: float


class ModelLatency(NamedTuple):
    """The figures of a model."""

    runs: int
    hardware: LatencySpread
    """From the start to the end of the program."""
    firmware: LatencySpread
    """From the start to the end of a request, without the hardware's share."""


class LatencyMeter:
    """Adds up the runs of a model. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._sums = [0.0, 0.0]
        self._lowest = [0.0, 0.0]
        self._highest = [0.0, 0.0]

    def add(self, hardware_ns: float, firmware_ns: float) -> None:
        """Count a run."""
        with self._lock:
            for index, value in enumerate((hardware_ns, firmware_ns)):
                self._sums[index] += value
                self._lowest[index] = min(self._lowest[index], value) if self._count else value
                self._highest[index] = max(self._highest[index], value)
            self._count += 1

    def figures(self) -> ModelLatency:
        """Return the figures so far."""
        with self._lock:
            hardware, firmware = (
                LatencySpread(total / max(self._count, 1), lowest, highest)
                for total, lowest, highest in zip(self._sums, self._lowest, self._highest, strict=True)
            )
            return ModelLatency(self._count, hardware, firmware)
