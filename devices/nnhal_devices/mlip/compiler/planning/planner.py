"""The fastest of several plans, for each number of tiles that is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from nnhal_devices.mlip.compiler.emission.ddr import DdrMap
from nnhal_devices.mlip.compiler.emission.emit import emit
from nnhal_devices.mlip.compiler.planning.choices import PlanChoices
from nnhal_devices.mlip.compiler.planning.choosing import choose
from nnhal_devices.mlip.compiler.planning.fitting import PlanMisfit, fit
from nnhal_devices.mlip.compiler.planning.plans import TilePlan, make_plan
from nnhal_devices.mlip.compiler.planning.setting import PlanSetting
from nnhal_devices.mlip.program.program import MlipProgram
from nnhal_devices.mlip.timing.queues import timeline

_WEIGHTS_SHARES = (3, 8)
"""One in so many bytes of a tile's memory is what the weights of one stage may take: larger numbers make more stages,
which wait less for their weights.
"""
_LEADS = (1, 3)


class TimedProgram(NamedTuple):
    """A program, and how long it takes."""

    plan: TilePlan
    program: MlipProgram
    ddr: DdrMap
    cycles: int


def proposals(setting: PlanSetting) -> Iterator[PlanChoices]:
    """Yield the first choices of the plans that are tried."""
    for share in _WEIGHTS_SHARES:
        choices = choose(setting, share)
        for lead in _LEADS:
            yield replace(choices, lead=lead)


def fastest(setting: PlanSetting, others: tuple[PlanChoices, ...] = ()) -> TimedProgram | PlanMisfit:
    """Return the fastest program for a number of tiles; or what does not fit.

    Args:
        setting: What it is for.
        others: Choices to try as they are, beside those that are made for the setting.
    """
    best: TimedProgram | None = None
    misfit: PlanMisfit | None = None
    for choices in proposals(setting):
        plan = fit(setting, choices)
        if isinstance(plan, PlanMisfit):
            misfit = plan if misfit is None or plan.wanted < misfit.wanted else misfit
        else:
            best = faster(best, timed(plan))
    for choices in others:
        plan = make_plan(setting, choices)
        if plan.fits:
            best = faster(best, timed(plan))
    if best is not None:
        return best
    assert misfit is not None
    return misfit


def timed(plan: TilePlan) -> TimedProgram:
    """Return the program of a plan that fits."""
    program, ddr = emit(plan, plan.setting.housed.scales)
    return TimedProgram(plan, program, ddr, timeline(program, plan.setting.profile).total)


def faster(one: TimedProgram | None, other: TimedProgram) -> TimedProgram:
    """Return the faster of two programs; the first of equals."""
    return other if one is None or other.cycles < one.cycles else one
