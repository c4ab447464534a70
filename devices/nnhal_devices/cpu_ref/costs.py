"""The cost model of cpu_ref: numpy on one core, as measured on a current x86 server."""

from __future__ import annotations

from nnhal.types import OperandType
from nnhal_devices.costs import Roofline

ROOFLINE = Roofline(
    overhead_ns=15_000,
    bytes_per_ns=7,
    default_macs_per_ns=2,
    macs_per_ns={OperandType.TENSOR_FLOAT32: 6, OperandType.TENSOR_FLOAT16: 5},
)
