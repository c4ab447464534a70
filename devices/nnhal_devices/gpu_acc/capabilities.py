"""The performance figures of gpu_acc: its cost model's against those of the reference driver."""

from __future__ import annotations

from nnhal.types import OperandType
from nnhal_devices.cpu_ref.costs import ROOFLINE as REFERENCE
from nnhal_devices.gpu_acc.costs import ROOFLINE

_POWER = 0.3
"""The energy of a multiply-add of a GPU core, relative to a CPU core: an estimate."""

CAPABILITIES = ROOFLINE.capabilities(
    REFERENCE,
    _POWER,
    [OperandType.FLOAT32, OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, OperandType.FLOAT16],
)
