"""The cost model of gpu_acc: a mid-range mobile GPU with four Valhall cores at 950 MHz.

A core does 32 multiply-adds of float32 per cycle and twice as many of float16, which makes 120 and 240 per
nanosecond; kernels of neural networks reach a third of that. Memory is LPDDR4X with 17 bytes in a nanosecond,
which the GPU shares with the rest of the chip. The times of a kernel, a launch, a sync and an import are estimates of
what OpenCL drivers of that class need, not measurements.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType
from nnhal_devices.backend import TransferCosts
from nnhal_devices.cpu_ref.performance import ROOFLINE as REFERENCE
from nnhal_devices.gpu_acc.optimize import Fusion, fuse
from nnhal_devices.roofline import Roofline

ROOFLINE = Roofline(
    overhead_ns=20_000,
    bytes_per_ns=10,
    default_macs_per_ns=40,
    macs_per_ns={OperandType.TENSOR_FLOAT32: 40, OperandType.TENSOR_FLOAT16: 80},
)

TRANSFER_COSTS = TransferCosts(hop_ns=120_000, sync_ns=60_000, import_ns=25_000, copy_ns_per_byte=0.15)


def fused_operation_ns(model: ResolvedModel, found: Sequence[Fusion]) -> list[float]:
    """The time of each operation of main with these fusions. A fused activation takes no time of its own."""
    fused_away = {fusion.activation for fusion in found}
    costs = iter(ROOFLINE.operation_ns(fuse(model, found)))
    return [0.0 if number in fused_away else next(costs) for number, _ in enumerate(model.model.main.operations)]


_POWER = 0.3
"""The energy of a multiply-add of a GPU core, relative to a CPU core: an estimate."""

CAPABILITIES = ROOFLINE.capabilities(
    REFERENCE,
    _POWER,
    [OperandType.FLOAT32, OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, OperandType.FLOAT16],
)
