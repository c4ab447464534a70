"""Speed of cpu_ref: numpy on one core, as measured on a current x86 server.

It is the reference, so every ratio of its capabilities is 1.
"""

from __future__ import annotations

from nnhal.types import Capabilities, OperandPerformance, OperandType, OperationType, PerformanceInfo
from nnhal_devices.roofline import Roofline

ROOFLINE = Roofline(
    overhead_ns=15_000,
    bytes_per_ns=7,
    default_macs_per_ns=2,
    macs_per_ns={OperandType.TENSOR_FLOAT32: 6, OperandType.TENSOR_FLOAT16: 5},
    quantised_macs_per_ns={
        # The fixed-point arithmetic of each element takes numpy many passes over wider integers.
        OperationType.ADD: 0.07,
        OperationType.SUB: 0.07,
        OperationType.MUL: 0.13,
        OperationType.PRELU: 0.12,
        OperationType.HARD_SWISH: 0.2,
        OperationType.LOGISTIC: 0.2,
        OperationType.TANH: 0.2,
        OperationType.SOFTMAX: 0.05,
        OperationType.AVERAGE_POOL_2D: 0.04,
        OperationType.DEPTHWISE_CONV_2D: 0.5,
        OperationType.BATCH_MATMUL: 0.5,
    },
)

_REFERENCE = PerformanceInfo(exec_time=1.0, power_usage=1.0)

CAPABILITIES = Capabilities(
    relaxed_float32_to_float16_scalar=_REFERENCE,
    relaxed_float32_to_float16_tensor=_REFERENCE,
    operand_performance=tuple(
        OperandPerformance(code, _REFERENCE) for code in OperandType if code != OperandType.SUBGRAPH
    ),
    if_performance=_REFERENCE,
    while_performance=_REFERENCE,
)
