"""Make a plan fit: values to DDR, stripes, later loads, until the tiles' memory suffices in every stage."""

from __future__ import annotations

from typing import NamedTuple

from nnhal_mlip.compiler.planning.allocation import aligned, live_bytes
from nnhal_mlip.compiler.planning.buffers import BufferPlan, BufferPlanner
from nnhal_mlip.compiler.planning.choices import PlanChoices
from nnhal_mlip.compiler.planning.plans import TilePlan, make_plan
from nnhal_mlip.compiler.planning.relief import reliefs
from nnhal_mlip.compiler.planning.setting import PlanSetting
from nnhal_mlip.program.sizes import ceil_divide

_SLACK = 32
"""If addresses take more than what is in use, the plan is made for one in so many bytes less."""


class PlanMisfit(NamedTuple):
    """A layer that takes too much memory, whatever is done."""

    layer: int
    wanted: int
    """Bytes of each tile, in whole pages, with what is pinned."""


def fit(setting: PlanSetting, choices: PlanChoices) -> TilePlan | PlanMisfit:
    """Return a plan that fits, made from choices by ever more changes; or what does not fit if no change is left."""
    less = 0
    planner = BufferPlanner(setting)
    while True:
        plan = planner.plan(choices)
        found = plan.buffers()
        pinned = sum(aligned(buffer.bytes) for buffer in found if buffer.pinned)
        pages = ceil_divide(pinned, setting.page) * setting.page
        limit = setting.capacity // setting.page * setting.page - pages - less
        live = live_bytes(found, len(plan.stages))
        if max(live) <= limit:
            placed = make_plan(setting, choices, planner)
            if placed.fits:
                return placed
            less += max(setting.capacity // _SLACK, placed.wanted - setting.capacity)
            continue
        changed = _relieve(setting, choices, plan, live, limit)
        if changed is None:
            stage = live.index(max(live))
            layer = plan.stages[min(stage, len(plan.stages) - 1)].layer
            wanted = ceil_divide(max(live) + less, setting.page) * setting.page + pages
            return PlanMisfit(layer, wanted)
        choices = changed


def _relieve(
    setting: PlanSetting, choices: PlanChoices, plan: BufferPlan, live: list[int], limit: int
) -> PlanChoices | None:
    """Return choices that take less memory in the stages that take too much; None if one of them can take no less."""
    subjects: set[object] = set()
    over = sorted((stage for stage, count in enumerate(live) if count > limit), key=lambda stage: (-live[stage], stage))
    buffers = [buffer for buffer in plan.buffers() if not buffer.pinned]
    for stage in over:
        here = [buffer for buffer in buffers if buffer.begin <= stage <= buffer.end]
        if subjects & {subject for buffer in here for subject in (buffer.root or buffer.layer, buffer.layer)}:
            continue
        ways = list(reliefs(setting, choices, plan, stage, here))
        if not ways:
            return None
        excess = live[stage] - limit
        best = max(ways, key=lambda way: min(way.gain, excess) / (way.cost + 1))
        choices = best.choices
        subjects.add(best.subject)
    return choices
