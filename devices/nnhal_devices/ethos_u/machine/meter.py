"""What a run costs, as the machine counts it: from what it executes, and not from the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from nnhal_devices.ethos_u.cascader.geometry.box import Shape
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.copying import copy_cycles
from nnhal_devices.ethos_u.cascader.performance.price import StripePlaces
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import StripePricer


@dataclass(frozen=True, slots=True)
class RunMeasurement:
    """What one run of a machine took."""

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
    """Adds up one run.

    In a plan the NPU waits for exposed copies; then each part fills the pipeline once, and each of its stripes takes
    its price. While a stripe runs, a copy to the other of two slots runs beside it: the longer of the two counts.
    """

    def __init__(self, pricer: StripePricer, system: System) -> None:
        self._pricer, self._system = pricer, system
        self._cycles = 0
        self._fills: dict[int, int] = {}
        self._copies: dict[tuple[int, int], int] = {}
        self._moved: tuple[defaultdict[str, int], defaultdict[str, int]] = defaultdict(int), defaultdict(int)
        self._macs = self._count = 0
        self._peaks: defaultdict[str, int] = defaultdict(int)
        self._live = self._most_live = 0

    def begin_plan(self) -> None:
        """The pipeline is empty, and no copy is under way."""
        self._settle()

    def allocated(self, region: str, end: int) -> None:
        """A buffer that ends at an address was allocated."""
        self._peaks[region] = max(self._peaks[region], end)

    def lived(self, change: int) -> None:
        """Bytes came to life, or died."""
        self._live += change
        self._most_live = max(self._most_live, self._live)

    def copied(self, part: int, slot: int, destination: str, size: int, beside: bool) -> None:
        """Constants are copied to a slot: beside the next stripe, or before it."""
        source = self._system.constants.name
        cycles = copy_cycles(self._system, source, destination, size)
        self._move({source: size}, {destination: size})
        if beside:
            self._copies[part, slot] = cycles
        else:
            self._cycles += cycles

    def ran(self, part: int, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces, slot: int | None) -> None:
        """A stripe ran; ``slot`` is that of its constants if they are double buffered."""
        if slot is not None:
            self._cycles += self._copies.pop((part, slot), 0)
        price = self._pricer.price(part, output, inputs, places)
        self._cycles += max(price.cycles, sum(self._copies.values()))
        self._copies.clear()
        self._fills[part] = max(self._fills.get(part, 0), price.fill)
        self._macs += price.macs
        self._count += 1
        self._move(price.read, price.written)

    def measurement(self) -> RunMeasurement:
        """Return what the run has taken."""
        self._settle()
        read, written = self._moved
        return RunMeasurement(
            self._peaks[self._system.working.name],
            dict(self._peaks),
            self._most_live,
            self._cycles,
            self._count,
            self._macs,
            dict(read),
            dict(written),
        )

    def _settle(self) -> None:
        """Wait for all copies, and count what filling the pipeline took."""
        self._cycles += sum(self._copies.values()) + sum(self._fills.values())
        self._copies.clear()
        self._fills.clear()

    def _move(self, read: Mapping[str, int], written: Mapping[str, int]) -> None:
        for total, moved in zip(self._moved, (read, written), strict=True):
            for region, size in moved.items():
                total[region] += size
