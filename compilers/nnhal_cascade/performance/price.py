"""The prices of stripes and of copies, and what a sequence of them takes: what planner and device share."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from nnhal_cascade.hardware.memory import System


class Price(NamedTuple):
    """Cost of running one stripe of a part. All of it adds up over stripes."""

    cycles: int
    """Cycles in the steady state: the largest of arithmetic, output and the accesses to each region."""
    fill: int
    """Cycles to fill the pipeline, paid once for a part in a plan: the NPU overlaps a stripe with the one before."""
    macs: int
    """Multiply-adds."""
    read: dict[str, int]
    """Bytes read from each region, by name."""
    written: dict[str, int]
    """Bytes written to each region, by name."""


class StripePlaces(NamedTuple):
    """The regions, by name, that a stripe reads and writes."""

    inputs: tuple[str, ...]
    """For each of the part's inputs."""
    output: str
    constants: str
    """Empty if the part has no constants."""


def copy_cycles(system: System, source: str, destination: str, size: int) -> int:
    """Return the cycles of a copy between two regions: those of the slower side. Reading starts with a latency.

    Raises:
        ValueError: the system has no region of one of the names.
    """
    if size == 0:
        return 0
    from_, to = system.region(source), system.region(destination)
    return ceil(max(size / from_.bandwidth + from_.read_latency, size / to.bandwidth))


class Timeline:
    """Counts the cycles of a schedule.

    The DMA engine does one copy after the other, beside the NPU; a copy starts when it is issued, at the earliest. The
    NPU does one stripe after the other and waits for the constants of a stripe.
    """

    def __init__(self) -> None:
        self.now = 0
        """Cycles until the NPU has finished what it was given."""
        self._copied = 0
        self._fills: dict[int, int] = {}

    @property
    def end(self) -> int:
        """Cycles until all stripes and all copies are complete."""
        return max(self.now, self._copied)

    def begin_plan(self) -> None:
        """Start a plan: its parts fill the NPU's pipeline anew."""
        self._fills.clear()

    def copy(self, cycles: int) -> int:
        """Issue a copy, and return the cycle at which it is complete."""
        self._copied = max(self._copied, self.now) + cycles
        return self._copied

    def run(self, part: int, price: Price, ready: int = 0) -> None:
        """Run a stripe of a part whose constants are there at cycle ``ready``."""
        fill = self._fills.get(part, 0)
        self._fills[part] = max(fill, price.fill)
        self.now = max(self.now, ready) + price.cycles + max(0, price.fill - fill)
