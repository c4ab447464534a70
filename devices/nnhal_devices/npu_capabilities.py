"""The performance figures of an NPU for 8-bit networks."""

from __future__ import annotations

from dataclasses import replace

from nnhal.operations.operand_types import Q8A, Q8AS, Q8C
from nnhal.types import SLOWEST, Capabilities
from nnhal_devices.cpu_ref.performance import ROOFLINE as REFERENCE
from nnhal_devices.roofline import Roofline


def quant8_capabilities(roofline: Roofline, power: float) -> Capabilities:
    """Return the figures of a cost model for 8-bit types, and none for other types and for control flow.

    ``power`` is the energy of a multiply-add, relative to cpu_ref.
    """
    return replace(
        roofline.capabilities(REFERENCE, power, (Q8A, Q8AS, Q8C)),
        relaxed_float32_to_float16_scalar=SLOWEST,
        relaxed_float32_to_float16_tensor=SLOWEST,
        if_performance=SLOWEST,
        while_performance=SLOWEST,
    )
