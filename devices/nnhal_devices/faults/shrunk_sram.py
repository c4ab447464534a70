"""Compiling with less SRAM than the device has, since a fault has taken some."""

from __future__ import annotations

from dataclasses import replace

from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.types import OptimizationViews
from nnhal_devices.driver import Driver, PrepareOptions, ShrinkableDriver, Workload
from nnhal_devices.faults.fault_set import ActiveFault, Point
from nnhal_devices.faults.injection import DeviceFaults, tell, told
from nnhal_devices.faults.model_facts import ModelFacts, facts_of
from nnhal_hosting.faults import ShrunkSramFault


def shrunk_workload(
    driver: Driver, faults: DeviceFaults, model: ResolvedModel, options: PrepareOptions, facts: ModelFacts
) -> Workload | None:
    """Prepare a model for the SRAM that is left; return None if nothing is missing. Raises HalError."""
    least = _least(faults, facts)
    if least is None or not isinstance(driver, ShrinkableDriver):
        return None
    active, size = least
    try:
        return driver.prepare_within(model, options, size)
    except HalError as error:
        if error.status != ShrunkSramFault.error_status:
            raise
        raise HalError(error.status, f"{told(active)}: {error.message}") from error


def shrunk_views(driver: Driver, faults: DeviceFaults, model: ResolvedModel) -> OptimizationViews | None:
    """Optimise a model for the SRAM that is left; return None if nothing is missing. Raises HalError."""
    least = _least(faults, facts_of(model.model))
    if least is None or not isinstance(driver, ShrinkableDriver):
        return None
    active, size = least
    views = driver.optimize_within(model, size)
    return replace(
        views, failed=tuple(each._replace(reason=f"{each.reason} ({told(active)})") for each in views.failed)
    )


def _least(faults: DeviceFaults, facts: ModelFacts) -> tuple[ActiveFault, int] | None:
    """The fault that leaves least, and how much; each that the present call meets is told.

    Only a driver that has SRAM of its own may have such faults.
    """
    met = faults.set.met(Point.COMPILE, facts)
    for active in met:
        tell(active, facts, f"{_left(active):,} bytes of SRAM are left")
    return min(((active, _left(active)) for active in met), key=lambda each: each[1], default=None)


def _left(active: ActiveFault) -> int:
    assert isinstance(active.fault, ShrunkSramFault)
    return active.fault.bytes
