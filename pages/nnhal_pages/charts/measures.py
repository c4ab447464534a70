"""What numbers of charts measure: units, ticks of axes, and logarithmic scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import NamedTuple

from nnhal_pages.svg import Scale


class Tick(NamedTuple):
    """A place on an axis."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Measure:
    """Units of one kind, the smallest first, each with the number of basic units that it has."""

    units: tuple[tuple[float, str], ...]
    whole: bool = False
    """Whether there are no parts of the basic unit."""

    def words(self, value: float) -> str:
        """Return a value with its unit, in about three digits: ``1.25 MiB``."""
        factor, unit = self._unit(value)
        number = value / factor
        if number == int(number) or abs(number) >= 100:
            return f"{number:,.0f}{unit}"
        return f"{number:.3g}{unit}"

    def ticks(self, scale: Scale, count: int) -> Iterator[Tick]:
        """Yield about ``count`` round values of an axis, all in the unit that suits its length."""
        factor, unit = self._unit(scale.high - scale.low)
        for value in Scale(scale.low / factor, scale.high / factor, scale.start, scale.end).ticks(count):
            if not (self.whole and factor == 1 and value != int(value)):
                yield Tick(value * factor, f"{value:,.10g}{unit}" if value else "0")

    def unit(self, reach: float) -> tuple[str, Measure]:
        """Return the unit that suits values up to ``reach``, and what writes values in it without its name."""
        factor, unit = self._unit(reach)
        return unit.strip(), Measure(((factor, ""),), self.whole and factor == 1)

    def _unit(self, value: float) -> tuple[float, str]:
        return next((each for each in reversed(self.units) if abs(value) >= each[0]), self.units[0])


_BINARY = ((1, " B"), (1 << 10, " KiB"), (1 << 20, " MiB"), (1 << 30, " GiB"))
BYTES = Measure(_BINARY, whole=True)
BYTES_PER_SECOND = Measure(tuple((factor, f"{unit}/s") for factor, unit in _BINARY))
COUNT = Measure(((1, ""), (1e3, " k"), (1e6, " M"), (1e9, " G")), whole=True)
"""Also for cycles."""
PER_SECOND = Measure(((1, "/s"), (1e3, " k/s"), (1e6, " M/s")))
MILLISECONDS = Measure(((1e6, " ms"),))
"""Nanoseconds in one unit, whatever they are, for charts beside each other."""
NANOSECONDS = Measure(((1, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")))
SHARE = Measure(((0.01, " %"),))
"""Of 1."""


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
        return float(10.0**self.scale.low)

    def ticks(self) -> Iterator[Tick]:
        """Yield the powers of ten, each at its magnitude."""
        for power in range(int(self.scale.low), int(self.scale.high) + 1):
            yield Tick(power, f"{10.0**power:,.10g}" if -4 < power < 7 else f"1e{power}")
