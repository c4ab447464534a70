"""Which faults a driver cannot have, and why."""

from __future__ import annotations

from nnhal_devices.driver import Driver, ShrinkableDriver
from nnhal_hosting.faults import Fault, ShrunkSramFault, ValuesFault


def objection_to(fault: Fault, driver: Driver) -> str:
    """Say why a driver cannot have a fault; empty if it can."""
    if isinstance(fault, ShrunkSramFault):
        return _of_sram(fault, driver)
    if isinstance(fault, ValuesFault) and fault.layer and driver.backend.memory is not None:
        return f"layer: {driver.name} computes on another host; set the fault there"
    return ""


def _of_sram(fault: ShrunkSramFault, driver: Driver) -> str:
    if not isinstance(driver, ShrinkableDriver):
        return (
            f"{driver.name} has no SRAM of its own; the fault's 'device' is to name devices that have, such as ethos_u"
        )
    if fault.bytes >= driver.working_bytes:
        return f"bytes: got {fault.bytes:,}, expected fewer than the {driver.working_bytes:,} of {driver.name}"
    return ""
