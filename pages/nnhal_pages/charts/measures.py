"""Units of the numbers in charts, and ticks of their axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    """True if there are no parts of the basic unit."""

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
