"""Begin loads of constants earlier where memory is free, so that the DMA engine need not wait."""

from __future__ import annotations

from nnhal_mlip.compiler.planning.allocation import aligned, live_bytes
from nnhal_mlip.compiler.planning.buffers import OcmBuffer
from nnhal_mlip.compiler.planning.plans import TilePlan, make_plan
from nnhal_mlip.program.sizes import ceil_divide

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
