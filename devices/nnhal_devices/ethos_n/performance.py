"""Speed of ethos_n: the cost model of the emulated NPU, and the figures of the HAL that follow from it.

4 TOP/s at 1 GHz: 2048 multiply-adds per cycle of a nanosecond, two operations each. One channel of 32-bit LPDDR4-3200
gives 12.8 bytes per nanosecond. Before an operation begins, its commands and its first stripe are fetched: 2 us.
"""

from __future__ import annotations

from nnhal.operations.operand_types import Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal_devices.backend import TransferCosts
from nnhal_devices.npu_capabilities import quant8_capabilities
from nnhal_devices.roofline import Roofline

QUANT8 = (Q8A, Q8AS)
"""The types of activations, which the speed of an operation depends on."""

ROOFLINE = Roofline(
    overhead_ns=2_000,
    bytes_per_ns=12.8,
    default_macs_per_ns=2048,
    macs_per_ns=dict.fromkeys(QUANT8, 2048),
)

TRANSFER_COSTS = TransferCosts(import_ns=5_000)
"""An import enters a buffer's pages into the NPU's page table. A launch costs the same as on any device."""


def inference_ns(model: ResolvedModel) -> int:
    """The time of one run of a model: the sum of its operations."""
    return round(sum(ROOFLINE.operation_ns(model)))


CAPABILITIES = quant8_capabilities(ROOFLINE, power=0.02)
