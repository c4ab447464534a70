"""One stripe of a part, with the memories that it reads and writes."""

from __future__ import annotations

from typing import NamedTuple

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.hardware.memory import MemoryRegion
from nnhal_cascade.performance.workload import PartWorkload


class PricedStripe(NamedTuple):
    """What the cost of a stripe depends on."""

    workload: PartWorkload
    output: Shape
    """The extents of the stripe."""
    inputs: tuple[Shape, ...]
    """The extents of what it reads of each input, without padding."""
    sources: tuple[MemoryRegion, ...]
    """The region of each input."""
    destination: MemoryRegion
    constants: MemoryRegion | None
    """None if the part has no constants."""

    @property
    def macs(self) -> int:
        """Multiply-adds of one pass; those of padding count, since the NPU makes them."""
        if not self.workload.has_accumulators:
            return 0
        window = self.workload.kernel.height * self.workload.kernel.width
        return window * self.output.elements * (self.inputs[0].channels if self.workload.sums_channels else 1)
