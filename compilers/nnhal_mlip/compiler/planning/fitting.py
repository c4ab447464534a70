"""Make a plan fit: values to DDR, stripes, later loads, until the tiles' memory suffices in every stage; and haste.

A plan that fits begins loads of constants earlier where memory is free, so that the DMA engine need not wait.
"""

from __future__ import annotations

from typing import NamedTuple

from nnhal_mlip.compiler.planning.allocation import aligned, live_bytes
from nnhal_mlip.compiler.planning.buffers import BufferPlan, BufferPlanner, OcmBuffer
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


_SLACKS = (16, 6, 3, 2)
"""One in so many bytes of the free memory's limit is left free, since addresses take more than what is in use."""
_MOST = 64
"""By how many stages a load may be ahead."""


def hasten(plan: TilePlan) -> TilePlan | None:
    """Return a plan in which constants are loaded as early as memory allows; None if none of them can be earlier."""
    setting = plan.setting
    buffers = plan.buffers.buffers()
    live = live_bytes(buffers, len(plan.buffers.stages))
    pages = ceil_divide(plan.totals.pinned, setting.page)
    room = (setting.capacity // setting.page - pages) * setting.page
    weights: dict[int, list[OcmBuffer]] = {}
    for buffer in plan.buffers.weights.values():
        if not buffer.pinned:
            weights.setdefault(buffer.layer, []).append(buffer)
    for slack in _SLACKS:
        choices = plan.choices
        for layer, lead in _leads(plan, weights, list(live), room - room // slack).items():
            choices = choices.with_lead(layer, lead)
        if choices == plan.choices:
            continue
        found = make_plan(setting, choices)
        if found.fits:
            return found
    return None


def _leads(plan: TilePlan, weights: dict[int, list[OcmBuffer]], live: list[int], limit: int) -> dict[int, int]:
    """Return the leads of layers whose loads can be earlier: all in turn by a stage, in the order of the layers."""
    found: dict[int, int] = {}
    begins = {layer: [buffer.begin for buffer in weights[layer]] for layer in sorted(weights)}
    waiting = list(begins)
    for _ in range(_MOST):
        moved = []
        for layer in waiting:
            before = max((begins[other][0] for other in begins if other < layer), default=0)
            added: dict[int, int] = {}
            for begin, buffer in zip(begins[layer], weights[layer], strict=True):
                added[begin - 1] = added.get(begin - 1, 0) + aligned(buffer.bytes)
            if begins[layer][0] <= before or any(live[stage] + size > limit for stage, size in added.items()):
                continue
            for stage, size in added.items():
                live[stage] += size
            begins[layer] = [begin - 1 for begin in begins[layer]]
            found[layer] = found.get(layer, plan.choices.ahead(layer)) + 1
            moved.append(layer)
        if not moved:
            break
        waiting = list(begins)
    return found
