"""The performance figures of ethos_u: its accelerator's for 8-bit types, and none for types that it lacks."""

from __future__ import annotations

from nnhal.types import Capabilities
from nnhal_cascade.hardware.memory import System
from nnhal_devices.costs import Roofline
from nnhal_devices.npu_capabilities import quant8_capabilities

_NS = 1_000_000_000


def capabilities_of(system: System) -> Capabilities:
    """Return the figures of a system."""
    cycles_per_ns = system.clock_hz / _NS
    return quant8_capabilities(
        Roofline(
            overhead_ns=0,
            bytes_per_ns=system.working.bandwidth * cycles_per_ns,
            default_macs_per_ns=system.accelerator.macs * cycles_per_ns,
            macs_per_ns={},
        ),
        power=0.01,
    )
