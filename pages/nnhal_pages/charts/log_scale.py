"""Scales of magnitudes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from nnhal_pages.charts.measures import Tick
from nnhal_pages.svg import Scale


class LogScale:
    """From positive values to positions, by their magnitudes, between powers of ten."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        """``values`` are to lie on it. Those that are not positive do not count."""
        known = [value for value in values if value > 0] or [1.0]
        low = floor(log10(min(known)))
        self.scale = Scale(low, max(ceil(log10(max(known))), low + 1), start, end)
        """From magnitudes to positions."""

    def __call__(self, value: float) -> float:
        return self.scale(log10(value))

    @property
    def least(self) -> float:
        """The lowest value."""
        return float(10.0**self.scale.low)

    def ticks(self) -> Iterator[Tick]:
        """Yield the powers of ten, each at its magnitude."""
        for power in range(int(self.scale.low), int(self.scale.high) + 1):
            yield Tick(power, f"{10.0**power:,.10g}" if -4 < power < 7 else f"1e{power}")
