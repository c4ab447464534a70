"""A plan: decisions, the buffers that they ask for, and addresses."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_mlip.compiler.geometry.box_bytes import PlacedBox
from nnhal_mlip.compiler.planning.allocation import AllocationTotals, place
from nnhal_mlip.compiler.planning.buffers import BufferPlan, BufferPlanner, OcmBuffer
from nnhal_mlip.compiler.planning.choices import PlanChoices
from nnhal_mlip.compiler.planning.setting import PlanSetting
from nnhal_mlip.program.sizes import ceil_divide


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Work of the tiles in time, and the place of everything."""

    setting: PlanSetting
    choices: PlanChoices
    buffers: BufferPlan
    offsets: dict[int, int]
    """The offsets of pinned buffers from the first address, of others from ``floor``; by the identity of the buffer."""
    totals: AllocationTotals

    @property
    def wanted(self) -> int:
        """The bytes of each tile that it takes, in whole pages."""
        page = self.setting.page
        return (ceil_divide(self.totals.pinned, page) + ceil_divide(self.totals.scratch, page)) * page

    @property
    def fits(self) -> bool:
        """Return whether the tiles have that much."""
        return self.wanted <= self.setting.capacity

    @property
    def weights_end(self) -> int:
        """The end of the pinned buffers."""
        return self.setting.base + self.totals.pinned if self.totals.pinned else 0

    @property
    def floor(self) -> int:
        """The lowest address of what is not pinned: the start of a page."""
        page = self.setting.page
        return self.setting.base + self.setting.capacity - ceil_divide(self.totals.scratch, page) * page

    def address(self, buffer: OcmBuffer) -> int:
        return (self.setting.base if buffer.pinned else self.floor) + self.offsets[id(buffer)]

    def placed(self, buffer: OcmBuffer, tile: int) -> PlacedBox:
        return PlacedBox(self.address(buffer), buffer.boxes[tile], self.setting.item)


def make_plan(setting: PlanSetting, choices: PlanChoices, planner: BufferPlanner | None = None) -> TilePlan:
    """Return the plan of decisions; whether it fits is for the caller to ask."""
    buffers = (planner or BufferPlanner(setting)).plan(choices)
    offsets, totals = place(buffers.buffers())
    return TilePlan(setting, choices, buffers, offsets, totals)
