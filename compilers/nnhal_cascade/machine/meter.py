"""Cost of a run, as the machine counts it: from what it executes, and not from the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.performance.price import StripePlaces, Timeline, copy_cycles
from nnhal_cascade.performance.stripe_pricer import StripePricer


@dataclass(frozen=True, slots=True)
class RunMeasurement:
    """Time and traffic of one run of a machine."""

    peak: int
    """Bytes of the working memory: the end of the highest buffer that was in it."""
    peaks: Mapping[str, int]
    """The same for each region, by name."""
    live: int
    """The most bytes of activations that were alive at once, in all regions: written, and still to be read."""
    cycles: int
    """Modelled cycles."""
    stripes: int
    """How many stripes were run."""
    macs: int
    """Multiply-adds."""
    read: Mapping[str, int]
    """Bytes that were read from each region, by name. What the client loads and stores is not counted."""
    written: Mapping[str, int]
    """Bytes that were written to each region, by name."""


class Meter:
    """Adds up one run. A stripe waits for the copies of its constants, which run beside other stripes."""

    def __init__(self, pricer: StripePricer, system: System) -> None:
        self._pricer, self._system = pricer, system
        self._timeline = Timeline()
        self._ready: dict[tuple[int, int], int] = {}
        self._moved: tuple[defaultdict[str, int], defaultdict[str, int]] = defaultdict(int), defaultdict(int)
        self._macs = self._count = 0
        self._peaks: defaultdict[str, int] = defaultdict(int)
        self._live = self._most_live = 0

    def begin_plan(self) -> None:
        """The parts of a plan start: each fills the NPU's pipeline."""
        self._timeline.begin_plan()

    def allocated(self, region: str, end: int) -> None:
        """A buffer that ends at an address was allocated."""
        self._peaks[region] = max(self._peaks[region], end)

    def lived(self, change: int) -> None:
        """Bytes came to life, or died."""
        self._live += change
        self._most_live = max(self._most_live, self._live)

    def copied(self, part: int, slot: int, destination: str, size: int) -> None:
        """A copy of constants to a slot was issued."""
        source = self._system.constants.name
        self._ready[part, slot] = self._timeline.copy(copy_cycles(self._system, source, destination, size))
        self._move({source: size}, {destination: size})

    def ran(self, part: int, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces, slot: int | None) -> None:
        """A stripe ran; ``slot`` is that of its constants if they were copied."""
        price = self._pricer.price(part, output, inputs, places)
        self._timeline.run(part, price, 0 if slot is None else self._ready.get((part, slot), 0))
        self._macs += price.macs
        self._count += 1
        self._move(price.read, price.written)

    def measurement(self) -> RunMeasurement:
        """Return what the run has taken."""
        read, written = self._moved
        return RunMeasurement(
            self._peaks[self._system.working.name],
            dict(self._peaks),
            self._most_live,
            self._timeline.end,
            self._count,
            self._macs,
            dict(read),
            dict(written),
        )

    def _move(self, read: Mapping[str, int], written: Mapping[str, int]) -> None:
        for total, moved in zip(self._moved, (read, written), strict=True):
            for region, size in moved.items():
                total[region] += size
