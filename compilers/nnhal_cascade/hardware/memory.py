"""The memories around an NPU, and which of them holds what."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from nnhal_cascade.hardware.accelerators import Accelerator


class Content(StrEnum):
    """Content that a region may hold."""

    ACTIVATIONS = "activations"
    CONSTANTS = "constants"


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    name: str
    size: int
    """Bytes."""
    bandwidth: float
    """Bytes a cycle of the NPU."""
    read_latency: int
    """Cycles."""
    write_latency: int
    """Cycles."""
    burst: int
    """Bytes of one access; a shorter one takes as long."""
    holds: frozenset[Content]

    def as_table(self) -> dict[str, Any]:
        """Return what a file of memories, and JSON, have of it."""
        return {**asdict(self), "holds": sorted(self.holds)}


@dataclass(frozen=True, slots=True)
class System:
    """An accelerator with its memories.

    The first region that may hold activations is the working memory: cascades keep their buffers in it, and a budget is
    a number of its bytes. A further region that may hold activations takes tensors that do not fit. The last region
    that may hold constants is where they lie at rest, and is not the working memory; they are copied from there if a
    plan says so and the working memory may hold constants.
    """

    name: str
    accelerator: Accelerator
    clock_hz: int
    regions: tuple[MemoryRegion, ...]

    @property
    def working(self) -> MemoryRegion:
        """The region of the cascades' buffers."""
        return next(region for region in self.regions if Content.ACTIVATIONS in region.holds)

    @property
    def constants(self) -> MemoryRegion:
        """The region in which constants lie at rest."""
        return next(region for region in reversed(self.regions) if Content.CONSTANTS in region.holds)

    @property
    def spill(self) -> MemoryRegion | None:
        """The region of tensors that do not fit into the working memory, if there is one."""
        others = [region for region in self.regions if Content.ACTIVATIONS in region.holds and region != self.working]
        return others[0] if others else None

    def region(self, name: str) -> MemoryRegion:
        """Return a region by its name.

        Raises:
            ValueError: there is none of that name.
        """
        for region in self.regions:
            if region.name == name:
                return region
        names = ", ".join(region.name for region in self.regions)
        raise ValueError(f"{self.name} has no region {name!r}: expected one of {names}")
