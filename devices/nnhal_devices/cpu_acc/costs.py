"""The cost model of cpu_acc: ONNX Runtime on one core, as measured on a current x86 server."""

from __future__ import annotations

from nnhal.types import OperandType
from nnhal_devices.costs import Roofline

ROOFLINE = Roofline(
    overhead_ns=3_000,
    bytes_per_ns=18,
    default_macs_per_ns=4,
    macs_per_ns={
        OperandType.TENSOR_FLOAT32: 40,
        OperandType.TENSOR_FLOAT16: 20,
        OperandType.TENSOR_QUANT8_ASYMM: 50,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED: 50,
    },
)
