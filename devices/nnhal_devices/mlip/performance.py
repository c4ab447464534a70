"""The performance figures of mlip: its array's for float16, relaxed float32 and 8-bit types, none for other types."""

from __future__ import annotations

from dataclasses import replace

from nnhal.operations.operand_types import F16, Q8A, Q8AS, Q8C
from nnhal.types import SLOWEST, Capabilities
from nnhal_devices.cpu_ref.performance import ROOFLINE as REFERENCE
from nnhal_devices.roofline import Roofline
from nnhal_mlip.program.program import TensorType
from nnhal_mlip.timing.profile import TimingProfile

_POWER = 0.02
"""The energy of a multiply-add, relative to cpu_ref: a guess, as all figures of a profile are."""
_NS = 1e9


def capabilities_of(profile: TimingProfile, tiles: int) -> Capabilities:
    """Return the figures of so many tiles. A network seldom keeps all of them busy."""
    cycles_per_ns = tiles * profile.clock_hz / _NS
    half, byte = (profile.macs(each) * cycles_per_ns for each in (TensorType.FP16, TensorType.INT8))
    roofline = Roofline(
        overhead_ns=0,
        bytes_per_ns=profile.ddr_bytes * profile.clock_hz / _NS,
        default_macs_per_ns=half,
        macs_per_ns={F16: half, Q8A: byte, Q8AS: byte, Q8C: byte},
    )
    found = roofline.capabilities(REFERENCE, _POWER, (F16, Q8A, Q8AS, Q8C))
    return replace(found, if_performance=SLOWEST, while_performance=SLOWEST)
